"""How journeys drive a browser: by what a person reads and types, not by how the page is made."""

import shutil
import time
from contextlib import contextmanager
from importlib.util import find_spec

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
STARTS = 3  # of a browser
PATIENCE = 40.0  # s that a journey waits for something at most


def missing():
    """Return why no browser can be driven here; None where one can."""
    if find_spec("selenium") is None:
        return "selenium is not installed: pip install 'eigenveil[browser]'"
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"{program} is not installed: apt-get install chromium chromium-driver"
    return None


@contextmanager
def chromium(profile):
    """Yield a new browser with a profile of its own."""
    driver = _started(profile)
    try:
        yield driver
    finally:
        driver.quit()


def _started(profile):
    """Start a browser; on a busy machine it may not answer its driver in time, once or twice."""
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service

    for start in range(STARTS):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in (*FLAGS, f"--user-data-dir={profile}/{start}", "--window-size=1280,900"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        try:
            return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        except WebDriverException:
            if start == STARTS - 1:
                raise
    raise AssertionError("the loop returns or raises")


class Page:
    """A studio in a browser."""

    def __init__(self, driver, address):
        self.driver, self.address = driver, address
        self.base = address.partition("?")[0]

    def open(self, where=None):
        """Open the first address, or a place of the page."""
        self.driver.get(self.address if where is None else f"{self.base}#{where}")

    def text(self):
        return self.driver.execute_script("return document.body.innerText")

    def until(self, words, *, patience=PATIENCE):
        """Wait until the page says something."""
        end = time.monotonic() + patience
        while words not in (text := self.text()):
            assert time.monotonic() < end, f"waited for {words!r}, and the page says:\n{text}"
            time.sleep(0.05)
        return text

    def find(self, selector):
        from selenium.webdriver.common.by import By

        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def press(self, words):
        """Press the button or the link with these words, as a person would."""
        found = self.driver.execute_script(
            "return [...document.querySelectorAll('button, a, summary, label')]"
            ".find(e => e.textContent.trim().startsWith(arguments[0]) && e.offsetParent)",
            words,
        )
        assert found is not None, f"no button {words!r} in:\n{self.text()}"
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
        self._still(found)
        found.click()

    def _still(self, found):
        """Wait until an element stays in its place: a press would miss one that moves."""
        end, before = time.monotonic() + PATIENCE, None
        while (now := found.rect) != before:
            assert time.monotonic() < end, "the page does not come to rest"
            before = now
            time.sleep(0.1)

    def type(self, selector, words):
        """Replace what a field holds."""
        from selenium.webdriver.common.keys import Keys

        field = self.find(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", field)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(words, Keys.TAB)

    def choose(self, selector, value):
        """Choose an option by its value."""
        from selenium.webdriver.support.select import Select

        Select(self.find(selector)).select_by_value(value)

    def settled(self):
        """Wait until a prediction is there."""
        end = time.monotonic() + PATIENCE
        busy = (
            "const e = document.querySelector('#expected');"
            "return !e || e.matches('[aria-busy]') || /Predicting/.test(e.innerText)"
        )
        while self.driver.execute_script(busy):
            assert time.monotonic() < end, self.text()
            time.sleep(0.05)

    def size(self, width, height=900, *, dark=False):
        """Become a screen of another size, or one that is dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)

    def picture(self, path, width=1280, *, dark=False, most=2600):
        """Save the whole page as a picture."""
        self.size(width, dark=dark)
        time.sleep(0.4)
        script = "return document.documentElement.scrollHeight"
        self.size(width, min(most, self.driver.execute_script(script)), dark=dark)
        time.sleep(0.4)
        self.driver.save_screenshot(str(path))

    def complaints(self):
        """Return what the browser has complained of: errors of scripts, and of the policy."""
        return [line["message"] for line in self.driver.get_log("browser")]

    def close_others(self):
        """Leave one tab, and the size of a desk."""
        first, *others = self.driver.window_handles
        for handle in others:
            self.driver.switch_to.window(handle)
            self.driver.close()
        self.driver.switch_to.window(first)
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
