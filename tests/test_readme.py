"""The README's commands and Python blocks run, on a small encoder in place of the large one."""

import re
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TRAINING = (ROOT / "docs/training.md").read_text(encoding="utf-8")
QUICK = ["--max-steps", "2", "--batch-size", "8", "--reference-size", "1000"]


@pytest.fixture
def folder(tmp_path, monkeypatch, tiny_saved, sentences):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_saved, "my-encoder")
    Path("corpus.txt").write_text("\n".join(sentences))
    pq.write_table(pa.table({"id": range(len(sentences)), "body": sentences}), "corpus.parquet")
    return tmp_path


def test_python_blocks(folder, tiny_folder, callable_encoder, capsys):
    shutil.copytree(tiny_folder, "my-run/encoder")
    blocks = re.findall(r"```python\n(.*?)```", README + TRAINING, flags=re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        code = block.replace("sentence-transformers/all-MiniLM-L6-v2", str(tiny_folder))
        shutil.rmtree("my-encoder", ignore_errors=True) if 'save("my-encoder")' in code else None
        exec(compile(code, "README.md", "exec"), {"my_api_client": callable_encoder})
    assert capsys.readouterr().out.startswith("(3, ")


@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
def test_commands(folder, run_cli, backbone):
    blocks = re.findall(r"```console\n(.*?)```", README + TRAINING, flags=re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    commands = [words for words in (shlex.split(line, comments=True) for line in lines) if words[0] != "pip"]
    assert [command[1] for command in commands] == ["demo", "info", "explain", "train", "train"]
    for command in commands[1:]:
        given = [str(backbone) if word == "bert-base-uncased" else word for word in command[1:]]
        shutil.rmtree("my-run", ignore_errors=True)
        code, out, err = run_cli(*given, *(QUICK if given[0] == "train" else []))
        assert code == 0, err
        assert out


def test_the_table_of_commands_is_complete():
    from rankencoder.cli import app

    names = {command.callback.__name__ for command in app.registered_commands}
    assert names == set(re.findall(r"^\| `rankencoder (\w+)", README, flags=re.MULTILINE))
