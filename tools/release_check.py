"""Is this ready to be released? Builds sdist and wheel, looks into them, tries the wheel in new environments.

`make release-check`, or `python tools/release_check.py --extras serve search --keep`: one line for each step.
Environments of extras lie on top of the plain wheel's, to save minutes;
each has one extra alone, so that a dependency that was not declared is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from email.parser import Parser
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from lowest import project

ROOT = Path(__file__).parents[1]
SMOKE = Path(__file__).with_name("release_smoke.py")
CONSTRAINTS = ROOT / "constraints.txt"
LARGEST = 2_000_000
QUICKSTART = "train,demo"  # as README's Install section says
CODE = {".py", ".typed", ".html", ".css", ".js", ".jinja", ".svg", ".json"}
"""What a wheel may hold besides its metadata. JSON: of a few kB."""
FIELDS = ("Name", "Version", "Summary", "License-Expression", "License-File", "Requires-Python", "Keywords")


class Failed(Exception):
    """What a step found wrong."""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command without this source tree on its path; return what it printed."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment = {**kept, "HF_HUB_OFFLINE": "1", "COLUMNS": "200", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}")
    return done.stdout


def step(name: str, work: Callable[[], str | None]) -> bool:
    """Do a step and print one line of it; return whether it went well."""
    start = time.monotonic()
    try:
        told = work() or ""
    except Failed as error:
        print(f"FAILED  {time.monotonic() - start:6.1f} s  {name}: {error}", flush=True)
        return False
    print(f"ok      {time.monotonic() - start:6.1f} s  {name}{': ' if told else ''}{told}", flush=True)
    return True


class Release:
    """The files to be released, and the environments that try them, all in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dist = folder / "dist"
        self.source = folder / "source"
        self.base = folder / "plain"
        self.wheel = self.sdist = Path()
        self.version = ""

    def build(self) -> str:
        """Build the sdist, and the wheel from it, as who installs from PyPI would."""
        run(sys.executable, "-m", "build", "--outdir", self.dist, ROOT)
        (self.wheel,), (self.sdist,) = self.dist.glob("*.whl"), self.dist.glob("*.tar.gz")
        with tarfile.open(self.sdist) as archive:
            archive.extractall(self.folder / "unpacked", filter="data")
        (unpacked,) = (self.folder / "unpacked").iterdir()
        unpacked.rename(self.source)
        return ", ".join(f"{path.name} {path.stat().st_size:,} bytes" for path in (self.wheel, self.sdist))

    def compare(self) -> str:
        """The wheel from the sdist must be the wheel from the source tree."""
        run(sys.executable, "-m", "build", "--wheel", "--outdir", self.folder / "direct", ROOT)
        direct = contents(next((self.folder / "direct").glob("*.whl")))
        ours = contents(self.wheel)
        if different := sorted(
            name for name in direct.keys() | ours.keys() if direct.get(name) != ours.get(name)
        ):
            raise Failed(f"differ: {', '.join(different[:10])}")
        return f"{len(ours)} files"

    def look(self) -> str:
        """The wheel must be small, typed, and hold code alone."""
        size = self.wheel.stat().st_size
        names = list(contents(self.wheel))
        inner = [name for name in names if ".dist-info/" not in name]
        if size >= LARGEST:
            raise Failed(f"{size:,} bytes, {LARGEST:,} are allowed")
        if odd := [n for n in inner if not n.startswith("rankencoder/") or Path(n).suffix not in CODE]:
            raise Failed(f"what is this: {', '.join(odd[:10])}")
        if missing := {"rankencoder/py.typed"} - set(names):
            raise Failed(f"not there: {missing}")
        if not any(name.endswith("licenses/LICENSE") for name in names):
            raise Failed("no licence")
        return f"{len(inner)} files of code"

    def metadata(self) -> str:
        """The metadata must be whole, and PyPI must be able to show the description."""
        run(sys.executable, "-m", "twine", "check", "--strict", self.wheel, self.sdist)
        with zipfile.ZipFile(self.wheel) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            found = Parser().parsestr(archive.read(name).decode())
        if missing := [field for field in FIELDS if not found[field]]:
            raise Failed(f"no {', '.join(missing)}")
        self.version = found["Version"]
        return f"version {self.version}, {found['License-Expression']}, Python {found['Requires-Python']}"

    def install(self) -> str:
        """Install the wheel into an empty environment, with the pinned torch first, as README says."""
        run(sys.executable, "-m", "venv", self.base)
        pip(self.base, "torch")
        pip(self.base, str(self.wheel))
        run(self.base / "bin/pip", "check")
        return f"{len(run(self.base / 'bin/pip', 'list').splitlines()) - 2} packages"

    def versions(self) -> str:
        """The version must be the same wherever it is told."""
        told = {
            "rankencoder --version": run(self.base / "bin/rankencoder", "--version", cwd=self.folder).split()[
                -1
            ],
            "__version__": run(
                self.base / "bin/python",
                "-c",
                "import rankencoder; print(rankencoder.__version__)",
                cwd=self.folder,
            ).strip(),
            "CHANGELOG.md": newest((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
            "sdist": self.sdist.name.removesuffix(".tar.gz").partition("-")[2],
        }
        if other := {place: text for place, text in told.items() if text != self.version}:
            raise Failed(f"{self.version} in the wheel, but {other}")
        return ", ".join(told)

    def smoke(self, name: str, python: Path) -> None:
        """Run a smoke test in a folder of its own, which has what the plain one made."""
        folder = self.folder / f"work-{name}"
        if name == "plain":
            folder.mkdir()
        else:
            shutil.copytree(self.folder / "work-plain", folder)
        run(python, SMOKE, name, self.source, cwd=folder)

    def extra(self, name: str, extras: str) -> str:
        """Install an extra on top of the plain wheel, and see that it does what it is for."""
        venv = self.folder / f"extra-{name}"
        run(sys.executable, "-m", "venv", venv)
        (packages,) = (venv / "lib").glob("python*/site-packages")
        (base,) = (self.base / "lib").glob("python*/site-packages")
        (packages / "base.pth").write_text(f"{base}\n", encoding="utf-8")
        told = pip(venv, f"{self.wheel}[{extras}]")
        self.smoke(name, venv / "bin/python")
        shutil.rmtree(venv)
        installed = re.search(r"Successfully installed (.*)", told)
        return f"{len(installed[1].split()) if installed else 0} more packages"


def pip(venv: Path, *what: str) -> str:
    """Install with the pinned versions, and return what pip told."""
    return run(venv / "bin/python", "-m", "pip", "install", "--no-compile", "-c", CONSTRAINTS, *what)


def contents(wheel: Path) -> dict[str, str]:
    """Return the files of a wheel and the checksums of what is in them."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def newest(changelog: str) -> str:
    r"""Return the newest version of a changelog.

    >>> newest("# Changelog\n\n## 0.2.0 (unreleased)\n\n## 0.1.0\n")
    '0.2.0'
    """
    found = re.search(r"^## (\S+)", changelog, flags=re.MULTILINE)
    return found[1] if found else ""


def check(release: Release, extras: list[str]) -> bool:
    """Take the steps, each of which needs those before; then all extras. Return whether all went well."""
    steps: dict[str, Callable[[], str | None]] = {
        "build": release.build,
        "the sdist builds the same wheel": release.compare,
        "contents": release.look,
        "metadata": release.metadata,
        "wheel into an empty environment": release.install,
        "one version": release.versions,
        "smoke test of the plain wheel": lambda: release.smoke("plain", release.base / "bin/python"),
    }
    if not all(step(name, work) for name, work in steps.items()):
        return False
    return check_extras(release, extras)


def check_extras(release: Release, extras: list[str]) -> bool:
    """Try the quickstart and each extra, also after one that fails."""
    tried = [step("quickstart of README", lambda: release.extra("quickstart", QUICKSTART))]
    for name in extras:
        tried.append(step(f"extra {name}", partial(release.extra, name, name)))
    return all(tried)


def main() -> None:
    """Read the options, and check."""
    known = list(project()["optional-dependencies"])
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--extras", nargs="*", choices=known, default=known, metavar="NAME", help="these only"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder with environments and files")
    args = parser.parse_args()
    start = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="release-check-"))
    try:
        good = check(Release(folder), args.extras)
    finally:
        if args.keep:
            print(f"kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{'ready ' if good else 'FAILED'}  {time.monotonic() - start:6.1f} s  in all")
    sys.exit(not good)


if __name__ == "__main__":
    main()
