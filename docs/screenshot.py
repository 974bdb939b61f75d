"""Take a picture of a report: ``python docs/screenshot.py report.html docs/report.png [SECTION]``.

Of its top, light, or of a section, dark. ::

    python docs/screenshot.py report.html docs/report-curves.png curves

The report in the picture was made of all-MiniLM-L6-v2 with 10,000 Wikipedia sentences as reference corpus::

    rankencoder build ENCODER corpus.txt -o all-MiniLM-L6-v2
    rankencoder evaluate all-MiniLM-L6-v2 --data SentEval/data
    rankencoder report evaluation -o report.html
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

if __name__ == "__main__":
    page_file, picture, *section = sys.argv[1:]
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        scheme = "dark" if section else "light"
        page = browser.new_page(viewport={"width": 1180, "height": 1500}, color_scheme=scheme)
        page.goto("#".join([Path(page_file).resolve().as_uri(), *section]))
        page.wait_for_timeout(2000)  # the page scrolls smoothly
        page.screenshot(path=picture)
        browser.close()
