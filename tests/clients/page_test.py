"""The chat page of `kimi_k3 serve` in a real browser without a screen: type, stream, stop.

Usage: page_test.py PROGRAM [FOLDER]

Drives Chromium by WebDriver at the width of a desktop and of a phone. With FOLDER it leaves pictures
of the page there. Exits with 77, saying why, where chromium and chromedriver are not installed.
"""

import base64
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from serving import serving, skip, wait_until_idle

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
WIDTHS = {"desktop": (1280, 800), "phone": (390, 844)}


class Browser:
    """A window of a headless Chromium."""

    def __init__(self, driver, chromium, profile):
        self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        for line in self.driver.stdout:
            found = re.search(r"on port (\d+)", line)
            if found and "started" in line:
                break
        self.base = f"http://127.0.0.1:{found.group(1)}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--no-first-run", "--disable-background-networking", "--no-proxy-server",
                     f"--user-data-dir={profile}"]
        options = {"binary": chromium, "args": arguments}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options,
                  "goog:loggingPrefs": {"browser": "ALL"}}
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.base += "/session/" + session["sessionId"]

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()[:600]) from error

    def close(self):
        try:
            self._call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def resize(self, width, height):
        # A headless window may not be narrower than 500: the device is told instead.
        self._call("POST", "/goog/cdp/execute",
                   {"cmd": "Emulation.setDeviceMetricsOverride",
                    "params": {"width": width, "height": height, "deviceScaleFactor": 1,
                               "mobile": width < 600}})

    def open(self, address):
        self._call("POST", "/url", {"url": address})

    def find(self, selector):
        found = self._call("POST", "/element", {"using": "css selector", "value": selector})
        return "/element/" + found[ELEMENT]

    def click(self, selector):
        self._call("POST", self.find(selector) + "/click", {})

    def type(self, selector, text):
        self._call("POST", self.find(selector) + "/value", {"text": text})

    def run(self, script, *arguments):
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector):
        return self.run("const e = [...document.querySelectorAll(arguments[0])].pop();"
                        "return e ? e.textContent : null;", selector)

    def shows(self, selector):
        return self.run("const e = document.querySelector(arguments[0]);"
                        "return !!e && e.getClientRects().length > 0;", selector)

    def picture(self, path):
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def complaints(self):
        log = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]


def until(what, holds, seconds=30):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def check_layout(browser):
    """Nothing sticks out sideways, and what one clicks on is large enough and in the window."""
    wide = browser.run("return document.documentElement.scrollWidth > innerWidth;")
    assert not wide, "the page is wider than the window"
    outside = browser.run("""
        const bad = [];
        for (const e of document.querySelectorAll("button, textarea, input, select")) {
          const box = e.getBoundingClientRect();
          if (!box.width) continue;
          if (box.left < 0 || box.right > innerWidth + 0.5) bad.push((e.id || e.tagName) + " sticks out");
          if (box.height < 24) bad.push((e.id || e.tagName) + " is low");
        }
        const form = document.getElementById("form").getBoundingClientRect();
        if (form.bottom > innerHeight + 0.5) bad.push("the form is below the window");
        return bad;""")
    assert not outside, outside


def check_page(browser, address, name, pictures):
    browser.resize(*WIDTHS[name])
    browser.open(address)
    shot = lambda what: browser.picture(pictures / f"{name}-{what}.png") if pictures else None
    until("the model's name", lambda: browser.text("#model") == "tiny")
    check_layout(browser)
    shot("empty")

    # An answer comes, with its thinking and what it cost.
    browser.type("#prompt", "What does Psalm 23:1 say?\ue007")
    until("the answer", lambda: "The LORD is my shepherd" in (browser.text(".assistant .content") or ""))
    until("its end", lambda: browser.shows("#send") and not browser.shows("#stop"))
    assert "Psalm 23:1" in browser.text(".assistant .thinking > div")
    cost = browser.text(".assistant .cost")
    assert re.search(r"\d+ tokens, [\d.]+ tokens/s, .* read", cost), cost
    assert browser.text(".user .content") == "What does Psalm 23:1 say?"
    check_layout(browser)
    shot("answer")

    # A long one streams, and ends where it is stopped.
    browser.run("document.getElementById('settings').open = true;")
    browser.type("#system", "Go on for ever.")
    browser.run("document.getElementById('effort').value = 'none';")
    browser.run("document.getElementById('temperature').value = '4';")
    check_layout(browser)
    shot("settings")
    browser.run("document.getElementById('settings').open = false;")
    stopped = False
    for _ in range(8):  # some answers end by themselves
        browser.type("#prompt", "Tell me of Elizabeth, and of all that she did and said.\n")
        seen = set()
        until("more of it", lambda: seen.add(browser.text(".assistant:last-child .content"))
              or len(seen) > 2 or browser.shows("#send"))
        shot("streaming")
        browser.run("const stop = document.getElementById('stop'); if (!stop.hidden) stop.click();")
        until("the end", lambda: browser.shows("#send"))
        stopped = "(stopped)" in (browser.text(".assistant:last-child") or "")
        if stopped:
            break
    assert stopped, "no answer was long enough to be stopped"
    assert wait_until_idle(address), "the server goes on after the stop"
    check_layout(browser)
    shot("stopped")

    # What was typed is text, never part of the page.
    browser.run("document.getElementById('tokens').value = '3';")
    browser.type("#prompt", "<b id='forged'>x</b>\n")
    until("the end", lambda: browser.shows("#send") and "forged" in browser.text(".user .content"))
    assert not browser.shows("#forged")

    browser.click("#new")
    assert browser.run("return document.querySelectorAll('.message').length;") == 0
    assert not browser.complaints(), browser.complaints()


def main():
    program = sys.argv[1]
    pictures = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    driver = shutil.which("chromedriver")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not driver or not chromium:
        skip("chromium and chromedriver are not installed (packages chromium, chromium-driver)")
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, serving(program, "-c", "6000") as address:
        browser = Browser(driver, chromium, profile)
        try:
            for name in WIDTHS:
                check_page(browser, address, name, pictures)
        finally:
            browser.close()
    print("the page works at the width of", " and of ".join(f"a {name}" for name in WIDTHS))


if __name__ == "__main__":
    main()
