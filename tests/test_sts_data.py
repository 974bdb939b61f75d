import json
import shutil
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankencoder.errors import InputError
from rankencoder.evaluation.sts_data import DEV, SEVEN, PairSet, read_pair_set, read_sts
from rankencoder.io.pairs import ScoredPair

COUNTS = {  # methods.md, 10.1
    "STS12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "OnWN": 750, "SMTnews": 399},
    "STS13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "STS14": dict(
        zip(
            ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
            (450, 300, 750, 750, 750, 750),
            strict=True,
        )
    ),
    "STS15": dict(
        zip(
            ("answers-forums", "answers-students", "belief", "headlines", "images"),
            (375, 750, 375, 750, 750),
            strict=True,
        )
    ),
    "STS16": dict(
        zip(
            ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
            (254, 249, 230, 244, 209),
            strict=True,
        )
    ),
    "STS-B": {"all": 1379},
    "SICK-R": {"all": 4927},
    "STS-B dev": {"all": 1500},
    "SICK-R dev": {"all": 500},
}
TOTALS = dict(zip(SEVEN, (3108, 1500, 3750, 3000, 1186, 1379, 4927), strict=True))


@pytest.fixture(scope="module")
def senteval(shared):
    return read_sts(shared / "data/senteval")


@pytest.fixture(scope="module")
def plain(shared):
    return read_sts(shared / "data/sts-raw")


@pytest.mark.parametrize("layout", ["senteval", "plain"])
def test_all_sets_are_as_published(layout, request):
    sets = request.getfixturevalue(layout)
    assert [s.name for s in sets] == [*SEVEN, *DEV]
    for pair_set in sets:
        sizes = {name: len(pairs) for name, pairs in pair_set.subsets.items()}
        assert list(sizes.items()) == list(COUNTS[pair_set.name].items())  # in this order
        assert pair_set.notes == ()
        assert pair_set.scale == (0, 5)
        assert len(pair_set.pairs) == TOTALS.get(pair_set.name, sum(sizes.values()))
        assert all(0 <= pair.score <= 5 for pair in pair_set.pairs)


def test_both_layouts_have_the_same_gold(senteval, plain):
    for a, b in zip(senteval, plain, strict=True):
        for subset in a.subsets:
            assert [pair.score for pair in a.subsets[subset]] == [pair.score for pair in b.subsets[subset]]
            same = [
                "".join(x.a.split()).lower() == "".join(y.a.split()).lower()
                for x, y in zip(a.subsets[subset], b.subsets[subset], strict=True)
            ]
            assert sum(same) > 0.5 * len(same)  # the same pairs in the same order, but for tokenization
        assert a.fingerprint != b.fingerprint or a.name.startswith("SICK")


def test_spot_checks(senteval, plain):
    tokenized, raw = ({s.name: s for s in sets} for sets in (senteval, plain))
    first = tokenized["STS12"].subsets["MSRpar"][0]
    assert (first.a[:19], first.a[-7:], first.b[:7], first.score) == (
        "the problem likely ",
        "again .",
        "he said",
        4.4,
    )
    assert raw["STS12"].subsets["MSRpar"][0].a.endswith("again.")
    first = tokenized["STS-B"].pairs[0]
    assert (first.a.split()[1:4], first.b.split()[3], first.score) == (
        ["girl", "is", "styling"],
        "brushing",
        2.5,
    )
    assert tokenized["SICK-R"].pairs[0].a == raw["SICK-R"].pairs[0].a
    assert raw["SICK-R"].pairs[0].a.startswith("There is no boy")
    assert tokenized["SICK-R"].pairs[0].score == raw["SICK-R"].pairs[0].score == 3.3
    for pair_set in (*senteval, *plain):
        assert all(text == " ".join(text.split()) for pair in pair_set.pairs for text in pair[:2])
        assert not any("\t" in text for pair in pair_set.pairs for text in pair[:2])


def test_same_rows_as_pandas(senteval, shared):
    path = shared / "data/senteval/downstream/STS/STSBenchmark/sts-dev.csv"
    table = pd.read_csv(path, sep="\t", header=None, quoting=3, dtype={4: float})
    pairs = next(s for s in senteval if s.name == "STS-B dev").pairs
    assert [pair.score for pair in pairs] == table[4].tolist()
    assert [pair.b.replace(" ", "") for pair in pairs] == ["".join(text.split()) for text in table[6]]


