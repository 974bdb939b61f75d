import datetime
import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankencoder import RankEncoder, vector_files
from rankencoder.errors import InputError
from rankencoder.io.corpus import read_sentences
from rankencoder.io.read_options import ReadOptions
from rankencoder.vector_files import encode_file


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(vector_files, "PART", 100)


@pytest.fixture
def text_file(tmp_path, sentences):
    path = tmp_path / "in.txt"
    path.write_text("\n".join(sentences[:350]))
    return path


def test_all_formats_hold_the_same_vectors(tiny_saved, text_file, tmp_path, sentences):
    expected = RankEncoder.load(tiny_saved).encode(sentences[:350])
    for name in ("v.npy", "v.parquet", "v.jsonl"):
        assert encode_file(tiny_saved, text_file, tmp_path / name) == {
            "encoded": 350,
            "resumed": 0,
            "skipped": 0,
        }
    assert np.allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)
    table = pq.read_table(tmp_path / "v.parquet").to_pydict()
    assert np.allclose(np.array(table["vector"]), expected, atol=1e-5)
    lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert np.allclose([line["vector"] for line in lines], expected, atol=1e-5)
    assert table["text"] == [line["text"] for line in lines] == sentences[:350]
    assert table["line"] == [line["line"] for line in lines] == list(range(1, 351))
    names = ["in.txt", "v.jsonl", "v.npy", "v.npy.json", "v.parquet"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names


def test_names_in_upper_case(tiny_saved, tmp_path):
    table = tmp_path / "IN.CSV.GZ"
    table.write_bytes(gzip.compress(b"id,text\n1,The cat sees\n2,A river breaks\n"))
    for name in ("V.PARQUET", "V.JSONL", "V.CSV"):
        counts = encode_file(tiny_saved, table, tmp_path / name, column="text")
        assert counts["encoded"] == 2
        assert [row.text for row in read_sentences(tmp_path / name, column="text")] == [
            "The cat sees",
            "A river breaks",
        ]


def test_a_npy_file_has_a_note_of_its_sentences(tiny_saved, text_file, tmp_path, sentences):
    encode_file(tiny_saved, text_file, tmp_path / "v.npy")
    digest = hashlib.sha256("".join(f"{text}\n" for text in sentences[:350]).encode()).hexdigest()
    note = json.loads((tmp_path / "v.npy.json").read_text())
    backend = {"name": "torch", "precision": "fp32", "fidelity": 1.0}
    about = {"rows": 350, "dimension": 96, "sha256": digest, "model": str(tiny_saved)}
    assert note == {**about, "backend": backend}
    text_file.write_text("The cat\n\nThe dog\nThe cat\n")
    (tmp_path / "v.npy").unlink()
    with pytest.raises(InputError, match=r"v\.npy\.json already exists"):
        encode_file(tiny_saved, text_file, tmp_path / "v.npy", skip_invalid=True)
    encode_file(tiny_saved, text_file, tmp_path / "v.npy", skip_invalid=True, overwrite=True)
    note = json.loads((tmp_path / "v.npy.json").read_text())
    assert note["sha256"] == hashlib.sha256(b"The cat\nThe dog\nThe cat\n").hexdigest()
    assert note["rows"] == 3


def test_interrupted_work_goes_on_where_it_stopped(tiny_saved, text_file, tmp_path, monkeypatch):
    encode_file(tiny_saved, text_file, tmp_path / "whole.npy")
    write_part = vector_files._write_part

    def stops_at_the_third(path, suffix, part, model):
        if path.name.startswith(".part-000002."):
            raise KeyboardInterrupt
        write_part(path, suffix, part, model)

    monkeypatch.setattr(vector_files, "_write_part", stops_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        encode_file(tiny_saved, text_file, tmp_path / "v.npy")
    assert not (tmp_path / "v.npy").exists()
    monkeypatch.setattr(vector_files, "_write_part", write_part)
    assert encode_file(tiny_saved, text_file, tmp_path / "v.npy") == {
        "encoded": 150,
        "resumed": 200,
        "skipped": 0,
    }
    assert (tmp_path / "v.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert (tmp_path / "v.npy.json").read_bytes() == (tmp_path / "whole.npy.json").read_bytes()


def test_changed_input_is_encoded_anew(tiny_saved, text_file, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_files, "_join", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        encode_file(tiny_saved, text_file, tmp_path / "v.npy")
    monkeypatch.undo()
    text_file.write_text("The cat\nThe dog\n")
    assert encode_file(tiny_saved, text_file, tmp_path / "v.npy")["encoded"] == 2
    assert len(np.load(tmp_path / "v.npy")) == 2


def _interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.slow  # test_faults.py does the like, in forks, which are faster
def test_killed_and_run_again(tiny_saved, tmp_path, sentences):
    """kill -9 in the middle; the second run ends with the same bytes as an undisturbed one."""
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences * 2))
    command = [sys.executable, "-m", "rankencoder", "encode", str(tiny_saved), str(source), "-o"]
    slow = "import rankencoder.vector_files as b, time, sys; b.PART = 100; w = b._write_part;"
    slow += "b._write_part = lambda *a: (w(*a), time.sleep(0.2));"
    slow += "from rankencoder.cli import main; sys.argv = ['rankencoder', *sys.argv[1:]]; main()"
    process = subprocess.Popen([sys.executable, "-c", slow, *command[3:], str(tmp_path / "v.npy")])
    deadline = time.monotonic() + 60
    while not (tmp_path / ".v.npy.parts" / "part-000003").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "v.npy").exists()
    counts = encode_file(tiny_saved, source, tmp_path / "v.npy")
    assert counts["resumed"] >= 400
    encode_file(tiny_saved, source, tmp_path / "undisturbed.npy")
    assert (tmp_path / "v.npy").read_bytes() == (tmp_path / "undisturbed.npy").read_bytes()


def test_invalid_lines_stop_or_are_skipped(tiny_saved, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("The cat\n\n" + "x" * 20_000 + "\nThe dog\n")
    with pytest.raises(InputError, match=r"in\.txt, line 2: the sentence is empty; .*`skip_invalid`"):
        encode_file(tiny_saved, source, tmp_path / "v.jsonl")
    assert not (tmp_path / "v.jsonl").exists()
    counts = encode_file(tiny_saved, source, tmp_path / "v.jsonl", skip_invalid=True)
    assert counts == {"encoded": 2, "resumed": 0, "skipped": 2}
    assert [json.loads(line)["line"] for line in (tmp_path / "v.jsonl").read_text().splitlines()] == [1, 4]


def test_skipping_invalid_lines_goes_on_with_what_was_done(tiny_saved, tmp_path, sentences):
    source = tmp_path / "in.txt"
    source.write_text("\n".join([*sentences[:250], "", *sentences[250:260]]))
    with pytest.raises(InputError, match="line 251"):
        encode_file(tiny_saved, source, tmp_path / "v.npy")
    counts = encode_file(tiny_saved, source, tmp_path / "v.npy", skip_invalid=True)
    assert counts == {"encoded": 60, "resumed": 200, "skipped": 1}


def test_many_parts_are_joined_with_few_open_files(tiny_saved, text_file, tmp_path, monkeypatch):
    import resource

    monkeypatch.setattr(vector_files, "PART", 2)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, limits[1]))
    try:
        assert encode_file(tiny_saved, text_file, tmp_path / "v.npy")["encoded"] == 350
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_bad_requests(tiny_saved, text_file, tmp_path):
    with pytest.raises(InputError, match="cannot write .txt: use .npy, .parquet, .jsonl, .csv"):
        encode_file(tiny_saved, text_file, tmp_path / "v.txt")
    (tmp_path / "v.npy").write_text("keep me")
    with pytest.raises(InputError, match="already exists"):
        encode_file(tiny_saved, text_file, tmp_path / "v.npy")
    assert (tmp_path / "v.npy").read_text() == "keep me"
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(InputError, match="holds no sentence"):
        encode_file(tiny_saved, tmp_path / "empty.txt", tmp_path / "w.npy")
    with pytest.raises(InputError, match="no such file"):
        encode_file(tiny_saved, tmp_path / "nowhere.txt", tmp_path / "w.npy")
    with pytest.raises(InputError, match="no such folder"):
        encode_file(tmp_path / "nowhere", text_file, tmp_path / "w.npy")
    with pytest.raises(InputError, match="overlaps with the input"):
        encode_file(tiny_saved, tmp_path, tmp_path / "deeper" / "w.npy")
    assert sorted(os.listdir(tmp_path)) == ["empty.txt", "in.txt", "v.npy"]


