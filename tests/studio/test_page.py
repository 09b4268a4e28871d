"""The first page: small, without anything inline, and there before anything heavy is imported."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import eigenveil.studio

STATIC = Path(eigenveil.studio.__file__).parent / "static"
MODULES = sorted(STATIC.glob("*.js"))


def test_the_first_page_is_small(browser):
    """HTML with the state inside, style, frame, one tab: four requests. Questions follow."""
    page = browser.get(browser.base).text
    linked = re.findall(r'(?:src|href)="(static/[^"]+)"', page)
    assert len(linked) == 2
    tab = "static/plan.js" if (STATIC / "plan.js").exists() else "static/read.js"
    sizes = [len(browser.get(f"{browser.base}{name}").content) for name in (*linked, tab)]
    assert sum(sizes) + len(page) < 150_000
    imported = re.findall(
        r'^import .* from "\./([a-z]+\.js)"', (STATIC / tab[7:]).read_text(), re.M
    )
    assert set(imported) == {"studio.js"}


def test_nothing_is_inline_and_nothing_comes_from_elsewhere():
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<script[^>]*>([^<]*)", page) == [""]
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page)
    for path in (*MODULES, STATIC / "index.html", STATIC / "studio.css"):
        text = path.read_text()
        addresses = set(re.findall(r"https?://[^\s\"')]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/2000/svg'"}
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write"):
            assert word not in text, path.name
        assert not re.search(r"@import|url\((?!#)", text.replace("url(#", ""))


def test_names_of_files_cannot_break_out_of_the_page(studio, folder):
    from tests.studio.conftest import Browser

    (folder / 'a"><script>alert(1)<.csv').touch()
    page = Browser(studio).get(studio.address.path).text
    assert "<script>alert" not in page
    state = re.search(r'data-state="([^"]*)"', page)[1]
    assert "<script>alert" in unescape(state)


def test_the_frame_is_there_before_anything_heavy():
    code = (
        "import sys, eigenveil.studio.server, eigenveil.studio.command\n"
        "print([name for name in ('numpy', 'scipy', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    bright, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_text_stands_out_in_light_and_dark():
    """4.5 to 1 for text on every ground it is put on, 3 to 1 for borders of controls."""
    style = (STATIC / "studio.css").read_text().replace("#fff;", "#ffffff;")
    for theme in re.findall(r":root \{(.*?)\}", style, re.S):
        tokens = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", theme))
        for ground in ("card", "wash", "signal-soft", "noise-soft"):
            for words in ("ink", "soft", "signal", "noise"):
                assert contrast(tokens[words], tokens[ground]) >= 4.5, (words, ground)
        for words, ground in (("card", "signal"), ("card", "ink")):  # buttons
            assert contrast(tokens[words], tokens[ground]) >= 4.5
        for ground in ("card", "wash"):
            assert contrast(tokens["edge"], tokens[ground]) >= 3
    assert "prefers-reduced-motion: no-preference" in style
