from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from rankencoder.errors import InputError, nearest
from rankencoder.training.settings_file import Settings, read_settings, validate, write_settings


class Own(Settings):
    corpus: str = "corpus.txt"
    batch_size: int = Field(64, ge=2, le=10**12)
    learning_rate: float = Field(3e-5, gt=0)
    shuffle: bool = True
    pooling: Literal["cls", "mean", "off"] = "cls"
    target: Literal["ranks", "cosine"] | float = "ranks"
    layers: list[str] = Field(default_factory=list)
    options: dict[str, Any] = Field(default_factory=dict)


def read(folder, text, name="train.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    values, places = read_settings(path)
    return validate(values, Own, places).model_dump(exclude_unset=True)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("learning_rate: 1e-5", 1e-5),
        ("learning_rate: 5E+3", 5000.0),
        ("learning_rate: 3", 3.0),
        ("batch_size: 1_000", 1000),
        ("corpus: '123'", "123"),
        ("corpus: C:\\data\\new\\x.txt", "C:\\data\\new\\x.txt"),
        ("layers: query", ["query"]),
        ("target: cosine", "cosine"),
        ("target: -0.25", -0.25),
        ("target: '-1e-1'", -0.1),
        ("pooling: 'off'", "off"),
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
        ("\nbatchsize: 3", r"train\.yaml, line 2: unknown setting 'batchsize': did you mean 'batch_size'\?$"),
        ("zzz: 3", r"unknown setting 'zzz': choose from corpus, batch_size, .*options$"),
        ("1: 3", "unknown setting '1'"),
        (
            "shuffle: true\n\nlearning_rate: -1",
            r"train\.yaml, line 3: learning_rate is -1, but must be greater than 0$",
        ),
        ("batch_size: 1", "batch_size is 1, but must be greater than or equal to 2$"),
        ("batch_size: many", r"batch_size is 'many', but must be a valid integer$"),
        ("batch_size: 1.0", "batch_size is 1.0, but must be a valid integer"),
        ("batch_size: true", "batch_size is True, but must be a valid integer"),
        ("batch_size: null", "batch_size is None, but must be a valid integer"),
        (
            "batch_size: 0x" + "f" * 5000,
            "batch_size is a huge number, but must be less than or equal to 1000000000000",
        ),
        ("learning_rate: .nan", "learning_rate is nan, but must be a finite number"),
        ("learning_rate: -.inf", "learning_rate is -inf, but must be a finite number"),
        ("learning_rate: nan", "learning_rate is nan, but must be a finite number"),
        ("learning_rate: 1e999", "must be a finite number"),
        (f"learning_rate: 1{'0' * 400}", "but must be a"),
        ("learning_rate: false", "learning_rate is False, but must be a valid number"),
        ("shuffle: 1", "shuffle is 1, but must be a valid boolean"),
        ("shuffle: 'true'", "shuffle is 'true', but must be a valid boolean"),
        ("corpus: 2024", r"corpus is 2024, but must be a valid string$"),
        ("corpus: 2024-01-02", "must be a valid string"),
        ("corpus: [a]", r"corpus is \['a'\], but must be a valid string$"),
        ('corpus: "a\\0b"', "a string that can be a path"),
        ("pooling: men", "but must be 'cls', 'mean' or 'off': did you mean 'mean'?"),
        ("pooling: last_token", "but must be 'cls', 'mean' or 'off'$"),
        ("pooling: off", "pooling is False, but must be 'cls'"),
        ("target: rnks", "'ranks' or 'cosine' or a valid number: did you mean 'ranks'"),
        ("layers: [a, 1]", "an item of layers is 1, but must be a valid string"),
        ("layers: {a: 1}", "must be a valid list"),
        ("options: [a]", "options is .* but must be a valid dictionary"),
        ("options: {1: a}", "options is .* but must be"),
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


def test_files_that_are_no_settings(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_settings(tmp_path / "train.yaml")
    (tmp_path / "train.yaml").write_bytes(b"seed: 1\ncorpus: caf\xe9\n")
    with pytest.raises(InputError, match=r"train\.yaml, line 2: not UTF-8"):
        read_settings(tmp_path / "train.yaml")
    assert read(tmp_path, "# seed: 1\n") == {}
    assert read(tmp_path, "\ufeffbatch_size: 7\r\n") == {"batch_size": 7}


def test_merged_keys_are_no_duplicates(tmp_path):
    text = "options:\n  a: &a {x: 1}\n  b: &b {<<: *a, x: 2}\n  c: {<<: *b, y: 3}\n"
    assert read(tmp_path, text) == yaml.safe_load(text)


def test_values_from_elsewhere():
    given_ = {"corpus": Path("a/b.txt"), "learning_rate": 1, "layers": ("x",)}
    found = validate(given_, Own).model_dump(exclude_unset=True)
    assert found == {"corpus": str(Path("a/b.txt")), "learning_rate": 1.0, "layers": ["x"]}
    with pytest.raises(InputError, match=r"^batch_size is 1\.5"):
        validate({"batch_size": 1.5}, Own)


def test_nearest():
    assert nearest("SIMCSE", ["simcse", "promptbert"]) == " did you mean 'simcse'?"
    assert nearest("xyz", ["simcse", "promptbert"]) == " choose from simcse, promptbert"


def test_written_settings_are_readable(tmp_path):
    path = tmp_path / "new" / "train.yaml"
    values = {"learning_rate": 3e-5, "options": {"a": {"b": [1, None]}}}
    write_settings(path, values, {"corpus": "x", "learning_rate": 1.0, "layers": ["a"]})
    written = path.read_text().splitlines()
    assert written == [
        "# corpus: x",
        "learning_rate: 3.0e-05",
        "# layers: [a]",
        "options: {a: {b: [1, null]}}",
    ]
    assert validate(read_settings(path)[0], Own).model_dump(exclude_unset=True) == values
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
            "batch_size": st.integers(2, 10**12),
            "learning_rate": st.floats(min_value=0, exclude_min=True, allow_infinity=False) | st.just(3e-5),
            "shuffle": st.booleans(),
            "pooling": st.sampled_from(["cls", "mean", "off"]),
            "target": number | st.sampled_from(["ranks", "cosine"]),
            "layers": st.lists(text, max_size=3),
            "options": st.dictionaries(text, anything, max_size=3),
        },
    ),
    st.dictionaries(st.sampled_from(["corpus", "layers", "options"]), st.text("ab #:'\"{\n\u2028")),
)
def test_any_settings_survive(tmp_path_factory, values, comments):
    path = tmp_path_factory.mktemp("any") / "train.yaml"
    write_settings(path, values, comments)
    written = path.read_text(encoding="utf-8")
    assert (yaml.safe_load(written) or {}) == values
    assert written.count("\n") == len({*values, *comments})
    found = validate(read_settings(path)[0], Own).model_dump(exclude_unset=True)
    assert found == values
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in values.items()
    }


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text(" \n:-[]{}&*!|>'\"%@#?,a1.<=~"))
def test_any_text_is_read_or_refused(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("any")
    with suppress(InputError):
        assert set(read(folder, f"options: {content}"))
