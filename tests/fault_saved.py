"""What is saved, finished or not, with what reads it and what that gives."""

import hashlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fault_lab import OUTPUTS, QUERY
from fault_runs import run


@dataclass
class Saved:
    """Something that a command left.

    :param folder: Where it is.
    :param arguments: Reads it, from a folder whose ``out`` is a copy of it.
    :param result: What to compare: of a folder, and of how the reading ended.
    """

    folder: Path
    arguments: list[Any]
    result: Any
    files: list[Path] = field(init=False)
    expected: Any = None

    def __post_init__(self):
        found = [path for path in self.folder.rglob("*") if path.is_file() and path.stat().st_size]
        # by age where names are random, so that a number means the same file in every run
        found.sort(
            key=lambda path: (path.parent, path.stat().st_mtime_ns if "rows.lance" in path.parts else 0, path)
        )
        self.files = [path.relative_to(self.folder) for path in found]

    def use(self, folder):
        """Read a copy; return how that ended, and what it gave."""
        ended = run(self.arguments, folder)
        return ended, self.result(folder, ended) if ended.code == 0 else None


SUBJECTS = {
    "model": lambda lab: Saved(
        _only(lab, "build"), ["encode", "out/model", *_encoding(lab)], _file("again.npy")
    ),
    "vectors": lambda lab: Saved(
        _only(lab, "encode"),
        ["encode", lab.model, f"out/{OUTPUTS['encode']}", "--column", "text", "-o", "out/again.npy"],
        _file("again.npy"),
    ),
    "index": lambda lab: Saved(
        _only(lab, "index"), ["search", "out/index", QUERY, "-k", 5, "--json"], _printed
    ),
    "run": lambda lab: Saved(_only(lab, "train"), _evaluating(lab, "out/run"), _printed),
    "evaluation": lambda lab: Saved(
        _only(lab, "evaluate"), ["report", "out/evaluation", "-o", "out/r.md"], _file("r.md")
    ),
    "cache": lambda lab: Saved(
        _only(lab, "evaluate", "cache"), lab.command("evaluate"), _result(lab, "evaluate")
    ),
    "begun build": lambda lab: Saved(
        _begun(lab, "build", ".model.parts/part-000001"), lab.command("build"), _result(lab, "build")
    ),
    "begun encode": lambda lab: Saved(
        _begun(lab, "encode", f".{OUTPUTS['encode']}.parts/part-000002"),
        lab.command("encode"),
        _result(lab, "encode"),
    ),
    "begun train, stage 1": lambda lab: _begun_training(lab, 1),
    "begun train, stage 2": lambda lab: _begun_training(lab, 2),
}


def make_saved(lab, subject):
    """Return something saved, with what it gives undamaged."""
    saved = SUBJECTS[subject](lab)
    folder = lab.new_folder("undamaged")
    shutil.copytree(saved.folder, folder / "out", dirs_exist_ok=True)
    ended, saved.expected = saved.use(folder)
    assert ended.code == 0, f"{subject}: {ended.err}"
    return saved


def _begun_training(lab, stage):
    place = _begun(lab, "train", f"run/work/stage-{stage}/checkpoint-2/manifest.json")
    return Saved(place, ["train", "--resume", "-o", "out/run"], _result(lab, "train"))


def _encoding(lab):
    return [lab.inputs / "other.jsonl", "--column", "text", "-o", "out/again.npy"]


def _evaluating(lab, model):
    pairs = ["--dev", lab.inputs / "pairs.tsv", "-t", "sts", "--no-cache"]
    return ["evaluate", model, *pairs, "-o", "out/evaluation", "--json"]


def _result(lab, name):
    return lambda folder, _: lab.result(name, folder)


def _printed(folder, ended):
    return ended.out.replace(str(folder), "FOLDER")


def _file(name):
    return lambda folder, _: hashlib.sha256((folder / "out" / name).read_bytes()).hexdigest()


def _only(lab, name, output=None):
    """Return a copy of what a command left, less what others are tried with."""
    target = lab.root / "saved" / f"{name}-{output or OUTPUTS[name]}"
    source = lab.undisturbed(name)[2] / (output or OUTPUTS[name])
    target.mkdir(parents=True)
    if source.is_dir():
        shutil.copytree(source, target / source.name)
    else:
        shutil.copy2(source, target)
    return target


def _begun(lab, name, wanted):
    """Return the output of a command that was killed soon after a file was there."""
    folder = lab.new_folder(f"begun {Path(wanted).parts[-3:][0]}")
    run(lab.command(name), folder, kill_when=folder / "out" / wanted)
    assert (folder / "out" / wanted).exists()
    return folder / "out"
