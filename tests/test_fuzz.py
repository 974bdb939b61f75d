"""Every loader is given damaged and hostile files: it returns, or raises an InputError that names the file.

`make fuzz` tries many more of them.
"""

import bz2
import gzip
import io
import json
import lzma
import shutil
import warnings
from contextlib import redirect_stdout

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import changed_bytes, changed_document, fuzzed
from senteval_tasks import read_transfer_task

from rankencoder.errors import InputError
from rankencoder.evaluation.sts_data import read_pair_set, read_sts
from rankencoder.io.corpus import read_sentences
from rankencoder.io.files import cut
from rankencoder.io.pairs import read_pairs, read_scored_pairs

SENTENCES = ["A cat sleeps.", 'He said "no", twice', "Füße 😀 \u202eabc", "x" * 300]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Relative names in hostile files lead into a folder of the test."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def unless_refused(load, *names):
    """Return what a loader makes of a file, or None where it refuses it and says which one it is."""
    try:
        return load()
    except InputError as error:
        message = str(error)
    assert not names or any(str(name) in message for name in names), message
    assert len(message) < 3000, "an error is for people"
    return None


def parquet(**columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table(columns or {"text": SENTENCES}), out)
    return out.getvalue()


def lines(rows):
    return "".join(f"{row}\n" for row in rows).encode()


CORPORA = {
    "plain.txt": lines(SENTENCES),
    "table.tsv": lines(["text\tyear", *(f"{s}\t1" for s in SENTENCES)]),
    "table.csv": b'text,year\n"A cat, asleep.",1\n"two\nlines ""quoted""",2\nplain,3\n',
    "objects.jsonl": lines(json.dumps({"text": s, "year": 1}) for s in SENTENCES),
    "packed.txt.gz": gzip.compress(lines(SENTENCES)),
    "packed.csv.bz2": bz2.compress(b"text,year\na,1\nb,2\n"),
    "packed.jsonl.xz": lzma.compress(b'{"text": "a"}\n"b"\n'),
}


@pytest.mark.parametrize("name", CORPORA)
def test_corpora(name, tmp_path):
    path = tmp_path / name

    @given(data=changed_bytes(CORPORA[name]), with_columns=st.booleans())
    @fuzzed(25)
    def check(data, with_columns):
        path.write_bytes(data)
        found = unless_refused(lambda: list(read_sentences(path, with_columns=with_columns)), path)
        for row in found or ():
            assert row.text is None or len(row.text.encode()) <= 4 * 2000
            assert row.line >= 1
        pieces = unless_refused(lambda: cut(path), path)
        assert pieces is not None or found is None or not data  # a file of another kind is refused in both

    check()


def test_parquet_corpora(tmp_path):
    from datetime import datetime
    from decimal import Decimal

    path = tmp_path / "corpus.parquet"
    odd = {"at": [datetime(2020, 1, 1)] * 4, "cost": [Decimal("1.5")] * 4, "more": [[{"a": 1}]] * 4}

    @given(
        data=st.one_of(changed_bytes(parquet()), changed_bytes(parquet(text=SENTENCES, **odd))),
        with_columns=st.booleans(),
    )
    @fuzzed(60)
    def check(data, with_columns):
        path.write_bytes(data)
        unless_refused(lambda: list(read_sentences(path, column="text", with_columns=with_columns)), path)
        unless_refused(lambda: cut(path), path)

    check()


PAIRS = {
    "pairs.tsv": b"score\tsentence1\tsentence2\n1\ta b\tc\n2.5\td\te f\n5\tg\th\n",
    "pairs.csv": b'score,sentence1,sentence2\n1,"a, b",c\n2.5,d,"e\nf"\n5,g,h\n',
    "pairs.jsonl": lines(json.dumps({"score": i, "sentence1": "a", "sentence2": "b"}) for i in range(3)),
    "plain.tsv": b"a\tb\nc\td\n",
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name, tmp_path):
    path = tmp_path / name

    @given(data=changed_bytes(PAIRS[name]))
    @fuzzed(25)
    def check(data):
        path.write_bytes(data)
        unless_refused(lambda: list(read_pairs(path)), path)
        for pair in unless_refused(lambda: read_scored_pairs(path), path) or ():
            assert np.isfinite(pair.score)
            assert pair.a.strip()
        if (pairs := unless_refused(lambda: read_pair_set(path), path)) is not None:
            assert pairs.fingerprint

    check()