@pytest.mark.slow  # test_faults.py does the like, in forks, which are faster
def test_a_disk_that_is_full(tiny_saved, text_file, tmp_path):
    """A limit on file sizes makes writes fail as a full disk does: one line, exit code 2, nothing half."""
    code = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
    code += "from rankencoder.cli import main; sys.argv = ['rankencoder', *sys.argv[1:]]; main()"
    for arguments in (
        ["encode", str(tiny_saved), str(text_file), "-o", str(tmp_path / "v.npy")],
        ["build", str(tiny_saved / "encoder"), str(text_file), "-o", str(tmp_path / "model")],
    ):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
        assert done.returncode == 2, done.stderr
        lines = [line for line in done.stderr.splitlines() if not line.startswith("warning:")]
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("error: cannot write")
        assert not (tmp_path / "v.npy").exists()
        assert not (tmp_path / "model").exists()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".new")]


def test_ids_of_a_npy_file_are_json(tiny_saved, tmp_path):
    days = [datetime.date(2026, 1, 31), datetime.date(2026, 2, 1)]
    pq.write_table(pa.table({"day": days, "text": ["The cat", "The dog"]}), tmp_path / "in.parquet")
    encode_file(tiny_saved, tmp_path / "in.parquet", tmp_path / "v.npy", column=ReadOptions(id="day"))
    assert json.loads((tmp_path / "v.npy.json").read_text())["ids"] == ["2026-01-31", "2026-02-01"]
