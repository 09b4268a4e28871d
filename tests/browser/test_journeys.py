"""Journeys of people through the studio, in a real browser."""

import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from eigenveil import Ledger, Release
from eigenveil.studio.guard import forwarding

LEDGER = "sample.ledger"


def ready(page, folder, *, total=3.0):
    """Start a ledger, and take columns as they are."""
    Ledger.create(folder / LEDGER, epsilon=total, delta=1e-6, unit="person")
    page.open("plan/table/sample.csv")
    in_one_unit(page)


def in_one_unit(page):
    page.until("Who is protected")
    page.press("All columns share one unit")
    page.settled()


def confirm(page):
    page.press("Review the promise")
    page.until("What will be released")


def spend(page):
    page.find("#sure").click()
    page.press("Spend ")


def test_from_a_table_to_a_release_that_is_read(page, folder):
    page.until("This table has no ledger yet")
    page.type("#total", "4")
    page.press("Start the ledger")
    page.until("What the ledger has left")
    in_one_unit(page)
    assert "Clear components" in page.text()
    page.type("#epsilon", "2")
    page.settled()
    page.until("What ε = 2 promises")
    confirm(page)
    page.press("Spend ")  # the box is empty
    page.until("Tick the box first.")
    assert not Ledger(folder / LEDGER).entries
    page.press("The same as a command")
    assert "eigenveil fit sample.csv " in page.text()
    assert "--unit patient_id" in page.text()
    assert "PrivatePCA(" in page.text()
    spend(page)
    page.until("is released")
    release = Release.load(folder / "sample-release")
    assert len(Ledger(folder / LEDGER).entries) == 1
    page.press("Read the release")
    text = page.until("What the components are made of")
    assert release.guarantee.odds() in text
    page.press("Ledger")
    page.until("What one more release would leave")
    page.press("Federation")
    page.until("No server of a federation")
    assert page.complaints() == []


def test_columns_with_names_are_standardised_unless_they_share_a_unit(page, folder):
    Ledger.create(folder / LEDGER, epsilon=3, delta=1e-6, unit="person")
    page.open("plan/table/sample.csv")
    page.until("Columns have different units")
    page.settled()
    confirm(page)
    text = page.text()
    assert ", standardised" in text
    assert "of the variance of standardised columns that any " in text
    page.press("The same as a command")
    assert "--scale private" in page.text()
    assert 'scale="private"' in page.text().replace("'", '"')
    spend(page)
    page.until("is released")
    assert Release.load(folder / "sample-release").mechanism == "correlation"
    page.press("Read the release")
    page.until("Components of standardised columns (correlations), of rows")
    assert page.complaints() == []


def test_levels_are_typed_and_shown_before_the_release(page, folder):
    ready(page, folder)
    page.choose("[aria-label='What becomes of ward']", "levels")
    page.until("name the levels of 'ward'", patience=20)
    levels = page.find("[aria-label='Levels of ward, one in each line']")
    assert levels.get_attribute("value") == ""  # nothing is filled in
    page.press("Review the promise")
    assert "What will be released" not in page.text()
    page.type("[aria-label='Levels of ward, one in each line']", "north\nwest, far")
    page.settled()
    confirm(page)
    text = page.text()
    assert "0 or 1 for each of 'north', 'west, far'; 0 in all for any other value" in text
    assert "2 levels stated by the caller: 'north', 'west, far'" in text
    spend(page)
    page.until("is released")
    page.until("The ledger sample.ledger was charged for")
    release = Release.load(folder / "sample-release")
    assert release.feature_names[:2] == ("ward=north", "ward=west, far")


def test_a_table_that_grows_after_the_promise_is_not_released(page, folder):
    ready(page, folder)
    confirm(page)
    with (folder / "sample.csv").open("a") as stream:
        stream.write("9999,north,1,2,3,4,5,6\n")
    spend(page)
    page.until("changed since the promise was shown")
    assert "No run was started." in page.text()
    assert not Ledger(folder / LEDGER).entries
    page.press("Look at the promise again")
    page.until("4,001 persons")
    spend(page)
    page.until("is released")


