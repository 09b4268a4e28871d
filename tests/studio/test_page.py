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
    """HTML with the state inside, style, frame, one tab: four requests, and one for a plan."""
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