def test_where_senteval_may_lie(shared, tmp_path):
    whole = read_sts(shared / "data/senteval", ["SICK-R dev"])
    assert read_sts(str(shared / "data/senteval/downstream"), ["SICK-R dev"]) == whole
    for below in ("downstream", "data/downstream", "senteval/downstream", "."):
        folder = tmp_path / below.replace("/", "-").replace(".", "here")
        shutil.copytree(shared / "data/senteval/downstream/SICK", folder / below / "SICK")
        (again,) = read_sts(folder, ["SICK-R dev"])
        assert again.fingerprint == whole[0].fingerprint
    with pytest.raises(InputError, match=r"no such file: .*sts-test\.csv; set `data` to a folder"):
        read_sts(folder, ["SICK-R dev", "STS-B"])
    with pytest.raises(InputError, match=r"no such file: .*STS\.input\.MSRpar\.txt"):
        read_sts(folder)


def test_unknown_sets_and_sources(shared, tmp_path):
    with pytest.raises(InputError, match="unknown set 'STS-C': did you mean 'STS-B'"):
        read_sts(shared / "data/sts-raw", ["STS12", "STS-C"])
    names = ["STSB", "sts-b", "sick r", "STSB-dev"]
    assert [found.name for found in read_sts(shared / "data/sts-raw", names)] == [
        *("STS-B", "STS-B", "SICK-R", "STS-B dev")
    ]
    with pytest.raises(InputError, match="no such folder: .*nowhere; set `data` to a folder"):
        read_sts(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no STS sets in .*expected.* or plain files.*set `data`"):
        read_sts(tmp_path)


# SentEval's traps


@pytest.fixture
def sts13(tmp_path):
    """A small SentEval folder; returns a function that writes one of its files."""
    folder = tmp_path / "downstream/STS/STS13-en-test"
    folder.mkdir(parents=True)

    def write(kind, name, text):
        path = folder / f"STS.{kind}.{name}.txt"
        path.write_bytes(text.encode())
        return path

    for name in ("FNWN", "headlines", "OnWN"):
        write("input", name, f'a {name}\tb  "quoted \n"c\td\u2028e\n\tunscored\nlast one\tof all\n')
        write("gs", name, "1.5\n5.000 \n\n0\n")
    write("gs", "SMT", "1\n")
    write("gs", "ALL", "nonsense")
    return write


def test_traps_of_senteval(sts13, tmp_path):
    (found,) = read_sts(tmp_path, ["STS13"])
    assert list(found.subsets) == ["FNWN", "headlines", "OnWN"]
    assert found.subsets["OnWN"] == [
        ScoredPair("a OnWN", 'b "quoted', 1.5),
        ScoredPair('"c', "d e", 5.0),
        ScoredPair("last one", "of all", 0.0),
    ]
    assert "STS13 FNWN has 3 pairs here, 189 as published" in found.notes
    sts13("gs", "OnWN", "1\r\n7\r\n\r\n2")  # and Windows' line ends
    (found,) = read_sts(tmp_path, ["STS13"])
    assert [pair.score for pair in found.subsets["OnWN"]] == [1, 7, 2]


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("gs", "1\n2\n\nx\n", r"input\.OnWN\.txt, line 4: the score 'x' is not a finite number"),
        ("gs", "1\nnan\n\n2\n", r"input\.OnWN\.txt, line 2: the score 'nan' is not a finite"),
        ("gs", "1\n2\n", r"input\.OnWN\.txt has 4 lines, but .*gs\.OnWN\.txt has 2"),
        ("input", "a\tb\nc\n\nd\te\n", r"input\.OnWN\.txt, line 2: expected 2 columns, got 1"),
        ("input", "a\tb\nc\td\te\n\nd\te\n", r"input\.OnWN\.txt, line 2: expected 2 columns, got 3"),
        ("input", "a\tb\nc\t \n\nd\te\n", r"input\.OnWN\.txt, line 2: sentence2 is empty"),
        ("input", "a\tb\nc\t" + "x" * 90_000 + "\n\nd\te\n", r"OnWN\.txt, line 2: the line is too long"),
        ("input", "a\tb\nc\td\0\n\nd\te\n", r"OnWN\.txt, line 2: a NUL byte"),
    ],
)
def test_damaged_senteval_files(sts13, tmp_path, kind, text, message):
    sts13(kind, "OnWN", text)
    with pytest.raises(InputError, match=message):
        read_sts(tmp_path, ["STS13"])


