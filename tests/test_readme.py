"""The README's commands and Python blocks run, on a small encoder in place of the large one."""

import re
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch, tiny_saved, sentences):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_saved, "my-encoder")
    Path("corpus.txt").write_text("\n".join(sentences))
    pq.write_table(pa.table({"id": range(len(sentences)), "body": sentences}), "corpus.parquet")
    return tmp_path


def test_python_blocks(folder, tiny_folder, callable_encoder, capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        code = block.replace("sentence-transformers/all-MiniLM-L6-v2", str(tiny_folder))
        shutil.rmtree("my-encoder", ignore_errors=True) if 'save("my-encoder")' in code else None
        exec(compile(code, "README.md", "exec"), {"my_api_client": callable_encoder})
    assert capsys.readouterr().out.startswith("(3, ")


def test_commands(folder, run_cli):
    console = re.search(r"```console\n(.*?)```", README, flags=re.DOTALL).group(1)
    commands = [
        shlex.split(line[2:], comments=True) for line in console.splitlines() if line.startswith("$ ")
    ]
    assert [command[1] for command in commands] == ["demo", "info", "explain"]
    for command in commands[1:]:
        code, out, err = run_cli(*command[1:])
        assert code == 0, err
        assert out


def test_the_table_of_commands_is_complete():
    from rankencoder.cli import app

    names = {command.callback.__name__ for command in app.registered_commands}
    assert names == set(re.findall(r"^\| `rankencoder (\w+)", README, flags=re.MULTILINE))
