"""The map of the folders in CONTRIBUTING.md is true, whole, and fits on a screen."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`.*?`) \|", TEXT, flags=re.MULTILINE)


def mapped() -> list[Path]:
    """Return the files and folders of the map; a name without a folder is in that of the name before it."""
    found = []
    for row in ROWS:
        folder = Path()
        for name in re.findall(r"`([^`]+)`", row):
            path = Path(name) if "/" in name or not folder.parts else folder / name
            folder = path.parent
            found.append(path)
    return found


def test_what_it_names_is_there():
    assert [str(path) for path in mapped() if not (ROOT / path).exists()] == []


def test_no_room_and_no_flat_module_is_missing():
    places = [ROOT / path for path in mapped()]
    source = ROOT / "src/rankencoder"
    rooms = [file.parent for file in source.rglob("__init__.py") if file.parent != source]
    flat = [path for path in source.glob("*.py") if not path.name.startswith("_")]
    assert [str(path.relative_to(ROOT)) for path in (*rooms, *flat) if path not in places] == []


def test_it_fits_on_a_screen():
    assert len(ROWS) <= 35