def one_value(value):
    return st.one_of(changed_document(value).map(lambda text: text + b"\n"))


@pytest.mark.parametrize("scored", [True, False])
def test_pairs_of_other_types(tmp_path, scored):
    path = tmp_path / "pairs.jsonl"
    row = {"score": 1.0, "sentence1": "a", "sentence2": "b"}

    @given(document=one_value(row))
    @fuzzed(40)
    def check(document):
        path.write_bytes(b'{"score": 2, "sentence1": "a", "sentence2": "b"}\n' + document)
        unless_refused(lambda: read_scored_pairs(path) if scored else list(read_pairs(path)), path)

    check()


STS = {
    "STS/STSBenchmark/sts-test.csv": b"g\tf\ty\t1\t2.5\ta b\tc d\ng\tf\ty\t2\t4\te\tf\n",
    "SICK/SICK_test_annotated.txt": b"id\tA\tB\tscore\tlabel\n1\ta\tb\t3.5\tX\n2\tc\td\t1\tY\n",
    "STS/STS13-en-test/STS.input.FNWN.txt": b"a\tb\nc\td\n",
    "STS/STS13-en-test/STS.gs.FNWN.txt": b"1\n\n",
}


@pytest.mark.parametrize("name", STS)
def test_senteval_sts(name, tmp_path):
    for subset in ("headlines", "OnWN", "FNWN"):
        for kind, content in (("input", b"a\tb\nc\td\n"), ("gs", b"1\n5\n")):
            path = tmp_path / f"STS/STS13-en-test/STS.{kind}.{subset}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    wanted = "STS13" if "STS13" in name else "SICK-R" if "SICK" in name else "STS-B"

    @given(data=changed_bytes(STS[name]))
    @fuzzed(20)
    def check(data):
        path.write_bytes(data)
        if (found := unless_refused(lambda: read_sts(tmp_path, [wanted]), tmp_path)) is not None:
            assert found[0].fingerprint

    check()


TRANSFER = {
    "MR/rt-polarity.pos": ("MR", b"a good film\nanother\n"),
    "SST/binary/sentiment-train": ("SST-2", b"fine\t1\nbad one\t0\n"),
    "TREC/train_5500.label": ("TREC", b"NUM:dist How far ?\nLOC:city Where ?\n"),
    "MRPC/msr_paraphrase_train.txt": ("MRPC", b"\xef\xbb\xbfQuality\t#1\t#2\ta\tb\n1\t1\t2\tx y\tz\n"),
}


@pytest.mark.parametrize("name", TRANSFER)
def test_senteval_transfer(name, tmp_path):
    from senteval_tasks import _FILES

    task, valid = TRANSFER[name]
    for file in _FILES[task]:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes(valid)

    @given(data=changed_bytes(valid))
    @fuzzed(20)
    def check(data):
        (tmp_path / name).write_bytes(data)
        if (found := unless_refused(lambda: read_transfer_task(tmp_path, task), tmp_path)) is not None:
            assert found.fingerprint
            assert all(sentence.strip() for sentence in found.sentences)

    check()


