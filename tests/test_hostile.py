"""Hostile sentences, numbers and paths, through the real commands."""

import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tarfile
import warnings
from contextlib import suppress

import numpy as np
import pytest
from mutations import EXAMPLES
from peak_memory import PEAK

from rankencoder import RankEncoder, RankIndex
from rankencoder.errors import InputError
from rankencoder.evaluation.public_data import unpack_senteval
from rankencoder.io.corpus import read_sentences
from rankencoder.report import report

SENTENCES = {
    "control characters": "a \x01\x02\x07\x08 bell \x1b]0;owned\x07\x1b[31m red",
    "C1 controls": "a \x9b31m b \x85 c",
    "right to left": "\u202eabc\u202c שלום \u2067x\u2069",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪",
    "zero width alone": "\u200b\u200c\u200d\ufeff\u2060",
    "combining characters": "e" + "\u0301" * 900,
    "a script": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "markup of a terminal": "[bold]x[/] [link=file:///etc/passwd]y[/link]",
    "a formula": "=cmd|'/C calc'!A0",
    "a template": "{{ 7 * 7 }} ${7*7} %s %n",
    "private and unassigned": "\ue000 \U000e0001 \uffff \U0010ffff",
    "one word": "x" * 1900,
}


@pytest.fixture(scope="module")
def strange(tmp_path_factory, sentences):
    """A corpus with all of them."""
    path = tmp_path_factory.mktemp("hostile") / "corpus.txt"
    path.write_text("\n".join([*SENTENCES.values(), "   ", "", *sentences[:1000]]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def built(tiny_folder, strange):
    """A RankEncoder whose reference corpus holds them, in a folder."""
    folder = strange.parent / "model"
    RankEncoder(str(tiny_folder), strange, rank_weight=0.3, form="compact", dim=16).save(folder)
    return folder


def test_strange_sentences_are_encoded_and_found(run_cli, built, strange):
    code, _, error = run_cli("encode", built, strange, "-o", strange.parent / "v.jsonl", "--skip-invalid")
    assert (code, error) == (0, "")
    lines = (strange.parent / "v.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    rows = [json.loads(line) for line in lines]
    assert [row["text"] for row in rows[: len(SENTENCES)]] == [text.strip() for text in SENTENCES.values()]
    assert np.isfinite([row["vector"] for row in rows]).all()
    index = strange.parent / "index"
    assert run_cli("index", built, strange, "-o", index)[0] == 0
    for name, text in SENTENCES.items():
        code, out, error = run_cli("search", index, text, "-k", 3, "--json")
        assert (code, error) == (0, ""), name
        json.loads(out)
        assert not OBEYED.search(out), name


OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def test_no_terminal_obeys_a_sentence(run_cli, built, strange):
    text = SENTENCES["control characters"]
    texts = (text, SENTENCES["C1 controls"])
    for arguments in (
        *(("neighbors", built, text) for text in texts),
        *(("explain", built, text, text, "-k", 50) for text in texts),
        *(("similarity", built, text, text) for text in texts),
        ("search", strange.parent / "index", text),
        ("search", text, "x"),
        ("info", f"{text}"),
    ):
        code, out, error = run_cli(*arguments)
        assert code in (0, 2)
        assert not OBEYED.search(out), arguments[0]
        assert not OBEYED.search(error), arguments[0]
    bad = strange.parent / "bad.csv"
    bad.write_text("a\x1b[31m,b\n1,2\n")
    code, _, error = run_cli("encode", built, bad, "-o", strange.parent / "bad.npy")
    assert code == 2
    assert "which column" in error
    assert not OBEYED.search(error.rstrip("\n"))


def test_what_no_encoder_can_read_is_named(built):
    model = RankEncoder.load(built)
    for text, message in (
        ("\ud800", "lone surrogate"),
        ("a \udfff b", "lone surrogate"),
        (" \u2003\n", "is empty"),
        ("x" * 10_000_000, "10,000,000 characters"),
        ("e" + "\u0301" * 1_000_000, "1,000,001 characters"),
    ):
        for use in (model.encode, model.neighbors, lambda text: model.explain(text, "b")):
            with pytest.raises(InputError, match=message):
                use(text)


def test_strange_names_and_sentences_in_evaluations_and_reports(built, tmp_path, run_cli):
    texts = list(SENTENCES.values())
    rows = [{"score": i % 5, "sentence1": text, "sentence2": texts[i - 1]} for i, text in enumerate(texts)]
    pairs = tmp_path / "<b>pairs & more\u202e.jsonl"
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out"
    tasks = ("--task", "sts", "--task", "choice")
    code, _, error = run_cli("evaluate", built, "--dev", pairs, "-o", out, "--no-cache", *tasks)
    assert code == 0, error
    html = report(out, format="html")
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "<b>pairs" not in html
    assert "\x1b" not in html


MEMORY = f"""{PEAK}
import sys
from rankencoder.io.corpus import read_sentences
before = peak()
found = [row.text for row in read_sentences(sys.argv[1])]
print(len(found), sum(text is None for text in found), peak() - before)
"""


MUCH = pytest.mark.skipif(not EXAMPLES, reason="make fuzz")


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (10_000_000, "corpus.txt"),
        (10_000_000, "corpus.txt.gz"),
        pytest.param(200_000_000, "corpus.txt", marks=MUCH),
        pytest.param(200_000_000, "corpus.txt.gz", marks=MUCH),
    ],
)
def test_a_long_line_takes_no_memory(tmp_path, size, name):
    import gzip

    path = tmp_path / name
    with gzip.open(path, "wb", 1) if name.endswith(".gz") else open(path, "wb") as file:
        file.write(b"before\n")
        for _ in range(size // 1_000_000):
            file.write(b"\xcc\x81" * 500_000)
        file.write(b"\nafter\n")
    run = [sys.executable, "-c", MEMORY, str(path)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    rows, overlong, kilobytes = map(int, done.stdout.split())
    assert (rows, overlong) == (3, 1)
    assert kilobytes < 20_000


def test_a_row_of_a_table_has_a_longest_length(tmp_path, monkeypatch):
    """A quoted field goes on in the next line, so a row could take all lines of a file."""
    monkeypatch.setattr("rankencoder.io.csv_tables._BLOCK", 2**14)
    path = tmp_path / "table.csv"
    for end, message in (
        ("", "the quote that begins in line 2 is never closed"),
        ('"\n', "a row is longer than .*quoting"),
    ):
        path.write_text("text\n" + '"x\n' + "x\n" * 50_000 + end)
        with pytest.raises(InputError, match=rf"table\.csv: {message}"):
            list(read_sentences(path))
    path.write_text("text\n" + '"two\nlines"\n' * 5000)
    assert sum(row.text == "two\nlines" for row in read_sentences(path)) == 5000


NUMBERS = ("nan", "inf", "-inf", "1e400", "-1", "abc", str(10**30), "9" * 5000)
OPTIONS = (
    ("build", "ENCODER", "CORPUS", "-o", "OUT", "--rank-weight"),
    ("build", "ENCODER", "CORPUS", "-o", "OUT", "--size"),
    ("build", "ENCODER", "CORPUS", "-o", "OUT", "--seed"),
    ("build", "ENCODER", "CORPUS", "-o", "OUT", "--dim"),
    ("build", "ENCODER", "CORPUS", "-o", "OUT", "--form", "linear", "--power"),
    ("train", "CORPUS", "-o", "OUT", "--lower"),
    ("train", "CORPUS", "-o", "OUT", "--learning-rate"),
    ("train", "CORPUS", "-o", "OUT", "--epochs"),
    ("train", "CORPUS", "-o", "OUT", "--rank-weight"),
    ("train", "CORPUS", "-o", "OUT", "--reference-size"),
    ("similarity", "MODEL", "a", "b", "--rank-weight"),
    ("neighbors", "MODEL", "a", "-k"),
    ("serve", "MODEL", "--port"),
)


HUGE = str(10**30)
FINE = (("--size", HUGE), ("--dim", HUGE), ("-k", HUGE), ("--seed", "-1"), ("--power", "-1"))


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: f"{option[0]} {option[-1]}")
def test_numbers_on_the_command_line(option, run_cli, built, strange, tiny_folder, tmp_path, monkeypatch):
    def served(*_, **__):
        raise InputError("nothing was refused")

    monkeypatch.setattr("rankencoder.web_process.run", served)
    places = {"ENCODER": tiny_folder, "CORPUS": strange, "OUT": tmp_path / "out", "MODEL": built}
    for number in NUMBERS:
        code, _, error = run_cli(*(places.get(word, word) for word in option), number)
        assert code == 2 or (option[-1], number) in FINE, (number, error)
        assert error.count("\n") <= 2
        assert "unexpected" not in error
        assert "No such option" not in error
        assert "nothing was refused" not in error
        assert not (tmp_path / "out").exists() or code == 0
        shutil.rmtree(tmp_path / "out", ignore_errors=True)


class Trap:
    """Makes a file where it is unpickled."""

    def __reduce__(self):
        return (os.mkdir, (str(Trap.place),))


def test_nothing_unpickles_a_pickle(tmp_path, built, tiny_folder):
    """Each loader is given a pickle under the name that it reads."""
    Trap.place = tmp_path / "trapped"
    data = pickle.dumps(Trap())
    npy = io.BytesIO()
    np.save(npy, np.array([Trap()], dtype=object), allow_pickle=True)
    model, encoder = tmp_path / "model", tmp_path / "encoder"
    for name in (
        "rankencoder.json",
        "form.safetensors",
        "reference/reference.json",
        "reference/reference.safetensors",
    ):
        for content in (data, npy.getvalue()):
            shutil.rmtree(model, ignore_errors=True)
            shutil.copytree(built, model)
            (model / name).write_bytes(content)
            with pytest.raises(InputError):
                RankEncoder.load(model)
    shutil.copytree(tiny_folder, encoder)
    (encoder / "model.safetensors").rename(encoder / "pytorch_model.bin")
    (encoder / "pytorch_model.bin").write_bytes(data)
    with pytest.raises(InputError, match="cannot load encoder"):
        RankEncoder(str(encoder), ["a", "b"])
    for suffix in (".txt", ".csv", ".jsonl", ".parquet", ".tsv.gz"):
        path = tmp_path / f"corpus{suffix}"
        path.write_bytes(data)
        with pytest.raises(InputError):
            list(read_sentences(path))
    from rankencoder.training.config import read_given

    path = tmp_path / "settings.yaml"
    path.write_text("method: !!python/object/apply:os.mkdir ['trapped']\n")
    with pytest.raises(InputError):
        read_given({}, path)
    assert not Trap.place.exists()


def test_code_beside_an_encoder_is_not_run(tiny_folder, tmp_path):
    place = tmp_path / "trapped"
    code = f"import os\nos.mkdir({str(place)!r})\nclass Pooling:\n    pass\n"
    own = {"AutoModel": "trap.Pooling", "AutoConfig": "trap.Pooling"}
    for number, (name, change) in enumerate(
        (
            ("modules.json", lambda v: [*v[:-1], {**v[-1], "type": "trap.Pooling"}]),
            ("modules.json", lambda v: [*v[:-1], {**v[-1], "type": "os.system"}]),
            ("modules.json", lambda v: [*v[:-1], {**v[-1], "path": "../../outside"}]),
            ("config.json", lambda v: {**v, "auto_map": own, "model_type": "trap"}),
        )
    ):
        folder = shutil.copytree(tiny_folder, tmp_path / str(number))
        (folder / "trap.py").write_text(code)
        (folder / name).write_text(json.dumps(change(json.loads((folder / name).read_text()))))
        with pytest.raises(InputError, match="cannot load encoder"):
            RankEncoder(str(folder), ["a", "b"])
    assert not place.exists()


def member(name, **about):
    entry = tarfile.TarInfo(name)
    for key, value in about.items():
        setattr(entry, key, value)
    return entry


MEMBERS = {
    "up": member("STS/../../escaped"),
    "up, with dots and backslashes": member("STS\\..\\..\\escaped/../../escaped"),
    "absolute": member("/tmp/../tmp/rankencoder-escaped"),
    "a symbolic link": member("STS/link", type=tarfile.SYMTYPE, linkname="/etc"),
    "a hard link": member("STS/link", type=tarfile.LNKTYPE, linkname="../../escaped"),
    "a pipe": member("STS/pipe", type=tarfile.FIFOTYPE),
    "a device": member("STS/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    "a set-user bit": member("STS/file", mode=0o4777),
    "a NUL in a name": member("STS/a\0/../../../escaped"),
    "a long name": member("STS/" + "a" * 300),
    "dots of Unicode": member("STS/\u2025/\uff0e\uff0e/file"),
    "a file where a folder is": member("STS"),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_archives_stay_where_they_belong(name, tmp_path):
    home = tmp_path / "a" / "b"
    home.mkdir(parents=True)
    with tarfile.open(home / "data.tar", "w") as tar:
        tar.addfile(member("STS", type=tarfile.DIRTYPE, mode=0o755))
        tar.addfile(MEMBERS[name])
    with suppress(InputError, OSError):  # one line each
        unpack_senteval(home / "data.tar", home / "target")
    outside = [p for p in tmp_path.rglob("*") if home not in p.parents and p not in (home, home.parent)]
    assert outside == []
    assert not os.path.exists("/tmp/rankencoder-escaped")
    for path in home.rglob("*"):
        assert home in path.resolve().parents  # nor do links lead out
        assert path.is_file() or path.is_dir()
        assert not path.stat().st_mode & 0o6000


def test_a_label_of_a_result_is_a_name_and_no_path():
    from rankencoder.io.files import file_name

    for label in ("../../etc/passwd", "/etc/passwd", "..", "a\\..\\b", "\0", "", "...", "a/b", "C:\\x"):
        name = file_name(label)
        assert "/" not in name
        assert "\\" not in name
        assert "\0" not in name
        assert name not in ("", ".", "..")


def test_an_index_that_names_a_table_elsewhere_makes_nothing_there(tmp_path, callable_encoder):
    folder, elsewhere = tmp_path / "index", tmp_path / "elsewhere"
    RankIndex.build(callable_encoder, ["one text", "another"], folder)
    about = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**about, "table": str(elsewhere)}))
    with pytest.raises(InputError, match="elsewhere"):
        RankIndex.load(folder, callable_encoder)
    assert not elsewhere.exists()


def test_a_stored_probe_of_no_numbers_fits_no_encoder(tmp_path, callable_encoder):
    from safetensors.numpy import load_file, save_file

    corpus = [f"a text {i} of {i * 7}" for i in range(50)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        RankEncoder(callable_encoder, corpus, progress=False).save(tmp_path / "model")
    file = tmp_path / "model/reference/reference.safetensors"
    tensors = load_file(file)
    save_file({**tensors, "probe": np.full_like(tensors["probe"], np.nan)}, file)
    (tmp_path / "model/manifest.json").unlink()
    with pytest.raises(InputError, match="is a different"):
        RankEncoder.load(tmp_path / "model", callable_encoder)


@pytest.mark.parametrize(
    "change",
    [{"pairs": float("inf")}, {"highest": float("nan")}, {"similarities": [float("nan")]}, {"shares": [2.0]}],
)
def test_a_calibration_of_no_numbers_is_refused(change, tmp_path):
    from rankencoder.search.calibration import Calibration

    valid = {"pairs": 3, "source": "x", "similarities": [0.5], "shares": [0.5], "highest": 0.9}
    Calibration.from_dict(valid, tmp_path)
    with pytest.raises(InputError, match="delete it to measure again"):
        Calibration.from_dict({**valid, **change}, tmp_path)