def test_a_studio_that_is_gone_does_not_say_what_was_spent(page, folder):
    ready(page, folder)
    confirm(page)
    page.driver.execute_script("window.fetch = () => Promise.reject(new TypeError('gone'))")
    spend(page)
    text = page.until("The studio does not answer")
    assert "The run may have started all the same. The ledger tells." in text


def test_a_bad_file_shows_why_and_nothing_else(page, folder, tmp_path):
    ready(page, folder)
    good = folder / "good"
    from eigenveil import PrivatePCA

    rows = [[float(i % 7), float(i % 5), float(i % 3)] for i in range(500)]
    PrivatePCA(2, epsilon=5, delta=1e-5, random_state=0).fit(rows).release_.save(good)
    shutil.copytree(good, folder / "bad")
    altered = (good / "release.json").read_bytes().replace(b"replace-one", b"replace-two", 1)
    (folder / "bad" / "release.json").write_bytes(altered)
    page.open("read/bad")
    text = page.until("This release was not opened")
    assert "SHA256SUMS" in text
    assert "What is promised" not in text
    page.open("read")
    page.until("Drop a release here")
    (tmp_path / "wrong.zip").write_bytes(b"this is no zip")
    page.find("#zip").send_keys(str(tmp_path / "wrong.zip"))
    page.until("This release was not opened")
    page.open("read/good")
    page.until("What is promised")


def test_a_refused_budget_says_what_fits(page, folder):
    ready(page, folder, total=0.5)
    page.type("#epsilon", "2")
    page.settled()
    text = page.until("The ledger does not cover ε = 2.")
    assert "Ask for 0.5 or less." in text
    page.press("Review the promise")
    assert "What will be released" not in page.text()
    page.press("Use ε = 0.5")
    page.settled()
    confirm(page)
    assert not Ledger(folder / LEDGER).entries


def test_a_cancelled_run_says_whether_it_was_charged(page, folder):
    ready(page, folder)
    confirm(page)
    spend(page)
    page.until("Stop the run")
    page.press("Stop the run")
    text = page.until("The run was stopped", patience=30)
    charged = len(Ledger(folder / LEDGER).entries)
    assert ("after the charge" in text) == bool(charged)
    assert ("This run charged nothing to the ledger sample.ledger." in text) == (not charged)
    assert not (folder / "sample-release").exists()


def test_two_tabs_spend_at_once_and_the_ledger_decides(page, folder):
    ready(page, folder, total=1.0)
    page.type("#epsilon", "1")
    page.settled()
    confirm(page)
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    page.open("plan/table/sample.csv")
    in_one_unit(page)
    confirm(page)
    page.type("section.card label:nth-of-type(5) input", "other")
    second = page.driver.current_window_handle
    for handle in (first, second):
        page.driver.switch_to.window(handle)
        spend(page)
    ends = []
    for handle in (first, second):
        page.driver.switch_to.window(handle)
        page.until("ledger")
        for _ in range(600):
            text = page.text()
            if any(end in text for end in ("is released", "No run was", "charged nothing to")):
                break
            page.driver.execute_async_script("setTimeout(arguments[0], 50)")
        ends.append("is released" in text)
    assert sorted(ends) == [False, True]
    assert len(Ledger(folder / LEDGER).entries) == 1
    releases = [name for name in ("sample-release", "other") if (folder / name).exists()]
    assert len(releases) == 1
    Release.verify(folder / releases[0])


def test_closing_the_browser_loses_nothing(page, folder):
    ready(page, folder)
    confirm(page)
    spend(page)
    page.until("Stop the run")
    page.driver.get("about:blank")
    for _ in range(400):
        if (folder / "sample-release" / "release.json").exists():
            break
        page.driver.execute_async_script("setTimeout(arguments[0], 50)")
    Release.verify(folder / "sample-release")
    page.open("read")
    page.until("sample-release")


