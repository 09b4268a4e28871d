"""Show cells of shell commands as what one types: without the word that IPython needs."""

from docutils import nodes

MAGIC = "%%bash\n"


def plain(app, doctree: nodes.document) -> None:
    """Take the first line from cells that run in a shell, and mark them for the style."""
    for block in doctree.findall(nodes.literal_block):
        if block.rawsource.startswith(MAGIC) or block.astext().startswith(MAGIC):
            text = block.astext().removeprefix(MAGIC)
            block.rawsource, block["language"] = text, "bash"
            block.children = []
            block += nodes.Text(text)
            cell = block.parent
            while cell is not None and "cell" not in cell.get("classes", []):
                cell = cell.parent
            if cell is not None:
                cell["classes"].append("shell")


def setup(app):
    """Change pages before they are written."""
    app.connect("doctree-read", plain)
    return {"parallel_read_safe": True}
