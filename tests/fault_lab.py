"""What is disturbed: the commands on a tiny model, what they give undisturbed, and what they leave."""

import hashlib
import json
import re
import shutil
from contextlib import suppress
from pathlib import Path

from fault_runs import call, run
from training_runs import flags

COMMANDS = ("build", "encode", "train", "index", "evaluate")
REPLACED = ("build", "encode", "train")
"""The commands that can replace what was there before."""

OUTPUTS = {
    "build": "model",
    "encode": "vectors.parquet",
    "train": "run",
    "index": "index",
    "evaluate": "evaluation",
}
TRAINING = {
    "method": "simcse",
    "batch_size": 8,
    "max_steps": 4,
    "save_steps": 2,
    "logging_steps": 1,
    "reference_size": 60,
    "learning_rate": 1e-3,
    "combine": "sum",
    "rank_loss_weight": 1.0,
}
QUERY = "The cat sees the river 1"
_NOUNS, _VERBS = ("cat", "dog", "river", "house", "song"), ("sees", "moves", "likes", "hears")
# what is not the same twice: times, paces, and where a run was resumed
_TIMES = re.compile(r"second|resumed_at|^created$|^command$|^machine$|^made$|^cost$")
# of times too, in files of others
_PASSED_OVER = (".lock", "README.md", "losses.svg", "manifest.json")


class Lab:
    """A folder of inputs, of undisturbed results, and of one folder for each case.

    :param root: Where it is.
    """

    def __init__(self, root):
        self.root = Path(root)
        self.inputs = self.root / "inputs"
        self.inputs.mkdir(parents=True)
        self._saved, self._undisturbed = {}, {}
        self._write_texts()
        call(self._make_models, self.new_folder("models"))
        assert run(self.command("build", self.model), self.new_folder("model")).code == 0

    @property
    def corpus(self):
        return self.inputs / "corpus.jsonl"

    @property
    def model(self):
        """A RankEncoder that the other commands use."""
        return self.inputs / "model"

    def new_folder(self, name):
        """Return an empty folder for a run, where its output goes to ``out``."""
        folder = self.root / "cases" / name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "out").mkdir(parents=True)
        return folder

    def _write_texts(self):
        texts = [f"The {a} {v} the {b} {n}" for n in range(2) for a in _NOUNS for v in _VERBS for b in _NOUNS]
        lines = [json.dumps({"text": text, "number": n}) for n, text in enumerate(texts)]
        self.corpus.write_text("\n".join(lines) + "\n")
        (self.inputs / "other.jsonl").write_text("\n".join(lines[:50]) + "\n")
        pairs = [f"{n % 6}\t{a}\t{b}" for n, (a, b) in enumerate(zip(texts, texts[7:], strict=False))]
        (self.inputs / "pairs.tsv").write_text("\n".join(pairs[:60]) + "\n")

    def _make_models(self):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
        from tiny_backbones import masked_language_model

        backbone = masked_language_model(self.inputs / "backbone")
        modules = [Transformer(str(backbone)), Pooling(32)]
        SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(self.inputs / "encoder"))

    def command(self, name, output=None, *, older=False, overwrite=False):
        """Return the arguments of a command.

        :param older: Rather those that made what was there before.
        :param overwrite: Replace that.
        """
        output = output or f"out/{OUTPUTS[name]}"
        corpus = self.inputs / "other.jsonl" if older else self.corpus
        replace = ["--overwrite"] if overwrite else []
        if name == "build":
            sizes = ["--size", 150, "--dim", 16, "--column", "text"]
            return ["build", self.inputs / "encoder", corpus, *sizes, "-o", output, *replace]
        if name == "encode":
            return ["encode", self.model, corpus, "--column", "text", "-o", output, *replace]
        if name == "train":
            settings = flags(**TRAINING, backbone=self.inputs / "backbone", column="text", seed=1 + older)
            return ["train", corpus, "-o", output, *settings, *replace]
        if name == "index":
            return ["index", self.model, corpus, "--column", "text", "-o", output]
        sections = ["-t", "sts", "-t", "choice"]
        return ["evaluate", self.model, "--dev", self.inputs / "pairs.tsv", *sections, "-o", output]

    def undisturbed(self, name, *, older=False):
        """Return how a whole run of a command ended, what it gave, and the folder of its output.

        :param older: Rather of the run that made what was there before.
        """
        key = f"{'older' if older else 'undisturbed'} {name}"
        if key not in self._undisturbed:
            folder = self.new_folder(key)
            ended = run(self.command(name, older=older), folder)
            assert ended.code == 0, ended.err
            self._undisturbed[key] = (ended, self.result(name, folder), folder / "out")
        return self._undisturbed[key]

    def size(self, name):
        """Return how many bytes a command leaves; a training needs more on its way."""
        files = [path for path in self.undisturbed(name)[2].rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files) * (3 if name == "train" else 1)

    def inputs_of(self, name):
        """Return the files that a command may read."""
        folders = {"build": "encoder", "train": "backbone"}
        files = [path for path in (self.inputs / folders.get(name, "model")).rglob("*") if path.is_file()]
        return [*sorted(files), self.inputs / "pairs.tsv" if name == "evaluate" else self.corpus]

    def saved(self, subject):
        """Return something that a command left, made when it is first asked for."""
        from fault_saved import make_saved

        if subject not in self._saved:
            self._saved[subject] = make_saved(self, subject)
        return self._saved[subject]

    def result(self, name, folder, place=None):
        """Return a digest of each file that a command leaves, times and the folder's own name aside.

        :param place: Where it is, if not where the command wrote it.
        """
        place = place or folder / "out" / OUTPUTS[name]
        if not place.exists():
            return None
        if name == "index":
            return call(lambda: _index_content(place), folder)
        files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
        kept = [path for path in files if path.name not in _PASSED_OVER and path.suffix != ".damaged"]
        return {str(path.relative_to(place)): _digest(path, folder) for path in sorted(kept)}


def _digest(path, folder):
    data = path.read_bytes().replace(str(folder).encode(), b"FOLDER")
    if path.suffix == ".json":
        with suppress(ValueError):  # it is damaged, and stays so
            data = json.dumps(_timeless(json.loads(data)), sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()


def _timeless(value):
    if isinstance(value, dict):
        # (a digest of what names the folder; the file itself is compared)
        kept = [key for key in value if not _TIMES.search(key) and key != "reference/reference.json"]
        return {key: _timeless(value[key]) for key in kept}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def _index_content(place):
    """Return what an index holds: its rows by id, whatever their order, and what it says of itself."""
    from rankencoder.search.rank_index import RankIndex

    rows = RankIndex.load(place).rows.table.to_arrow().sort_by("id")
    names = ("index.json", "calibration.json")
    about = {name: json.loads((place / name).read_text()) for name in names if (place / name).exists()}
    return {"rows": hashlib.sha256(repr(rows.to_pydict()).encode()).hexdigest(), **about}
