"""The README's commands and Python blocks run, on a small encoder in place of the large one."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scored_pairs import make_pairs, write_pairs, write_sts

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = "".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("training.md", "evaluation.md")
)
SEARCH = (ROOT / "docs/search.md").read_text(encoding="utf-8")
QUICK = ["--max-steps", "2", "--batch-size", "8", "--reference-size", "1000"]


@pytest.fixture
def folder(tmp_path, monkeypatch, tiny_saved, sentences):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_saved, "my-encoder")
    Path("corpus.txt").write_text("\n".join(sentences))
    write_pairs(Path("my-pairs.tsv"), make_pairs(sentences, 60))
    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "vectors"))
    pq.write_table(pa.table({"id": range(len(sentences)), "body": sentences}), "corpus.parquet")
    return tmp_path


@pytest.fixture
def sts_data(tmp_path, sentences):
    """What ``data fetch`` fetches, small."""
    root = write_sts(tmp_path / "data/senteval", sentences)
    return root.parent


def test_python_blocks(folder, tiny_folder, tiny_saved, callable_encoder, capsys):
    shutil.copytree(tiny_folder, "my-run/encoder")
    blocks = re.findall(r"```python\n(.*?)```", README + DOCS, flags=re.DOTALL)
    assert len(blocks) == 6
    for block in blocks:
        code = block.replace("sentence-transformers/all-MiniLM-L6-v2", str(tiny_folder))
        written = 'save("my-encoder")' in code
        shutil.rmtree("my-encoder") if written else None
        exec(compile(code, "README.md", "exec"), {"my_api_client": callable_encoder})
        shutil.copytree(tiny_saved, "my-encoder", dirs_exist_ok=True) if written else None
    assert capsys.readouterr().out.startswith("(3, ")


def commands_in(text):
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words[0] != "pip"]


@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
def test_commands(folder, run_cli, backbone, sts_data, monkeypatch):
    commands = commands_in(README + DOCS)
    assert [command[1] for command in commands] == [
        *("demo", "info", "explain", "train", "evaluate", "report", "tune"),
        *("index", "search", "duplicates", "serve", "explore"),
        *("train", "methods", "data", "evaluate", "report", "tune"),
    ]
    monkeypatch.setenv("RANKENCODER_DATA", str(sts_data))
    for command in commands:
        if command[1] in ("demo", "data", "serve", "explore"):  # these have tests of their own
            continue
        shutil.rmtree("tuned", ignore_errors=True)
        given = [str(backbone) if word == "bert-base-uncased" else word for word in command[1:]]
        shutil.rmtree("my-run", ignore_errors=True)
        code, out, err = run_cli(*given, *(QUICK if given[0] == "train" else []))
        assert code == 0, err
        assert out


def test_the_table_of_commands_is_complete():
    from rankencoder.cli import app

    names = {command.callback.__name__ for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    assert names == set(re.findall(r"^\| `rankencoder (\w+)", README, flags=re.MULTILINE))


def test_the_page_on_search(folder, run_cli, sentences):
    modules = ["os", "shutil"] * 40
    rows = [{"text": text, "module": name} for text, name in zip(sentences, modules, strict=False)]
    Path("docstrings.jsonl").write_text("\n".join(map(json.dumps, rows)))
    commands = commands_in(SEARCH)
    assert [command[1] for command in commands] == ["index", "search", "duplicates"]
    outputs = []
    for command in commands:
        code, out, err = run_cli(*command[1:])
        assert code == 0, err
        outputs.append(out)
    assert outputs[0] == "my-index: 80 sentences (80 added)\n"
    assert "os" in outputs[1]
    assert "shutil" not in outputs[1]
    assert "among 80 different sentences" in outputs[2]


def test_the_page_on_search_in_python(folder, sentences, capsys):
    articles = [{"title": text, "year": 1980 + number} for number, text in enumerate(sentences[:30])]
    Path("articles.jsonl").write_text("\n".join(map(json.dumps, articles)))
    block = next(b for b in re.findall(r"```python\n(.*?)```", SEARCH, flags=re.DOTALL) if "RankIndex" in b)
    names = {}
    exec(compile(block, "search.md", "exec"), names)
    assert len(capsys.readouterr().out.splitlines()) == 5
    kept = [article["title"] for article in articles if article["year"] >= 1990]
    assert len(names["index"]) == len(kept)
