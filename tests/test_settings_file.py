import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rankencoder.errors import InputError
from rankencoder.training.settings_file import check_types, nearest, read_settings, write_settings


@dataclass
class Settings:
    corpus: str = "corpus.txt"
    batch_size: int = 64
    learning_rate: float = 3e-5
    shuffle: bool = True
    seed: int | None = None
    dev: str | None = None
    pooling: Literal["cls", "mean", "off"] = "cls"
    precision: Literal["fp16", "bf16"] | None = None
    layers: list[str] = field(default_factory=list)
    names: tuple[str, ...] = ()
    folder: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)
    made: int = field(default=0, init=False)


def read(folder, text, name="train.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_settings(path, Settings)


def test_yaml_and_toml_agree(tmp_path):
    tomllib = pytest.importorskip("tomllib")
    text = """
corpus = "wiki.txt"
batch_size = 128
learning_rate = 1e-5
shuffle = false
layers = ["query", "value"]
[options]
rank = 8
nested = {deep = [1, 2.5, "x"]}
"""
    expected = tomllib.loads(text)
    assert read(tmp_path, text, "train.toml") == expected
    assert read(tmp_path, yaml.safe_dump(expected)) == expected
    assert read(tmp_path, yaml.safe_dump(expected), "train.YML") == expected
    assert Settings(**read(tmp_path, text, "train.toml")).options["rank"] == 8


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("learning_rate: 1e-5", 1e-5),
        ("learning_rate: 5E+3", 5000.0),
        ("learning_rate: 3", 3.0),
        ("batch_size: 1_000", 1000),
        ("seed: null", None),
        ("seed: 7", 7),
        ("dev: ~", None),
        ("corpus: '123'", "123"),
        ("corpus: C:\\data\\new\\x.txt", "C:\\data\\new\\x.txt"),
        ("layers: query", ["query"]),
        ("names: query", ("query",)),
        ("names: [query, value]", ("query", "value")),
        ("folder: runs/one", Path("runs/one")),
        ("pooling: 'off'", "off"),
        ("precision: bf16", "bf16"),
    ],
)
def test_values_take_the_fields_type(tmp_path, line, value):
    key = line.partition(":")[0]
    found = read(tmp_path, line)
    assert found == {key: value}
    assert type(found[key]) is type(value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("batchsize: 3", r"unknown key 'batchsize' in .*train\.yaml: did you mean 'batch_size'\?$"),
        ("zzz: 3", r"unknown key 'zzz' in .*train\.yaml: choose from corpus, batch_size, .*options$"),
        ("1: 3", "unknown key 1 in"),
        ("made: 3", "unknown key 'made' in"),
        ("batch_size: many", r"train\.yaml: batch_size is 'many', but must be a whole number$"),
        ("batch_size: 1.0", "batch_size is 1.0, but must be a whole number"),
        ("batch_size: true", "batch_size is True, but must be a whole number"),
        ("batch_size: null", "batch_size is None, but must be a whole number"),
        ("learning_rate: .nan", "learning_rate is nan, but must be a finite number"),
        ("learning_rate: -.inf", "learning_rate is -inf, but must be a finite number"),
        ("learning_rate: nan", "learning_rate is 'nan', but must be a finite number"),
        ("learning_rate: 1e999", "must be a finite number"),
        (f"learning_rate: 1{'0' * 400}", "must be a finite number"),
        ("learning_rate: false", "learning_rate is False, but must be a finite number"),
        ("shuffle: 1", "shuffle is 1, but must be true or false"),
        ("shuffle: 'true'", "shuffle is 'true', but must be true or false"),
        ("seed: None", "seed is 'None', but must be a whole number or null"),
        ("corpus: 2024", r"corpus is 2024, but must be a string \(.* needs quotes\)"),
        ("corpus: 2024-01-02", "needs quotes"),
        ("corpus: [a]", r"corpus is \['a'\], but must be a string$"),
        ("pooling: men", "but must be one of 'cls', 'mean', 'off': did you mean 'mean'?"),
        ("pooling: last_token", "but must be one of 'cls', 'mean', 'off'$"),
        ("pooling: off", r"pooling is False, but .* needs quotes"),
        ("precision: fp8", r"one of 'fp16', 'bf16' or null$"),
        ("layers: [a, 1]", r"layers is \['a', 1\], but must be a list \(each item a string\)"),
        ("layers: {a: 1}", "must be a list"),
        ("options: [a]", "options is .* but must be a mapping"),
        ("options: {1: a}", "must be a mapping"),
        ("- a\n- b", r"train\.yaml: expected lines of 'key: value', got \['a', 'b'\]"),
        ("seed: 1\nbatch_size: 2\nseed: 3", r"train\.yaml, line 3: not YAML \('seed' is given twice\)"),
        ("options:\n  a: 1\n  'a': 1", r"train\.yaml, line 3: .*'a' is given twice"),
        ("seed: 1\ncorpus: [a\nb: 2", r"train\.yaml, line 3: not YAML"),
        ("seed: 1\n\tcorpus: a", r"train\.yaml, line 2: not YAML"),
        ("seed: 1\ncorpus: !!python/name:os.system", r"train\.yaml, line 2: not YAML"),
        ("seed: 1\ncorpus: a\x07b", r"train\.yaml, line 2: not YAML \(character"),
        ("seed: 1\n---\nseed: 2", r"train\.yaml, line 2: not YAML"),
        ("corpus: 2024-13-01", r"train\.yaml: not YAML \(month must be in 1\.\.12"),
        ("corpus: " + "[" * 5000, r"train\.yaml: not YAML"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path, line, message):
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = 1\ncorpus = x", r"train\.toml, line 2: not TOML"),
        ('seed = 1\ncorpus = """x', r"train\.toml, line 2: not TOML"),
        ("seed = 1\nseed = 2", r"train\.toml, line 2: not TOML"),
        ("sed = 1", r"unknown key 'sed' in .*train\.toml: did you mean 'seed'"),
    ],
)
def test_mistakes_in_toml(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, text, "train.toml")


