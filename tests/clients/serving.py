"""Starts `kimi_k3 serve` on models/tiny for a test, and stops it."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77  # the exit code that ctest takes for a test that could not be run


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


@contextlib.contextmanager
def serving(program, *flags):
    """Yields the server's address, such as http://127.0.0.1:40001."""
    environment = {name: value for name, value in os.environ.items() if name != "KIMI_K3_API_KEY"}
    command = [program, "serve", "-m", str(SOURCE / "models/tiny"), "--port", "0", "--threads", "1"]
    process = subprocess.Popen(command + list(flags), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                break
        else:
            raise RuntimeError("the server did not start:\n" + "".join(lines))
        yield found.group(1).rstrip("/")
    finally:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def status_of(address):
    with urllib.request.urlopen(address + "/status", timeout=10) as answer:
        return json.load(answer)


def wait_until_idle(address, seconds=10):
    """Whether nothing is computed any more."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if status_of(address)["running"] == 0:
            return True
        time.sleep(0.05)
    return False
