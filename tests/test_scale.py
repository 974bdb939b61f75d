"""What a cluster's machines do, without a cluster."""

import json
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankencoder import RankEncoder
from rankencoder.errors import InputError
from rankencoder.io import files
from rankencoder.io.corpus import read_sentences, read_slice
from rankencoder.io.files import cut
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.sampling import Sampler, sample_sentences
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.cluster_encoding import SliceEncoder, encode_with_ray
from rankencoder.scale.result_folder import ResultFolder

KEY = {"a": 1}


def write(folder, name, texts):
    with folder.write(name) as path:
        pq.write_table(pa.table({"text": texts}), path)


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


def test_files_become_the_result_in_their_order(target):
    begun = ResultFolder(target, KEY, overwrite=False)
    write(begun, "part-000001-00000.parquet", ["c"])
    resumed = ResultFolder(target, KEY, overwrite=False)
    assert resumed.has("part-000001-00000.parquet")
    assert not resumed.has("part-000000-00000.parquet")
    write(resumed, "part-000000-00000.parquet", ["a", "b"])
    resumed.complete(2, {"rows": 3})
    assert read(target)["text"].to_pylist() == ["a", "b", "c"]
    with pytest.raises(InputError, match="already exists"):
        ResultFolder(target, KEY, overwrite=False)
    again = ResultFolder(target, KEY, overwrite=True)
    assert not again.has("part-000000-00000.parquet")
    write(again, "part-000002-00000.parquet", ["d"])
    again.complete(1, {"rows": 1})
    assert read(target)["text"].to_pylist() == ["d"]


def test_files_of_other_work_are_dropped(target):
    write(ResultFolder(target, KEY, overwrite=False), "part-000000-00000.parquet", ["a"])
    assert not ResultFolder(target, {"a": 2}, overwrite=False).has("part-000000-00000.parquet")


def test_a_file_that_fails_leaves_nothing(target):
    folder = ResultFolder(target, KEY, overwrite=False)
    with pytest.raises(OSError, match="no space left"), folder.write("part-000000-00000.parquet") as path:
        path.write_text("half of it")
        raise OSError("no space left")
    assert not folder.has("part-000000-00000.parquet")


def test_files_that_went_to_another_disk_are_missed(target):
    folder = ResultFolder(target, KEY, overwrite=False)
    write(folder, "part-000000-00000.parquet", ["a"])
    with pytest.raises(InputError, match="3 of 4 files are not in .*: let all machines .* share"):
        folder.complete(4, {})


def test_something_else_is_not_touched(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("keep me")
    with pytest.raises(InputError, match="already exists"):
        ResultFolder(tmp_path / "mine", {}, overwrite=False)
    with pytest.raises(InputError, match="folder of something else"):
        ResultFolder(tmp_path / "mine", {}, overwrite=True)
    fs = fsspec.filesystem("memory")
    fs.pipe("/mine/file", b"keep me")
    with pytest.raises(InputError, match="holds other files"):
        ResultFolder("memory://mine", {}, overwrite=True)
    assert fs.cat("/mine/file") == b"keep me"
    fs.rm("/mine", recursive=True)


@pytest.fixture
def worker(tiny_saved, tmp_path):
    """Make a worker whose files hold two sentences."""
    (tmp_path / "in.txt").write_text("a cat\n\nb\nc\nd\n" + "x" * 20_000 + "\n")

    def make(invalid="skip"):
        result = ResultFolder(tmp_path / "out", KEY, overwrite=False)
        options = ReadOptions.of(None)
        return SliceEncoder(str(tiny_saved), {}, cut(tmp_path / "in.txt"), options, invalid, 2, result)

    return make


def test_a_slice_becomes_files_that_are_not_made_again(worker, tiny_saved, tmp_path):
    counts = {"encoded": 4, "resumed": 0, "skipped": 2, "files": 2, "error": ""}
    assert worker()({"item": 0}) == counts
    lost = tmp_path / ".out.parts/part-000000-00001.parquet"
    lost.unlink()
    assert worker()({"item": 0}) == {**counts, "encoded": 2, "resumed": 2}
    worker().result.complete(2, {"rows": 4})
    table = read(str(tmp_path / "out"))
    assert table["line"].to_pylist() == [1, 3, 4, 5]
    encoder = RankEncoder.load(tiny_saved)
    assert np.allclose(table["vector"].to_pylist(), encoder.encode(["a cat", "b", "c", "d"]), atol=1e-5)
    about = json.loads((tmp_path / "out/_rankencoder.json").read_text())
    assert about == {"key": KEY, "complete": True, "rows": 4}


def test_a_worker_says_what_is_wrong_with_a_line(worker):
    error = worker(invalid="stop")({"item": 0})["error"]
    assert "line 2: the sentence is empty" in error


def test_samples_of_slices_are_the_sample_of_the_whole(tmp_path, monkeypatch, sentences):
    monkeypatch.setattr(files, "_SLICE_BYTES", 1000)
    path = tmp_path / "in.txt"
    path.write_text("\n".join([*sentences, "", *sentences[:100], "x" * 9000]))
    together = Sampler(50, 7)
    for part in reversed(cut(path)):
        together.merge(Sampler(50, 7).add(read_slice(part)))
    assert together.sample() == sample_sentences(read_sentences(path), 50, 7)
    assert together.sample().counts["duplicates"] == 100


def test_requests_that_cannot_be(tiny_saved, tmp_path, run_cli):
    source = tmp_path / "in.txt"
    source.write_text("The cat\n")
    for name, message in (("v.npy", "a cluster writes a folder of Parquet files"), ("in.txt/v", "lies in")):
        with pytest.raises(InputError, match=message):
            encode_with_ray(tiny_saved, source, tmp_path / name, None)
    code, _, err = run_cli("encode", tiny_saved, source, "-o", tmp_path / "v.npy", "--workers", "2")
    assert code == 2
    assert err == "error: --workers is for a cluster: set --ray too, or leave it out\n"


def test_without_ray_one_line_says_what_to_install(tiny_saved, tmp_path, run_cli, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    (tmp_path / "in.txt").write_text("The cat\n")
    code, _, err = run_cli("encode", tiny_saved, tmp_path / "in.txt", "-o", tmp_path / "v", "--ray", "local")
    assert code == 2
    assert err.startswith("error: a cluster needs Ray: run pip install -c constraints.txt '.[ray]' in")
    assert err.count("\n") == 1


def test_slices_are_found_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    monkeypatch.chdir(tmp_path)
    (part,) = RayCluster.__new__(RayCluster).slices("in.txt")
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
    with pytest.raises(InputError, match="lies in .* or holds it"):
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