def test_files_that_are_no_settings(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_settings(tmp_path / "train.yaml", Settings)
    with pytest.raises(InputError, match=r"read from \.yaml or \.toml files"):
        read(tmp_path, "{}", "train.json")
    with pytest.raises(InputError, match=r"name the file \.yaml"):
        write_settings(tmp_path / "train.toml", {})
    (tmp_path / "train.yaml").write_bytes(b"seed: 1\ncorpus: caf\xe9\n")
    with pytest.raises(InputError, match=r"train\.yaml, line 2: not UTF-8"):
        read_settings(tmp_path / "train.yaml", Settings)
    assert read(tmp_path, "# seed: 1\n") == read(tmp_path, "", "train.toml") == {}
    assert read(tmp_path, "\ufeffseed: 1\r\n") == {"seed": 1}


def test_merged_keys_are_no_duplicates(tmp_path):
    text = "options:\n  a: &a {x: 1}\n  b: &b {<<: *a, x: 2}\n  c: {<<: *b, y: 3}\n"
    assert read(tmp_path, text) == yaml.safe_load(text)


@pytest.mark.parametrize("module", ["yaml", "tomllib"])
def test_what_to_install(tmp_path, monkeypatch, module):
    if module == "tomllib" and sys.version_info >= (3, 11):
        pytest.skip("TOML is part of Python")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"pip install 'rankencoder\[train\]'"):
        read(tmp_path, "", "train.yaml" if module == "yaml" else "train.toml")


def test_values_from_elsewhere():
    given_ = {"corpus": Path("a/b.txt"), "learning_rate": 1, "names": ["x"]}
    found = check_types(given_, Settings, "the options")
    assert found == {"corpus": str(Path("a/b.txt")), "learning_rate": 1.0, "names": ("x",)}
    with pytest.raises(InputError, match="the options: batch_size is 1.5"):
        check_types({"batch_size": 1.5}, Settings, "the options")


def test_nearest():
    assert nearest("SIMCSE", ["simcse", "promptbert"]) == " did you mean 'simcse'?"
    assert nearest("xyz", ["simcse", "promptbert"]) == " choose from simcse, promptbert"


def test_written_settings_are_readable(tmp_path):
    path = tmp_path / "new" / "train.yaml"
    values = asdict(Settings(names=("q", "v"), folder=Path("a"), options={"a": {"b": [1, None]}}))
    del values["made"]
    comments = {"batch_size": "sentences\n per step", "options": "for the method"}
    write_settings(path, values, comments)
    lines = path.read_text().splitlines()
    assert [line.partition(":")[0] for line in lines] == list(values)
    assert lines[0] == "corpus: corpus.txt"
    assert lines[1] == "batch_size: 64  # sentences per step"
    assert lines[2] == "learning_rate: 3.0e-05"
    assert lines[-1] == "options: {a: {b: [1, null]}}  # for the method"
    assert read_settings(path, Settings) == values
    assert [file.name for file in path.parent.iterdir()] == ["train.yaml"]


looks_like_yaml = st.sampled_from(
    ("1e-5", "3", "no", "null", "<<", "2024-01-02", "0x1F", "1:30", "a:b", "a: b", "a#b", "a #b", "{x}", "[x")
) | st.sampled_from(("...", "a...", "---", "- ", "%a", "@a", "*a", "&a", "!a", "C:\\new\\t", *"#-?|=~>"))
hard_to_print = st.sampled_from(
    ("", " a ", "x\ny\n", "\t", "\u2028", "\x85", "\ufeff", "\x07", "naïve 🙂", "x" * 300, "a, b " * 60)
)
text = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    | looks_like_yaml
    | hard_to_print
)
number = st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | number | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "corpus": text,
            "batch_size": st.integers(),
            "learning_rate": number | st.just(3e-5),
            "shuffle": st.booleans(),
            "seed": st.none() | st.integers(),
            "dev": st.none() | text,
            "pooling": st.sampled_from(["cls", "mean", "off"]),
            "layers": st.lists(text, max_size=3),
            "options": st.dictionaries(text, anything, max_size=3),
        },
    ),
    st.dictionaries(st.sampled_from(["corpus", "dev", "options"]), st.text("ab #:'\"{\n\u2028")),
)
def test_any_settings_survive(tmp_path_factory, values, comments):
    path = tmp_path_factory.mktemp("any") / "train.yaml"
    write_settings(path, values, comments)
    written = path.read_text(encoding="utf-8")
    assert (yaml.safe_load(written) or {}) == values
    assert written.count("\n") == len(values)
    found = read_settings(path, Settings)
    assert found == values
    assert list(map(type, found.values())) == list(map(type, values.values()))


@given(st.lists(st.sampled_from(["on", "off", "yes", "no", "null", "y", "n"]), unique=True))
def test_fields_may_be_named_like_yaml_words(tmp_path_factory, names):
    path = tmp_path_factory.mktemp("any") / "train.yaml"
    write_settings(path, dict.fromkeys(names, 1))
    assert read_settings(path, make_dataclass("Words", [(n, int) for n in names])) == dict.fromkeys(names, 1)


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text(" \n:-[]{}&*!|>'\"%@#?,a1.<=~"))
def test_any_text_is_read_or_refused(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("any")
    for name in ("train.yaml", "train.toml"):
        with suppress(InputError):
            assert set(read(folder, f"options{':' if name == 'train.yaml' else ' ='} {content}", name))
