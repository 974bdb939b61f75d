"""Files at any place, and slices of them that together hold what the whole does."""

import bz2
import gzip
from contextlib import suppress

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankencoder.errors import InputError
from rankencoder.io import files
from rankencoder.io.corpus import read_sentences
from rankencoder.io.files import cut, fingerprint, list_files
from rankencoder.vector_files import encode_file


@pytest.fixture
def small_slices(monkeypatch):
    monkeypatch.setattr(files, "_SLICE_BYTES", 7)
    monkeypatch.setattr(files, "_SLICE_ROWS", 4)


@pytest.fixture
def memory():
    fs = fsspec.filesystem("memory")
    yield fs
    fs.rm("/", recursive=True) if fs.ls("/") else None


def in_slices(place, **settings):
    return [row for part in cut(place) for row in read_sentences(part, **settings)]


@given(
    lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\n"), max_size=12)),
    end=st.booleans(),
    mark=st.booleans(),
    size=st.integers(1, 40),
)
def test_slices_of_lines_are_the_whole(tmp_path_factory, lines, end, mark, size):
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    text = "\n".join(lines) + ("\n" if end else "")
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_SLICE_BYTES", size)
        assert in_slices(path) == list(read_sentences(path))


def test_lines_longer_than_slices(tmp_path, small_slices):
    path = tmp_path / "in.txt"
    path.write_text("a" * 50 + "\n" + "b" * 9000 + "\nc\n\n" + "d" * 30)
    assert len(cut(path)) > 5
    assert in_slices(path, max_chars=100) == list(read_sentences(path, max_chars=100))


def test_slices_of_all_formats(tmp_path, small_slices, sentences):
    rows = [{"id": number, "body": text} for number, text in enumerate(sentences[:50])]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=3)
    import json

    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "c.csv").write_text('id,body\n1,"two\nlines"\n2,one\n')
    with gzip.open(tmp_path / "d.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, rows)))
    with bz2.open(tmp_path / "e.jsonl.bz2", "wt") as file:
        file.write("\n".join(map(json.dumps, rows)))
    number = {}
    for path in list_files(tmp_path):
        number[path.name[0]] = len(cut(path))
        settings = {"column": "body", "with_columns": True}
        assert in_slices(path, **settings) == list(read_sentences(path, **settings))
    assert number["a"] == 9  # two groups of three rows each
    assert number["b"] > 100
    assert number["c"] == number["d"] == number["e"] == 1


def test_addresses(memory, tiny_saved, tmp_path, sentences):
    with memory.open("/corpus/b.txt", "wb") as file:
        file.write(b"The cat\nThe dog\n")
    with memory.open("/corpus/a.txt.gz", "wb") as file:
        file.write(gzip.compress(b"The song\n"))
    with memory.open("/corpus/c.parquet", "wb") as file:
        pq.write_table(pa.table({"text": sentences[:3]}), file)
    memory.pipe("/corpus/notes.pdf", b"not read")
    found = [row.text for row in read_sentences("memory://corpus")]
    assert found == ["The song", "The cat", "The dog", *sentences[:3]]
    assert in_slices("memory:///corpus/b.txt") == list(read_sentences("memory:///corpus/b.txt"))
    before = fingerprint("memory:///corpus/b.txt")
    memory.pipe("/corpus/b.txt", b"The cats\nThe dog\n")
    assert fingerprint("memory:///corpus/b.txt") != before
    assert encode_file(tiny_saved, "memory://corpus", tmp_path / "v.npy")["encoded"] == 6


def test_addresses_that_cannot_be(memory, tmp_path):
    with pytest.raises(InputError, match="no such file or folder: memory://nothing"):
        list_files("memory://nothing")
    with pytest.raises(InputError, match="cannot reach nowhere://a/b: Protocol not known"):
        list_files("nowhere://a/b")
    memory.pipe("/folder/a.pdf", b"")
    with pytest.raises(InputError, match="no file of sentences in memory://folder"):
        list_files("memory://folder")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="bad.parquet is not a readable Parquet file"):
        cut(tmp_path / "bad.parquet")


def test_a_flipped_byte_in_a_compressed_file_is_told(tmp_path):
    text = "".join(f"sentence number {i}\n" for i in range(300)).encode()
    for suffix, squeeze in ((".gz", gzip.compress), (".bz2", bz2.compress)):
        whole = squeeze(text)
        path = tmp_path / f"a.txt{suffix}"
        for place in range(20, len(whole) - 20, 9):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
            with suppress(InputError):
                list(read_sentences(path))
