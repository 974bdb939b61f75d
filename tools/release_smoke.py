"""What a new environment must be able to do: one function for the plain package, and one for each extra.

`release_check.py` runs `python release_smoke.py EXTRA SOURCE` by the Python of that environment, SOURCE being
the unpacked sdist, in a folder with what the plain package made. Nothing of the source tree is imported.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

NOUNS = ("cat", "dog", "river", "house", "teacher", "engine", "garden", "song", "letter", "window")
VERBS = ("sees", "moves", "likes", "breaks", "paints", "hears", "finds", "opens", "follows", "forgets")
SENTENCES = [f"The {a} {v} the {b} {n}" for n in range(2) for a in NOUNS for v in VERBS for b in NOUNS][:1200]
QUICK = ("--max-steps", "3", "--batch-size", "8", "--reference-size", "1000")
HELP = """
from typer.main import get_command
from rankencoder.cli import app
def ask(command, words):
    command.main([*words, "--help"], prog_name="rankencoder", standalone_mode=False)
    for name, inner in getattr(command, "commands", {}).items():
        inner.main(["--help"], prog_name=" ".join(["rankencoder", *words, name]), standalone_mode=False)
        for last, deepest in getattr(inner, "commands", {}).items():
            deepest.main(["--help"], prog_name=f"rankencoder {name} {last}", standalone_mode=False)
ask(get_command(app), [])
"""
SMALL = str(Path(sysconfig.get_paths()["stdlib"]) / "asyncio")  # code for a small demo
LISTENING = 600  # seconds until a server must answer


def run(*command: str, code: int = 0) -> str:
    """Run a command of this environment and return what it printed; it must end with this code."""
    given = [sys.executable, *command]
    done = subprocess.run(given, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    if done.returncode != code:
        raise SystemExit(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def rankencoder(*arguments: str, code: int = 0) -> str:
    """Run rankencoder with these arguments and return what it printed."""
    return run("-m", "rankencoder", *arguments, code=code)


def expect(told: str, *parts: str) -> None:
    """Stop where something was not told."""
    for part in parts:
        if part not in told:
            raise SystemExit(f"expected {part!r} in: {told}")


def make_backbone(folder: Path) -> None:
    """Save a tiny BERT with random weights, and its tokenizer."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    letters = [chr(c) for c in range(97, 123)] + list("0123456789.,:;!?'\"()-")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    tokens += sorted({"the", *NOUNS, *VERBS})
    vocabulary = {token: i for i, token in enumerate(tokens)}
    BertTokenizer(vocab=vocabulary, model_max_length=64).save_pretrained(folder)
    size: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    torch.manual_seed(0)
    BertForMaskedLM(
        BertConfig(vocab_size=len(tokens), max_position_embeddings=64, initializer_range=0.2, **size)
    ).save_pretrained(folder)


