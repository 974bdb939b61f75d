"""What a cluster's machines do, without a cluster."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankencoder.errors import InputError
from rankencoder.io import files
from rankencoder.io.corpus import Sentence, read_sentences
from rankencoder.io.files import cut
from rankencoder.io.sampling import Sampler, sample_sentences
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.cluster_encoding import encode_with_ray
from rankencoder.scale.pieces import NumberedSlice, Output, Piece, find_slices, read_pieces
from rankencoder.vector_files import make_table, vector_schema

SCHEMA = vector_schema(4)


def piece(slice_, number, texts, *, skipped=0):
    rows = [Sentence(text, "in.txt", line) for line, text in enumerate(texts, start=1)]
    return Piece(slice_, number, rows, skipped)


def batches(made):
    vectors = np.full((len(made.rows), 4), made.slice + made.number / 10, dtype=np.float32)
    return iter(make_table(made.rows, vectors).to_batches())


PIECES = (
    piece(0, 0, ["a", "b"]),
    piece(0, 1, ["c"], skipped=1),
    piece(1, 0, [], skipped=2),
    piece(2, 0, ["d", "e"]),
)


@pytest.fixture(params=["a folder", "memory://result"])
def target(request, tmp_path):
    if "://" not in request.param:
        yield str(tmp_path / request.param)
        return
    yield request.param
    fs = fsspec.filesystem("memory")
    fs.rm("/result", recursive=True) if fs.exists("/result") else None


def read(target):
    if "://" in target:
        fs = fsspec.filesystem("memory")
        return pa.concat_tables(pq.read_table(fs.open(p)) for p in sorted(fs.glob("/result/*.parquet")))
    return pq.read_table(target)


def test_pieces_become_the_result_in_their_order(target):
    output = Output(target, {"a": 1}, overwrite=False)
    for made in reversed(PIECES[1:]):
        output.write(made, SCHEMA, batches(made))
    taken_up = Output(target, {"a": 1}, overwrite=False)
    assert [(note.name, note.rows, note.skipped) for note in taken_up.finished()] == [
        ("part-000000-00001", 1, 1),
        ("part-000001-00000", 0, 2),
        ("part-000002-00000", 2, 0),
    ]
    taken_up.write(PIECES[0], SCHEMA, batches(PIECES[0]))
    taken_up.complete(taken_up.finished())
    table = read(target)
    assert table["text"].to_pylist() == ["a", "b", "c", "d", "e"]
    assert np.allclose([row[0] for row in table["vector"].to_pylist()], [0, 0, 0.1, 2, 2])
    with pytest.raises(InputError, match="already exists"):
        Output(target, {"a": 1}, overwrite=False)
    again = Output(target, {"a": 1}, overwrite=True)
    assert again.finished() == []
    again.write(PIECES[3], SCHEMA, batches(PIECES[3]))
    again.complete(again.finished())
    assert read(target)["text"].to_pylist() == ["d", "e"]


def test_pieces_of_other_work_are_dropped(target):
    output = Output(target, {"a": 1}, overwrite=False)
    output.write(PIECES[0], SCHEMA, batches(PIECES[0]))
    assert Output(target, {"a": 2}, overwrite=False).finished() == []


def test_a_piece_that_fails_leaves_nothing(target):
    def failing():
        yield from batches(PIECES[0])
        raise OSError("no space left")

    output = Output(target, {"a": 1}, overwrite=False)
    with pytest.raises(OSError, match="no space left"):
        output.write(PIECES[0], SCHEMA, failing())
    assert output.finished() == []


def test_pieces_that_went_to_another_disk_are_missed(target):
    output = Output(target, {"a": 1}, overwrite=False)
    notes = [output.write(made, SCHEMA, batches(made)) for made in PIECES[1:]]
    with pytest.raises(InputError, match="1 of 4 pieces are not in .*: write to a disk that all"):
        output.complete([replace(notes[0], name="part-000000-00000"), *notes])


def test_something_else_is_not_touched(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("keep me")
    with pytest.raises(InputError, match="already exists"):
        Output(tmp_path / "mine", {}, overwrite=False)
    with pytest.raises(InputError, match="not from rankencoder"):
        Output(tmp_path / "mine", {}, overwrite=True)
    fs = fsspec.filesystem("memory")
    fs.pipe("/mine/file", b"keep me")
    with pytest.raises(InputError, match="is not from rankencoder"):
        Output("memory://mine", {}, overwrite=True)
    assert fs.cat("/mine/file") == b"keep me"
    fs.rm("/mine", recursive=True)


def test_reading_in_pieces(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("a\n\nb\nc\nd\n" + "x" * 20_000 + "\n")
    (part,) = cut(path)
    pieces = list(read_pieces(NumberedSlice(5, part), invalid="skip", size=2))
    assert [[row.text for row in made.rows] for made in pieces] == [["a", "b"], ["c", "d"], []]
    assert [row.line for made in pieces for row in made.rows] == [1, 3, 4, 5]
    assert [(made.name, made.skipped) for made in pieces] == [
        ("part-000005-00000", 1),
        ("part-000005-00001", 0),
        ("part-000005-00002", 1),
    ]
    finished = frozenset(["part-000005-00000"])
    assert list(read_pieces(NumberedSlice(5, part, finished), invalid="skip", size=2)) == pieces[1:]
    with pytest.raises(InputError, match="line 2: the sentence is empty; .*`skip_invalid`"):
        list(read_pieces(NumberedSlice(5, part)))


def test_samples_of_slices_are_the_sample_of_the_whole(tmp_path, monkeypatch, sentences):
    monkeypatch.setattr(files, "_SLICE_BYTES", 1000)
    path = tmp_path / "in.txt"
    path.write_text("\n".join([*sentences, "", *sentences[:100], "x" * 9000]))
    together = Sampler(50, 7)
    for part in reversed(cut(path)):
        together.merge(Sampler(50, 7).add(read_sentences(part)))
    assert together.sample() == sample_sentences(read_sentences(path), 50, 7)
    assert together.sample().counts["duplicates"] == 100


def test_requests_that_cannot_be(tiny_saved, tmp_path, run_cli):
    source = tmp_path / "in.txt"
    source.write_text("The cat\n")
    for name, message in (
        ("v.npy", "a cluster writes a folder of Parquet files"),
        ("in.txt/v", "overlaps with the input"),
    ):
        with pytest.raises(InputError, match=message):
            encode_with_ray(tiny_saved, source, tmp_path / name, None)
    code, _, err = run_cli("encode", tiny_saved, source, "-o", tmp_path / "v.npy", "--workers", "2")
    assert code == 2
    assert err == "error: --workers needs a cluster: set --ray, or omit it\n"


def test_without_ray_one_line_says_what_to_install(tiny_saved, tmp_path, run_cli, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    (tmp_path / "in.txt").write_text("The cat\n")
    code, _, err = run_cli("encode", tiny_saved, tmp_path / "in.txt", "-o", tmp_path / "v", "--ray", "local")
    assert code == 2
    assert err.startswith("error: a cluster needs Ray: run pip install -c constraints.txt '.[ray]' in")
    assert err.count("\n") == 1


def test_results_say_what_they_are(tmp_path):
    output = Output(tmp_path / "out", {"model": "m"}, overwrite=False)
    output.complete([output.write(made, SCHEMA, batches(made)) for made in PIECES])
    assert json.loads((tmp_path / "out/_rankencoder.json").read_text()) == {
        "key": {"model": "m"},
        "complete": True,
        "rows": 5,
        "skipped": 3,
    }


def test_slices_are_found_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    monkeypatch.chdir(tmp_path)
    (part,) = find_slices(None, "in.txt")
    assert Path(part.path).is_absolute()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("file://{0}/a", "file://{0}/a"),
        ("file://{0}/a", "{0}/a"),
        ("{0}/a", "file://{0}/a/out"),
        ("memory://a", "memory://a/out"),
        ("memory://a/b", "memory://a"),
    ],
)
def test_what_is_read_is_not_written_over(tmp_path, tiny_saved, source, target):
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="overlaps with the input"):
        encode_with_ray(tiny_saved, source.format(tmp_path), target.format(tmp_path), None, overwrite=True)


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", ["encode", "build", "train"])
def test_an_address_is_not_taken_for_a_folder(
    run_cli, tiny_saved, tiny_folder, corpus_file, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    first = {"encode": [tiny_saved], "build": [tiny_folder], "train": []}[command]
    code, _, err = run_cli(command, *first, corpus_file, "-o", "s3://bucket/v.npy")
    assert code == 2
    assert "is an address" in err
    assert not list(Path().glob("s3*"))


@pytest.mark.parametrize(("cpus", "encoders"), [(1, 1), (2, 2), (3, 3), (6, 7), (12, 15)])
def test_encoders_leave_a_reader_its_share(cpus, encoders):
    cluster = RayCluster.__new__(RayCluster)
    cluster.ray = SimpleNamespace(cluster_resources=lambda: {"CPU": cpus})
    cluster._workers = 100
    assert cluster.workers == encoders
    assert encoders * 0.75 + 0.25 <= cpus