def letters(texts):
    """An encoder of eight numbers, without a model."""
    rows = np.zeros((len(texts), 8), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for place, letter in enumerate(text[:400]):
            row[(ord(letter) + place % 3) % 8] += 1
    return rows


@pytest.fixture(scope="module")
def small():
    """A RankEncoder on it, in the compact form."""
    from rankencoder import RankEncoder

    corpus = [f"sentence {i} {'abcdefgh'[i % 8] * i}" for i in range(60)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RankEncoder(letters, corpus, form="compact", dim=4, progress=False)


@pytest.fixture(scope="module")
def saved(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz") / "model"
    small.save(folder)
    return folder


def use(model):
    """What a model that was loaded is good for."""
    assert np.isfinite(model.encode(["a sentence"])).all()
    model.explain("a", "b", k=3)
    repr(model)


MODEL_JSON = ("rankencoder.json", "reference/reference.json")
MODEL_TENSORS = ("form.safetensors", "reference/reference.safetensors")


@pytest.mark.parametrize("name", MODEL_JSON)
def test_a_saved_rank_encoder(name, saved, tmp_path):
    from rankencoder import RankEncoder
    from rankencoder.cli.info import describe, print_description

    folder = shutil.copytree(saved, tmp_path / "model")

    @given(document=changed_document(json.loads((saved / name).read_text())))
    @fuzzed(60)
    def check(document):
        (folder / name).write_bytes(document)
        found = unless_refused(lambda: RankEncoder.load(folder, letters), folder)
        if found is not None:
            use(found)
        with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace")):
            unless_refused(lambda: print_description(describe(folder), False), folder)

    check()


def tensor_file(tensors):
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(array) for name, array in tensors.items()})


@st.composite
def changed_tensors(draw, data):
    """A safetensors file with other numbers, types, shapes or names, or other bytes."""
    from safetensors.numpy import load

    if draw(st.booleans()):
        return draw(changed_bytes(data))
    tensors = {name: array.copy() for name, array in load(data).items()}
    name = draw(st.sampled_from(sorted(tensors)))
    array = tensors[name]
    floats, table = array.dtype.kind == "f", np.atleast_2d(array)
    how = draw(st.sampled_from(("number", "type", "shape", "name", "more", "all")))
    if how == "number":
        number = draw(st.sampled_from((np.nan, np.inf, -np.inf, 3e38, 0.0, 1e-40) if floats else (0, 255)))
        array.reshape(-1)[draw(st.integers(0, array.size - 1))] = number
    elif how == "all":
        array[:] = draw(st.sampled_from((np.nan, np.inf, 0.0, 3e38) if floats else (0, 255)))
    elif how == "type":
        kind = draw(st.sampled_from(("float64", "float16", "int64", "uint8", "bool", "complex64")))
        tensors[name] = array.astype(kind)
    elif how == "shape":
        shapes = (
            array[:0],
            table[:, :0],
            array[:1],
            array[0],
            array.T,
            array.ravel(),
            array[None],
            table[0, 0],
        )
        tensors[name] = np.array(draw(st.sampled_from(shapes)))
    elif how == "name":
        tensors[draw(st.sampled_from(("", "a", "reference", "dim", "__metadata__x", "\u202e")))] = (
            tensors.pop(name)
        )
    else:
        tensors["more"] = array
    return tensor_file(tensors)


@pytest.mark.parametrize("name", MODEL_TENSORS)
def test_the_numbers_of_a_saved_rank_encoder(name, saved, tmp_path):
    from rankencoder import RankEncoder

    folder = shutil.copytree(saved, tmp_path / "model")

    @given(data=changed_tensors((saved / name).read_bytes()))
    @fuzzed(80)
    def check(data):
        (folder / name).write_bytes(data)
        found = unless_refused(lambda: RankEncoder.load(folder, letters), folder, "encoded by")
        if found is not None:
            use(found)

    check()


@pytest.fixture(scope="module")
def index_folder(small, tmp_path_factory):
    from rankencoder import RankIndex

    folder = tmp_path_factory.mktemp("fuzz") / "index"
    RankIndex.build(letters, [f"text {i}" for i in range(8)], folder)
    return folder


@pytest.mark.parametrize("name", ["index.json", "calibration.json", "probe.safetensors"])
def test_an_index(name, index_folder, tmp_path):
    from rankencoder import RankIndex

    folder = shutil.copytree(index_folder, tmp_path / "index")
    valid = (folder / name).read_bytes()
    hostile = changed_tensors(valid) if name.endswith("tensors") else changed_document(json.loads(valid))

    @given(data=hostile)
    @fuzzed(25)
    def check(data):
        (folder / name).write_bytes(data)

        def search():
            found = RankIndex.load(folder, letters).search("text 1", k=2)
            assert all(hit.percentile is None or 0 <= hit.percentile <= 100 for hit in found)

        unless_refused(search, folder, "table", "model")

    check()


def test_settings(tmp_path):
    from rankencoder.training.config import read_given

    path = tmp_path / "settings.yaml"
    valid = {
        "method": '"simcse"',
        "batch_size": "32",
        "learning_rate": "3e-5",
        "dev": '["a.tsv", "b.tsv"]',
        "options": "{a: 1}",
        "cuda_graphs": "true",
        "compile": "false",
    }
    values = st.sampled_from(
        (
            *(".nan", "nan", "-.inf", "inf", "1e400", "9" * 5000, "0x" + "f" * 5000, "0b" + "1" * 20_000),
            *("[" * 500, "null", "''", "-1", "10" * 20, "1_0", "1:60:99", "2024-13-01", "2020-01-01"),
            *("&a [*a]", "&a {<<: *a}", "!!python/object/apply:os.system [ls]", "[1, [2]]", "{a: {b: 1}}"),
            *('"\\ud800"', '"\\u0000"'),
        )
    )

    @st.composite
    def settings(draw):
        chosen = {**valid, draw(st.sampled_from((*valid, "epochs", "lower", "seed", "target"))): draw(values)}
        text = "".join(f"{key}: {value}\n" for key, value in chosen.items()).encode()
        return draw(changed_bytes(text)) if draw(st.booleans()) else text

    @given(data=settings())
    @fuzzed(25)
    def check(data):
        path.write_bytes(data)
        found = unless_refused(lambda: read_given({"corpus": "x"}, path))
        if found is not None:
            numbers = [value for value in found.values.values() if isinstance(value, float)]
            assert np.isfinite(numbers).all()

    check()


@pytest.fixture(scope="module")
def result(small, tmp_path_factory):
    """What an evaluation wrote: all that it measures, of a model without a file."""
    from rankencoder.evaluation.evaluator import SECTIONS, evaluate

    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "mine.tsv").write_text("".join(f"{i % 6}\ttext {i}\ttext {i * 7 % 5} x\n" for i in range(30)))
    tasks = [task for task in SECTIONS if task != "cost"]
    evaluate(small, tasks=tasks, dev=folder / "mine.tsv", output=folder / "out", cache=False, progress=False)
    (path,) = (folder / "out").glob("*.json")
    return json.loads(path.read_text())


