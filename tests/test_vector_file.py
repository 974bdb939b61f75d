"""Teachers that are files of vectors, against numpy and what `encode_file` wrote."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankencoder.distillation.teacher_sources import is_file
from rankencoder.distillation.vector_file import VectorFile
from rankencoder.errors import InputError, TrainingWarning
from rankencoder.training.sentences import load_sentences, store_sentences
from rankencoder.vector_files import encode_file

TEXTS = ["The cat sees", "", "The dog moves", "The cat sees", " The river likes ", "x" * 10_001, "a b", "a b"]
USABLE = ["The cat sees", "The dog moves", "The cat sees", "The river likes", "a b", "a b"]
PLACES = [0, 1, 3, 4]  # of the distinct sentences among these


def stored(corpus, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # a small corpus
        return store_sentences(corpus, folder, column=None, progress=False)


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture
def kept(corpus, tmp_path):
    return stored(corpus, tmp_path / "work")


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(6, 5))


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def opened(path, sentences):
    """Open a file that does not say which sentences it is of."""
    file = VectorFile(path, sentences)
    with pytest.warns(TrainingWarning, match="only their number was checked"):
        file.check()
    return file


def test_sentences_know_their_lines(kept, tmp_path):
    assert kept.lines == 6
    assert list(kept) == ["The cat sees", "The dog moves", "The river likes", "a b"]
    assert kept.places(0, 9).tolist() == PLACES
    assert [USABLE[place] for place in kept.places(1, 3)] == kept.texts(1, 3)
    assert load_sentences(tmp_path / "work").lines_sha256 == kept.lines_sha256 != kept.sha256
    assert stored(list(kept), tmp_path / "distinct").lines_sha256 == kept.sha256


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".NPY", ".PARQUET"])
def test_vectors_of_encode_file(tiny_folder, corpus, kept, tmp_path, suffix):
    path = tmp_path / f"v{suffix}"
    encode_file(str(tiny_folder), corpus, path, skip_invalid=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        teacher = VectorFile(path, kept)
        teacher.check()
    assert is_file(str(path))
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(str(tiny_folder), device="cpu").encode(list(kept))
    assert (teacher.dimension, teacher.name) == (32, str(path))
    assert teacher.rows(0, 9).dtype == np.float32
    assert np.allclose(teacher.rows(0, 9), unit(expected), atol=1e-5)
    assert np.array_equal(teacher.rows(1, 3), teacher.rows(0, 9)[1:3])
    other = tmp_path / f"other{suffix}"
    encode_file(str(tiny_folder), list_file(tmp_path, USABLE[::-1]), other)
    with pytest.raises(InputError, match=rf"other{suffix} holds vectors of a different text: encode this"):
        VectorFile(other, kept)
    assert VectorFile(path, kept).fingerprint() == teacher.fingerprint()


def list_file(folder, texts):
    path = folder / "other.txt"
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4"])
def test_a_npy_file_of_others(kept, tmp_path, vectors, dtype):
    np.save(tmp_path / "v.npy", vectors.astype(dtype))
    teacher = opened(tmp_path / "v.npy", kept)
    expected = unit(np.load(tmp_path / "v.npy").astype(np.float64)[PLACES])
    assert np.allclose(teacher.rows(0, 4), expected, atol=1e-6)


def test_a_parquet_file_of_others(kept, tmp_path, vectors):
    """Lists of any kind, in row groups that end anywhere, under any name."""
    for name, kind in (("vector", pa.list_(pa.float64())), ("embedding", pa.large_list(pa.float32()))):
        table = pa.table({"id": range(6), name: pa.array(vectors.tolist(), kind)})
        pq.write_table(table, tmp_path / "v.parquet", row_group_size=4)
        teacher = opened(tmp_path / "v.parquet", kept)
        assert np.allclose(teacher.rows(0, 4), unit(vectors[PLACES]), atol=1e-6)
        assert np.allclose(teacher.rows(2, 4), unit(vectors[[3, 4]]), atol=1e-6)
    with_text = table.append_column("text", pa.array([f" {text}" for text in USABLE]))
    pq.write_table(with_text, tmp_path / "v.parquet")
    assert VectorFile(tmp_path / "v.parquet", kept).dimension == 5


def changed(vectors, row, value):
    other = vectors.copy()
    other[row] = value
    return other


@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v[:5], r"holds 5 vectors, and the corpus 6 usable lines"),
        (lambda v: v[0], r"float64 numbers of shape \[5\]: expected one row of floats per sentence"),
        (lambda v: v.astype(int), r"int64 numbers of shape \[6, 5\]"),
        (lambda v: v[:, :0], "holds no vectors"),
        (lambda v: changed(v, 3, np.nan), "row 3 is a NaN or infinite vector .*'The river likes'"),
        (lambda v: changed(v, 4, 1e300), "row 4 is a NaN or infinite vector .*'a b'"),
        (lambda v: changed(v, 1, 0), "row 1 is a zero vector .*'The dog moves'"),
    ],
)
def test_bad_vectors(kept, tmp_path, vectors, change, message):
    np.save(tmp_path / "v.npy", change(vectors))
    with pytest.raises(InputError, match=message):
        VectorFile(tmp_path / "v.npy", kept).check()


def test_a_duplicate_that_no_one_asks_for_may_be_bad(kept, tmp_path, vectors):
    np.save(tmp_path / "v.npy", changed(vectors, 2, np.nan))
    assert np.isfinite(opened(tmp_path / "v.npy", kept).rows(0, 4)).all()


def test_bad_files(tiny_folder, corpus, kept, tmp_path, vectors):
    with pytest.raises(InputError, match=r"no such file of vectors: .*none\.npy"):
        VectorFile(tmp_path / "none.npy", kept)
    with pytest.raises(InputError, match=r"corpus\.txt: vectors are read from \.npy or \.parquet files"):
        VectorFile(corpus, kept)
    path = tmp_path / "v.npy"
    encode_file(str(tiny_folder), corpus, path, skip_invalid=True)
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    with pytest.raises(InputError, match=r"v\.npy is damaged"):
        VectorFile(path, kept)
    np.save(path, vectors)  # 5 dimensions, not 32
    with pytest.raises(InputError, match=r"v\.npy\.json does not describe .*v\.npy: delete it"):
        VectorFile(path, kept)
    (tmp_path / "v.npy.json").write_text('{"rows": 6, "dimension": 32}')
    with pytest.raises(InputError, match=r"v\.npy\.json is damaged"):
        VectorFile(path, kept)
    np.save(path, np.array([{}] * 6), allow_pickle=True)
    with pytest.raises(InputError, match=r"v\.npy is damaged"):
        VectorFile(path, kept)


def test_bad_parquet_files(kept, tmp_path, vectors):
    path = tmp_path / "v.parquet"
    rows = vectors.tolist()
    for columns, message in (
        (
            {"vector": [*rows[:4], rows[4][:4], rows[5]]},
            "row 4: the vector is missing or has a different dimension",
        ),
        ({"vector": [*rows[:5], None]}, "row 5: the vector is missing"),
        ({"vector": [*rows[:3], [None, *rows[3][1:]], *rows[4:]]}, "row 3 is a NaN or infinite vector"),
        ({"vector": rows[:3]}, "holds 3 vectors, and the corpus 6"),
        (
            {"vector": [list("ab")] * 6, "text": USABLE},
            "no column 'vector' of lists of floats",
        ),
        ({"a": rows, "b": rows}, "there is a, b"),
    ):
        pq.write_table(pa.table(columns), path, row_group_size=4)
        with pytest.raises(InputError, match=message), warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            VectorFile(path, kept).check()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"v\.parquet is not a readable Parquet file"):
        VectorFile(path, kept)
