"""Take a picture of a report: ``python docs/screenshot.py report.html docs/report.png``.

The one in the docs is of three encoders on 1,200 pairs of QQP dev::

    rankencoder evaluate all-MiniLM-L6-v2 MiniLM-ranks MiniLM-3-layers --dev questions.tsv
    rankencoder report evaluation -o report.html
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

if __name__ == "__main__":
    page_file, picture = sys.argv[1:]
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1180, "height": 1130})
        page.goto(Path(page_file).resolve().as_uri())
        page.screenshot(path=picture)
        browser.close()
