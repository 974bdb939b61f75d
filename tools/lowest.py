"""The lowest versions that pyproject.toml declares, as pip's constraints.

Example: `python tools/lowest.py train report -o lowest.txt; pip install -c lowest.txt '.[train,report]'`
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]


def project() -> dict[str, Any]:
    """Return the project table of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def declared(extras: list[str], where: dict[str, str] | None = None) -> list[Requirement]:
    """Return what package and extras need (on this Python, or where), extras of extras too."""
    table = project()
    found = [Requirement(text) for text in table["dependencies"]]
    waiting, seen = list(extras), set[str]()
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for requirement in map(Requirement, table["optional-dependencies"][extra]):
            if requirement.name == table["name"]:
                waiting += requirement.extras
            elif requirement.marker is None or requirement.marker.evaluate(where):
                found.append(requirement)
    return found


def lowest(requirement: Requirement) -> str:
    """Return the lowest version that a requirement allows.

    >>> lowest(Requirement("mkdocs>=1.6,<2"))
    '1.6'
    """
    for specifier in requirement.specifier:
        if specifier.operator in (">=", "=="):
            return specifier.version
    raise SystemExit(f"pyproject.toml: {requirement} has no lower bound")


def pins(extras: list[str], fixed: dict[str, str]) -> dict[str, str]:
    """Return name and lowest version of everything declared; some versions may be fixed."""
    found: dict[str, str] = {}
    for requirement in declared(extras):
        name = re.sub("[-_.]+", "-", requirement.name).lower()
        version = fixed.get(name, lowest(requirement))
        if found.setdefault(name, version) != version:
            raise SystemExit(f"pyproject.toml: {name} has two lower bounds, {found[name]} and {version}")
    return found


def main() -> None:
    """Write the constraints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("extras", nargs="*", help="extras besides the plain package")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--fix", nargs="*", default=[], metavar="NAME=VERSION", help="other than the lowest")
    args = parser.parse_args()
    fixed = dict(text.split("=", 1) for text in args.fix)
    lines = [f"{name}=={version}\n" for name, version in sorted(pins(args.extras, fixed).items())]
    args.output.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
