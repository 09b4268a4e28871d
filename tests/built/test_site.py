"""The site of make docs: links lead somewhere, nothing comes from elsewhere, it renders."""

import functools
import json
import re
import shutil
import threading
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
pytestmark = [
    pytest.mark.built,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="make docs builds the site"),
]


class Page(HTMLParser):
    """Links, names and resources of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.names, self.resources = [], set(), []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.names |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        for key in ("src", "href"):
            if tag != "a" and found.get(key):
                self.resources.append(found[key])


@functools.cache
def pages():
    return {
        path: Page(path) for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts
    }


def led(path, link):
    """Return the file and the name that a link of a page leads to; None for other machines."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    return target / "index.html" if target.is_dir() else target, unquote(parts.fragment)


def test_every_link_of_the_site_leads_somewhere():
    lost = []
    for path, page in pages().items():
        for link in (*page.links, *page.resources):
            if (found := led(path, link)) is None:
                continue
            target, name = found
            if not target.exists() or (
                name and target in pages() and name not in pages()[target].names
            ):
                lost.append(f"{path.relative_to(SITE)}: {link}")
    assert not lost


def test_nothing_is_fetched_from_another_machine():
    foreign = [
        f"{path.relative_to(SITE)}: {each}"
        for path, page in pages().items()
        for each in page.resources
        if led(path, each) is None and not each.startswith(("data:", "mailto:"))
    ]
    assert not foreign


def test_every_page_of_the_folder_is_on_the_site():
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (SITE / name).exists(), name


def test_pictures_of_notebooks_are_drawn():
    """Every page whose cells draw shows as many pictures at least as cells that begin one."""
    for page in (ROOT / "docs").rglob("*.md"):
        cells = re.findall(r"^```\{code-cell\}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
        drawing = sum("plt.figure(" in cell or "plt.subplots(" in cell for cell in cells)
        if drawing:
            name = page.relative_to(ROOT / "docs").with_suffix(".html")
            shown = [each for each in pages()[SITE / name].resources if "_images/" in each]
            assert len(shown) >= drawing, name


def clicks(start, goal):
    """Return the least number of clicks from one page to another."""
    reached, steps = {start}, 0
    while goal not in reached:
        reached |= {
            found[0]
            for path in reached
            for link in pages()[path].links
            if (found := led(path, link)) and found[0] in pages()
        }
        steps += 1
        assert steps < 10, f"nothing leads to {goal}"
    return steps


@pytest.mark.parametrize(
    "goal",
    [
        "reference/generated/tangent-components.html",
        "proofs/tangent.html",
        "reference/generated/test_tangent.html",
        "for-officers.html",
        "reference/generated/eigenveil.PrivatePCA.html",
    ],
)
def test_three_clicks_from_the_front_page_are_enough(goal):
    assert clicks(SITE / "index.html", SITE / goal) <= 3


def test_every_mechanism_leads_to_its_proof_and_its_tests():
    from eigenveil.mechanisms import entries

    for one in entries():
        page = SITE / "reference" / "generated" / f"{one.name}-{one.releases}.html"
        links = " ".join(pages()[page].links)
        assert f"proofs/{one.proof}.html" in links, one.name
        assert re.search(r"test_\w+\.html", links), one.name


def test_the_sheet_for_officers_has_two_pages():
    (sheet,) = (SITE / "_downloads").rglob("for-officers.pdf")
    assert len(re.findall(rb"/Type\s*/Page\b", sheet.read_bytes())) == 2


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip("chromium and chromium-driver are not installed")
    options = selenium.ChromeOptions()
    options.binary_location = program
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = selenium.ChromeService(driver)
    found = selenium.Chrome(options=options, service=service)
    yield found
    found.quit()


SHOWN = [
    "index.html",
    "start.html",
    "tutorials/hospital.html",
    "concepts/privacy.html",
    "proofs/tangent.html",
    "reference/generated/tangent-components.html",
    "reference/generated/commands.html",
    "comparison.html",
    "search.html?q=tangent",
]


@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_the_site_without_complaint(browser, address, width):
    """No error on the console, no request to another machine, nothing wider than the window."""
    browser.set_window_size(width, 900)
    for page in SHOWN:
        browser.get(f"{address}/{page}")
        assert browser.find_element("css selector", "h1").text, page
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.execute_script(wide) <= 0, f"{page} is wider than {width}"
        errors = [e for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
        assert not errors, page
        for entry in browser.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                url = event["params"]["request"]["url"]
                assert url.startswith((address, "data:", "blob:")), f"{page} asks for {url}"


def test_the_search_finds_a_mechanism(browser, address):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(f"{address}/search.html?q=tangent")
    found = WebDriverWait(browser, 20).until(
        lambda b: b.find_elements("css selector", "ul.search li a")
    )
    assert any("tangent" in one.get_attribute("href") for one in found)
