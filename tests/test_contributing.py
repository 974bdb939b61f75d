"""The map of the folders in CONTRIBUTING.md is true: all that it names is there, and no module is missing."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def mapped() -> list[Path]:
    """Return the files and folders of the map; a name without a folder is in that of the name before it."""
    found = []
    for row in re.findall(r"^\| (`.*`) \|", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE):
        folder = Path()
        for name in re.findall(r"`([^`]+)`", row):
            path = Path(name) if "/" in name.rstrip("/") or not folder.parts else folder / name
            folder = path.parent
            found.append(path)
    return found


def test_what_it_names_is_there():
    assert [str(path) for path in mapped() if not (ROOT / path).exists()] == []


def test_no_module_is_missing():
    places = [ROOT / path for path in mapped()]
    modules = [m for m in (ROOT / "src/rankencoder").rglob("*.py") if not m.name.startswith("_")]
    missing = [m for m in modules if m not in places and not set(m.parents) & set(places)]
    assert [str(module.relative_to(ROOT)) for module in missing] == []