def test_results_and_reports_of_them(result, tmp_path):
    from rankencoder.report import report

    path = tmp_path / "result.json"

    @given(document=changed_document(result))
    @fuzzed(15)
    def check(document):
        path.write_bytes(document)
        text = unless_refused(lambda: report(path, format="md"), path)
        assert text is None or "\x1b" not in text

    check()


def test_the_record_of_a_training(saved, tmp_path, monkeypatch):
    from rankencoder import RankEncoder
    from rankencoder.evaluation.subjects import open_subjects

    folder = tmp_path / "run"
    record = {"finished": True, "config": {"seed": 1, "base_encoder": ["x"], "output": "y"}, "stages": []}
    shutil.copytree(saved, folder / "rankencoder")
    loaded = RankEncoder.load(saved, letters)
    monkeypatch.setattr(RankEncoder, "load", lambda *_, **__: loaded)

    @given(document=changed_document(record))
    @fuzzed(40)
    def check(document):
        (folder / "rankencoder-run.json").write_bytes(document)
        if (found := unless_refused(lambda: open_subjects(folder), folder)) is not None:
            assert found.fingerprint
            unless_refused(lambda: (found.group, found.seed), folder)

    check()


def test_stored_training_sentences(tmp_path):
    from rankencoder.training.sentences import load_sentences, store_sentences

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store_sentences([f"sentence {i}" for i in range(20)], tmp_path, column=None, progress=False)
    files = {name: (tmp_path / name).read_bytes() for name in ("sentences.json", "sentences.arrow")}

    @given(st.data())
    @fuzzed(30)
    def check(data):
        name = data.draw(st.sampled_from(sorted(files)))
        valid = files[name]
        for other, content in files.items():
            (tmp_path / other).write_bytes(content)
        hostile = changed_document(json.loads(valid)) if name.endswith("json") else changed_bytes(valid)
        (tmp_path / name).write_bytes(data.draw(hostile))
        unless_refused(lambda: len(load_sentences(tmp_path)), tmp_path)

    check()


