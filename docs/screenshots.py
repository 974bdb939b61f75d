"""Take the pictures of the explorer: ``python docs/screenshots.py MODEL``.

MODEL is made by ``rankencoder demo -o MODEL``; its sentences are the docstrings of this machine's Python.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from rankencoder.demo import docstrings
from rankencoder.search.rank_index import RankIndex

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
IMAGES = Path(__file__).parent / "images"
SENTENCES = {
    "a": "Return the names of the files in a folder.",
    "b": "List what a directory contains.",
    "c": "Return a list of the names of all threads.",
}


def compare(page: Any) -> None:
    """Type the sentences of the demo."""
    for letter, text in SENTENCES.items():
        page.locator(f"#sentence-{letter} textarea").fill(text)
    page.locator(".re-column .re-text", has_text="director").first.wait_for()
    page.wait_for_timeout(500)


def maps(page: Any) -> None:
    """Select a region of the first map."""
    page.get_by_role("tab", name="Maps").click()
    page.locator(".re-maps[data-ready]").wait_for()
    box = page.locator("canvas").first.bounding_box()
    x, y, size = box["x"], box["y"], box["width"]
    page.mouse.move(x + 0.2 * size, y + 0.22 * size)
    page.mouse.down()
    page.mouse.move(x + 0.34 * size, y + 0.36 * size)
    page.mouse.up()


def search(page: Any) -> None:
    """Search, and list near-duplicates."""
    page.get_by_role("tab", name="Search").click()
    page.locator("#query textarea, #query input").fill("Remove a folder and everything in it.")
    page.locator(".re-hits .re-text", has_text="delete").first.wait_for()
    page.locator("#results").get_by_text("5", exact=True).click()
    page.locator("#where textarea, #where input").fill('{"function": {"not": "test"}}')
    page.locator("#find-duplicates").click()
    page.locator(".re-twins li").first.wait_for()


def label(page: Any) -> None:
    """Answer 32 questions: the same where most words are."""
    page.get_by_role("tab", name="Label").click()
    page.get_by_text("1 of 120").wait_for()
    shown = "document.querySelector('.re-asked').textContent"
    while page.locator("[data-progress]").inner_text() != "33 of 120":
        a, b = (set(page.locator(f"[data-{letter}]").inner_text().lower().split()) for letter in "ab")
        before = page.evaluate(shown)
        page.keyboard.press("y" if 2 * len(a & b) > len(a | b) else "n")
        page.wait_for_function(f"before => {shown} !== before", arg=before)
    page.locator("[data-summary]", has_text="30 answers").wait_for()


def take(url: str) -> None:
    """Take a picture of each tab, and one as on a phone."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        for name, act, width, height, scheme in (
            ("compare", compare, 1180, 1240, "light"),
            ("maps", maps, 1180, 1150, "dark"),
            ("search", search, 1180, 1250, "light"),
            ("label", label, 1180, 720, "light"),
            ("phone", compare, 390, 1180, "dark"),
        ):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(url)
            page.locator(".re-pair").first.wait_for()
            act(page)
            page.mouse.move(2, 2)
            page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
            page.wait_for_timeout(500)
            path = IMAGES / f"explorer-{name}.png"
            page.screenshot(path=path)
            Image.open(path).convert("RGB").quantize(192).save(path, optimize=True)
        browser.close()


def main(model: str) -> None:
    """Index the functions of the standard library, and show the model on a free port."""
    with TemporaryDirectory() as folder:
        functions = docstrings.functions(docstrings.standard_library())
        rows = [{"text": found.purpose, "function": found.name} for found in functions]
        index = Path(folder) / "python-functions"
        RankIndex.build(model, rows, index)
        command = [
            sys.executable,
            "-m",
            "rankencoder",
            "explore",
            model,
            "--index",
            str(index),
            "--labels",
            str(index.with_name("labels.tsv")),
            "--port",
            "0",
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            take(next(found[1] for line in process.stderr if (found := re.search(r"ready at (\S+)", line))))
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main(sys.argv[1])
