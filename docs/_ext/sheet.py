"""Write docs/for-officers.md as two pages to print: ``python docs/_ext/sheet.py FILE.pdf``.

The same words as on the site: headings, paragraphs, lists and tables of Markdown.
"""

import re
import sys
from pathlib import Path

import matplotlib
from fpdf import FPDF

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "for-officers.md"
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
INK, LINE = (22, 33, 43), (23, 96, 122)
SECOND = "What to check before you sign"  # begins the second page
DOWNLOAD = re.compile(r" `make sheet`.*$", re.MULTILINE)  # the sheet does not lead to itself


def blocks(text: str) -> list[str]:
    """Return the blocks of a page of Markdown, without what leads to the sheet itself."""
    return [block.strip() for block in DOWNLOAD.sub("", text).split("\n\n") if block.strip()]


def words(text: str) -> str:
    """Return Markdown as fpdf2 writes it: code in italics, links as their words."""
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    text = re.sub(r"(?<!\*)\*(?!\*)([^*]+)\*(?!\*)", r"__\1__", text)
    return re.sub(r"`([^`]+)`", r"**\1**", text.replace("--", r"\--"))


def sheet(text: str) -> FPDF:
    """Return the sheet of a page of Markdown."""
    pdf = FPDF(format="A4")
    pdf.set_margins(20, 16)
    pdf.set_auto_page_break(True, margin=14)
    for style, file in (("", "DejaVuSans"), ("B", "DejaVuSans-Bold"), ("I", "DejaVuSans-Oblique")):
        pdf.add_font("sans", style, str(FONTS / f"{file}.ttf"))
    pdf.set_title("eigenveil: for privacy officers")
    pdf.add_page()
    pdf.set_text_color(*INK)
    for block in blocks(text):
        if block.startswith("#"):
            _heading(pdf, block)
        elif block.startswith("|"):
            _table(pdf, block)
        else:
            pdf.set_font("sans", size=11)
            lines = block.split("\n")
            for line in lines if re.match(r"\d\. ", block) else [" ".join(lines)]:
                pdf.multi_cell(0, 5.6, words(line), markdown=True, align="L", new_x="LMARGIN")
                pdf.ln(0.6)
            pdf.ln(1.2)
    return pdf


def _heading(pdf: FPDF, block: str) -> None:
    marks, _, title = block.partition(" ")
    if title == SECOND:
        pdf.add_page()
    pdf.set_font("sans", "B", 16 if marks == "#" else 11.5)
    pdf.set_text_color(*LINE)
    pdf.cell(0, 9 if marks == "#" else 8, title, new_x="LMARGIN", new_y="NEXT")
    pdf.set_text_color(*INK)


def _table(pdf: FPDF, block: str) -> None:
    lines = (line.strip("| ").split(" | ") for line in block.split("\n"))
    head, _, *rows = ([cell.strip() for cell in line] for line in lines)
    pdf.set_font("sans", size=10)
    lines = {"borders_layout": "HORIZONTAL_LINES", "text_align": "LEFT"}
    with pdf.table(line_height=5.6, markdown=True, **lines) as table:
        for cells in (head, *rows):
            row = table.row()
            for cell in cells:
                row.cell(words(cell))
    pdf.ln(2)


def write(path: Path) -> None:
    """Write the sheet to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet(PAGE.read_text("utf-8")).output(str(path))


def setup(app):
    """Write the sheet before the page that leads to it is read."""
    app.connect("builder-inited", lambda app: write(DOCS.parent / "build" / "for-officers.pdf"))
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