def make_encoder(backbone: Path, folder: Path) -> None:
    """Save the tiny BERT as a SentenceTransformer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    model = SentenceTransformer(modules=[Transformer(str(backbone)), Pooling(32)], device="cpu")
    model.save_pretrained(str(folder))


def plain(_: Path) -> None:
    """Build, ask and encode; every help; and what an extra is needed for says so."""
    slow = float(run("-c", "import time; t = time.time(); import rankencoder; print(time.time() - t)"))
    if slow > 1:
        raise SystemExit(f"import rankencoder takes {slow:.1f} s")
    expect(run("-c", HELP), "rankencoder train", "rankencoder data fetch")
    Path("corpus.txt").write_text("\n".join(SENTENCES), encoding="utf-8")
    make_backbone(Path("backbone"))
    make_encoder(Path("backbone"), Path("tiny"))
    rankencoder("build", "tiny", "corpus.txt", "-o", "model", "--size", "1000", "--dim", "16")
    expect(rankencoder("info", "model"), "1,000 sentences")
    expect(rankencoder("explain", "model", "The cat sees the dog", "The dog moves"), "rank_weight")
    expect(rankencoder("encode", "model", "corpus.txt", "-o", "vectors.npy"), "1,200 vectors")
    for extra, command in {
        "train": "train corpus.txt --backbone backbone -o run",
        "search": "index model corpus.txt -o index",
        "serve": "serve model --port 0",
        "explore": "explore model --port 0",
        "ray": "encode model corpus.txt -o far --ray",
        "demo": "demo",
    }.items():
        expect(rankencoder(*command.split(), code=2), "error: ", f"rankencoder[{extra}]")


def data(_: Path) -> None:
    """Vectors to Parquet, and a corpus from it."""
    rankencoder("encode", "model", "corpus.txt", "-o", "vectors.parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"body": SENTENCES}), "corpus.parquet")
    rankencoder("build", "tiny", "corpus.parquet", "--column", "body", "-o", "again", "--size", "1000")


def report(_: Path) -> None:
    """Evaluate on scored pairs, and make a page."""
    rows = [f"{n % 6}\t{SENTENCES[n]}\t{SENTENCES[n + 7]}" for n in range(60)]
    Path("pairs.tsv").write_text("\n".join(rows), encoding="utf-8")
    rankencoder("evaluate", "model", "--dev", "pairs.tsv", "--task", "sts", "-o", "evaluation")
    rankencoder("report", "evaluation", "-o", "report.html")
    expect(Path("report.html").read_text(encoding="utf-8"), "<svg", "</html>")


def train(_: Path) -> None:
    """Train both stages, a few steps."""
    rankencoder("train", "corpus.txt", "--backbone", "backbone", "-o", "run", *QUICK)
    expect(" ".join(os.listdir("run")), "encoder", "rankencoder", "train.yaml", "losses.svg")


def sncse(_: Path) -> None:
    """Import the parser; the model of a language is not in the extra, which the command says."""
    run("-c", "import spacy; assert len(spacy.blank('en')('A cat sleeps.')) == 4")
    asked = ("train", "corpus.txt", "--backbone", "backbone", "--method", "sncse", "-o", "negated", *QUICK)
    expect(rankencoder(*asked, code=2), "spacy download en_core_web_sm")


def search(_: Path) -> None:
    """Make an index and search it."""
    rankencoder("index", "model", "corpus.txt", "-o", "index")
    expect(rankencoder("search", "index", SENTENCES[5], "-k", "3"), SENTENCES[5])
    expect(rankencoder("duplicates", "corpus.txt", "--model", "model"), "1,200 different sentences")


def listen(command: str, path: str, *parts: str) -> None:
    """Start a server, ask it for a page, and stop it."""
    log = Path(f"{command}.log")
    given = [sys.executable, "-m", "rankencoder", command, "model", "--port", "0"]
    with log.open("wb") as out:
        server = subprocess.Popen(given, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + LISTENING
        while "ready at" not in log.read_text(encoding="utf-8"):
            if server.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{command} does not listen: {log.read_text(encoding='utf-8')}")
            time.sleep(0.1)
        address = log.read_text(encoding="utf-8").partition("ready at ")[2].split()[0].rstrip("/;")
        with urllib.request.urlopen(address + path, timeout=60) as answer:
            expect(answer.read().decode(), *parts)
    finally:
        server.terminate()
        server.wait(60)


def serve(_: Path) -> None:
    """Start the server, which answers."""
    listen("serve", "/health", '"status":"ok"')


def explore(_: Path) -> None:
    """Start the page, which answers."""
    listen("explore", "/", "<html")


def ray(_: Path) -> None:
    """Encode on a cluster of this machine."""
    rankencoder("encode", "model", "corpus.txt", "-o", "far", "--ray")


def demo(_: Path) -> None:
    """Run a small demo."""
    expect(rankencoder("demo", SMALL), "static, taught")


def api(_: Path) -> None:
    """Ask an API that is not there, which is told."""
    asking = "from rankencoder.distillation.api_encoder import ApiEncoder as A"
    told = run("-c", f"{asking}; A('m', base_url='http://127.0.0.1:9/v1').encode(['a'])", code=1)
    expect(told, "no answer from http://127.0.0.1:9/v1")


def mteb(_: Path) -> None:
    """Ask for a task, whose data needs a network: it is known, and the rest is told."""
    told = rankencoder("evaluate", "model", "--mteb", "STS12", code=2)
    expect(told, "mteb could not run STS12")


def docs(source: Path) -> None:
    """Build the site from the sdist."""
    os.chdir(source)
    run("-m", "mkdocs", "build", "--strict", "--quiet")


def dev(source: Path) -> None:
    """Run some of the sdist's tests, on the installed package."""
    os.chdir(source)
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_package.py", "tests/test_blend.py")


def quickstart(source: Path) -> None:
    """Do what README's quickstart says, with a small demo, and compare what it prints in form."""
    section = (source / "README.md").read_text(encoding="utf-8").partition("## Quickstart")[2]
    console, python = (
        re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL) for kind in ("console", "python")
    )
    assert console is not None
    assert python is not None
    for line in console[1].splitlines():
        if line.startswith("$ rankencoder "):
            words = shlex.split(line, comments=True)[2:]
            rankencoder(*words, *([SMALL] if words[0] == "demo" else []))
    expect(run("-c", python[1]), "(3, 512)", "[[1. ")
    expect(json.dumps(json.loads(rankencoder("info", "my-encoder", "--json"))), '"rank_weight"')


SMOKE: dict[str, Callable[[Path], None]] = {
    function.__name__: function
    for function in (
        plain, quickstart, data, report, train, sncse, search, serve, explore, ray, demo, api, mteb, docs,
        dev,
    )
}  # fmt: skip

if __name__ == "__main__":
    SMOKE[sys.argv[1]](Path(sys.argv[2]))