def test_kept_vectors_and_parts(tmp_path):
    """Damaged parts of earlier work are made again."""
    from rankencoder.encoders import Encoder
    from rankencoder.evaluation.vector_cache import CachedEncoder
    from rankencoder.reference import Reference

    texts = [f"text {i}" for i in range(12)]
    encoder = CachedEncoder(Encoder(letters), tmp_path / "vectors")
    right = encoder(texts).numpy()
    (stored,) = (tmp_path / "vectors").rglob("*.safetensors")

    @given(data=changed_tensors(stored.read_bytes()))
    @fuzzed(25)
    def check(data):
        stored.write_bytes(data)
        found = unless_refused(lambda: CachedEncoder(Encoder(letters), tmp_path / "vectors")(texts).numpy())
        assert found is None or found.shape == right.shape

    check()

    def build():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Reference.build(letters, texts, resume_beside=tmp_path / "reference")

    build()
    (part,) = (tmp_path / ".reference.parts").glob("part-*")

    @given(data=changed_tensors(part.read_bytes()))
    @fuzzed(25)
    def check_parts(data):
        part.write_bytes(data)
        found = unless_refused(build)
        assert found is None or len(found) == len(texts)

    check_parts()


def test_a_tokenizer(tiny_folder, tmp_path):
    """Damaged folders of encoders are refused in one line, whatever the libraries raise."""
    from rankencoder.encoders import Encoder

    folder = shutil.copytree(tiny_folder, tmp_path / "encoder")
    names = ("tokenizer.json", "modules.json", "config.json", "1_Pooling/config.json", "model.safetensors")
    files = {name: (folder / name).read_bytes() for name in names}

    @given(st.data())
    @fuzzed(12)
    def check(data):
        for name, content in files.items():
            (folder / name).write_bytes(content)
        name = data.draw(st.sampled_from(names))
        small = name.endswith("json") and len(files[name]) < 5000
        hostile = changed_document(json.loads(files[name])) if small else changed_bytes(files[name])
        (folder / name).write_bytes(data.draw(hostile))
        unless_refused(lambda: Encoder(folder, device="cpu"), folder)

    check()


def test_arrays_and_checkpoints(tmp_path):
    """What an interrupted training left."""
    from rankencoder.io.storage import read_array
    from rankencoder.training.loop.trainer import last_checkpoint

    array, note = tmp_path / "teacher-0.npy", tmp_path / "checkpoint-2/manifest.json"
    np.save(array, np.arange(12, dtype=np.float16).reshape(3, 4))
    valid = array.read_bytes()
    note.parent.mkdir()

    @given(
        data=changed_bytes(valid), document=changed_document({"step": 2}), mode=st.sampled_from((None, "r"))
    )
    @fuzzed(40)
    def check(data, document, mode):
        array.write_bytes(data)
        note.write_bytes(document)
        found = unless_refused(lambda: read_array(array, mode), array)
        assert found is None or not found.dtype.hasobject
        unless_refused(lambda: last_checkpoint(tmp_path), note)

    check()