def test_missing_senteval_files(sts13, tmp_path):
    sts13("gs", "FNWN", "").unlink()
    with pytest.raises(InputError, match=r"no such file: .*STS\.gs\.FNWN\.txt; set `data`"):
        read_sts(tmp_path, ["STS13"])


def test_damaged_tables(tmp_path):
    path = tmp_path / "SICK/SICK_trial.txt"
    path.parent.mkdir()
    path.write_text("pair_ID\tsentence_A\tsentence_B\trelatedness_score\n1\ta\tb\t3\n2\ta\tb\n")
    with pytest.raises(InputError, match=r"SICK_trial\.txt, line 3: expected at least 4 columns, got 3"):
        read_sts(tmp_path, ["SICK-R dev"])
    path.write_text("pair_ID\tsentence_A\tsentence_B\trelatedness_score\n1\ta\tb\t3\n2\ta\tb\tinf\n")
    with pytest.raises(InputError, match=r"SICK_trial\.txt, line 3: the score 'inf' is not a finite number"):
        read_sts(tmp_path, ["SICK-R dev"])


# the plain layout


def test_plain_layout(tmp_path):
    (tmp_path / "STSB").mkdir()
    (tmp_path / "STSB/test.tsv").write_text("1\ta,  b\tc\n2\td\te\n")
    (stsb,) = read_sts(tmp_path, ["STS-B"])
    assert stsb.pairs == [ScoredPair("a, b", "c", 1.0), ScoredPair("d", "e", 2.0)]
    assert stsb.notes == ("STS-B has 2 pairs here, 1,379 as published",)
    with pytest.raises(InputError, match=r"no such file: .*STSB/dev\.tsv; set `data`"):
        read_sts(tmp_path, ["STS-B dev"])
    (tmp_path / "STSB/test.tsv").write_text("1\ta\tb\n2\tc\n")
    with pytest.raises(InputError, match=r"test\.tsv, line 2: expected 3 columns, got 2"):
        read_sts(tmp_path, ["STS-B"])


# a user's own pairs, and what identifies a set


def test_own_pairs(tmp_path):
    (tmp_path / "my.pairs.tsv").write_text("0.25\ta\tb  c\n-3\td\te\n")
    own = read_pair_set(tmp_path / "my.pairs.tsv")
    assert own.name == "my.pairs"
    assert own.pairs == [ScoredPair("a", "b  c", 0.25), ScoredPair("d", "e", -3.0)]
    assert own.scale == (-3, 0.25)
    assert own.source == str(tmp_path / "my.pairs.tsv")
    pd.DataFrame({"score": [1, 2], "sentence1": "a", "sentence2": "b"}).to_csv(
        tmp_path / "x.csv.gz", index=False
    )
    assert read_pair_set(str(tmp_path / "x.csv.gz")).name == "x"
    (tmp_path / "bad.tsv").write_text("1\ta\tb\n1\td\te\n")
    with pytest.raises(InputError, match=r"bad\.tsv: all scores are 1"):
        read_pair_set(tmp_path / "bad.tsv")


TEXTS = st.text(max_size=8)
SETS = st.dictionaries(
    TEXTS, st.lists(st.builds(ScoredPair, TEXTS, TEXTS, st.floats(allow_nan=False)), max_size=3), max_size=3
)


@given(SETS, SETS)
def test_fingerprints_tell_contents_apart(a, b):
    first, other = PairSet("x", a, "here", (0, 5)), PairSet("x", b, "here", (0, 5))
    assert (first.fingerprint == other.fingerprint) == (
        json.dumps(list(a.items())) == json.dumps(list(b.items()))
    )
    assert first.fingerprint == PairSet("x", a, "there", (0, 1), ("note",)).fingerprint
    assert first.fingerprint != PairSet("y", a, "here", (0, 5)).fingerprint


def test_nothing_heavy_is_imported():
    code = (
        "import sys, rankencoder.evaluation.sts_data; print({'datasets', 'torch', 'mteb'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