def test_a_phone_scrolls_in_one_direction(page, folder):
    page.size(390, 800)
    ready(page, folder)
    for place in ("plan", "read", "ledger", "federation"):
        page.open(place)
        page.until("eigenveil")
        page.driver.execute_async_script("setTimeout(arguments[0], 700)")
        wide = page.driver.execute_script(
            "return [document.documentElement.scrollWidth, innerWidth]"
        )
        assert wide[0] <= wide[1], place
    page.size(2560, 1400)
    page.open("plan")
    page.until("Who is protected")
    script = "return document.querySelector('.page').getBoundingClientRect().width"
    assert page.driver.execute_script(script) <= 1440


def test_it_can_be_used_without_a_mouse(page, folder):
    """The slider steps through round values, and every field has a name."""
    from selenium.webdriver.common.keys import Keys

    ready(page, folder)
    slider = page.find("#slider")
    slider.send_keys(Keys.ARROW_LEFT)
    page.settled()
    assert page.find("#slider").get_attribute("aria-valuetext").startswith("epsilon 0.7")
    nameless = page.driver.execute_script(
        "return [...document.querySelectorAll('input, select, button')].filter(e =>"
        " !(e.labels && e.labels.length) && !e.getAttribute('aria-label') && !e.textContent.trim())"
        ".map(e => e.outerHTML)"
    )
    assert nameless == []
    page.driver.execute_script("document.querySelector('.epsbox .term').focus()")
    assert "Smaller is more private" in page.text()


ATTACK = """<!doctype html><title>attack</title><p id="said">waiting</p><script>
const base = decodeURIComponent(location.hash.slice(1));
(async () => {
  const said = [];
  for (const [path, options] of [
    ["api/state", {credentials: "include"}],
    ["api/run/start", {method: "POST", credentials: "include", mode: "no-cors", body: "{}"}],
    ["api/ledger/new", {method: "POST", credentials: "include", mode: "no-cors",
      body: JSON.stringify({name: "attack.ledger", epsilon: 9, delta: 1e-6})}],
    ["api/run/start", {method: "POST", credentials: "include", body: "{}",
      headers: {"x-eigenveil-page": "guess"}}],
  ]) {
    try {
      const answer = await fetch(base + path, options);
      said.push(answer.type === "opaque" ? "sent blind" : answer.status);
    } catch (error) { said.push("refused"); }
  }
  document.getElementById("said").textContent = said.join(", ") + ". done";
})();
</script>"""


class _Attacker(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(ATTACK.encode())

    def log_message(self, *words):
        pass


def test_a_file_that_leads_to_the_studio_opens_it_for_good(page, folder, tmp_path):
    """The cookie is strict about other sites; a page that was come to from a file keeps it."""
    page.driver.get("about:blank")
    page.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    page.complaints()  # of what was asked for until now
    (tmp_path / "open.html").write_text(forwarding(page.address))
    page.driver.get((tmp_path / "open.html").as_uri())
    page.until("Who is protected")
    assert page.driver.current_url.partition("#")[0] == page.base
    page.driver.refresh()
    page.until("Who is protected")
    assert page.complaints() == []


def test_a_page_of_another_origin_gets_and_does_nothing(page, folder):
    server = HTTPServer(("127.0.0.1", 0), _Attacker)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        page.driver.get(f"http://127.0.0.1:{server.server_port}/#{page.base}")
        text = page.until("done")
    finally:
        server.shutdown()
        server.server_close()
    assert text.startswith("refused, ")
    assert "200" not in text
    assert sorted(path.name for path in folder.iterdir()) == ["sample.csv"]
    page.driver.get(page.base)  # from elsewhere, without the token: the cookie is there, and works
    page.open()
    page.until("Who is protected")
