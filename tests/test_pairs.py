import gzip
import json
import lzma

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankencoder.errors import InputError
from rankencoder.io.pairs import Pair, ScoredPair, read_pairs, read_scored_pairs

PAIRS = [
    ScoredPair('He said "hi", twice', "naïve café 🙂", 4.75),
    ScoredPair('"An open quote', "plain", 0.0),
    ScoredPair("one, two", "plain", -1e-3),
]


def test_pairs_without_scores(tmp_path):
    expected = [Pair(pair.a, pair.b) for pair in PAIRS]
    (tmp_path / "a.tsv").write_text("\n".join(f"{a}\t{b}" for a, b in expected), encoding="utf-8")
    rows = [json.dumps({"sentence1": a, "sentence2": b}) for a, b in expected]
    (tmp_path / "a.jsonl").write_text("\n\n".join(rows))
    scored = "".join(f"{score}\t{a}\t{b}\n" for a, b, score, _ in PAIRS)
    (tmp_path / "scored.tsv").write_text(scored, encoding="utf-8")
    header = "score\tsentence1\tsentence2\n"
    (tmp_path / "header.tsv").write_text(header + scored, encoding="utf-8")
    for name in ("a.tsv", "a.jsonl", "scored.tsv", "header.tsv"):
        assert list(read_pairs(tmp_path / name)) == expected
    (tmp_path / "a.tsv").write_text("a\tb\na\tb\tc\n")
    with pytest.raises(InputError, match=r"a\.tsv, line 2: expected 2 columns, got 3"):
        list(read_pairs(tmp_path / "a.tsv"))
    (tmp_path / "a.tsv").write_text("a\tb\na\t" + "x" * 100_000)
    with pytest.raises(InputError, match=r"a\.tsv, line 2: the line is too long"):
        list(read_pairs(tmp_path / "a.tsv"))


def test_real_sts_b(shared):
    path = shared / "data/sts-raw/STSB/dev.tsv"
    pairs = read_scored_pairs(path)
    table = pd.read_csv(
        path, sep="\t", header=None, names=["score", "a", "b"], quoting=3, dtype={"score": float}
    )
    assert len(pairs) == 1500
    assert pairs == [ScoredPair(row.a, row.b, row.score) for row in table.itertuples()]
    assert {type(pair.score) for pair in pairs} == {float}


def test_tables_of_senteval_are_read_as_they_are(shared, tmp_path):
    """Against columns cut by hand; whatever the file is called."""
    downstream = shared / "data/senteval/downstream"
    tables = {"STS/STSBenchmark/sts-dev.csv": (1500, 4, 5, 6), "SICK/SICK_trial.txt": (500, 3, 1, 2)}
    for number, (name, (size, *columns)) in enumerate(tables.items()):
        lines = [line.split("\t") for line in (downstream / name).read_text(encoding="utf-8").splitlines()]
        rows = pd.DataFrame(lines[-size:])[columns].itertuples(index=False)
        expected = [
            ScoredPair(" ".join(a.split()), " ".join(b.split()), float(score)) for score, a, b in rows
        ]
        assert len(expected) == size
        assert read_scored_pairs(downstream / name) == expected
        renamed = tmp_path / f"{number}.tsv"
        renamed.write_bytes((downstream / name).read_bytes())
        assert read_scored_pairs(renamed) == expected
        assert list(read_pairs(renamed)) == [Pair(pair.a, pair.b) for pair in expected]
    (tmp_path / "sts-dev.csv").write_text('x\ty\tz\t1\t4.5\ta  b\t"c\nx\ty\tz\t2\t0.5\td\n')
    with pytest.raises(InputError, match=r"sts-dev\.csv, line 2: expected at least 7 columns, got 6"):
        read_scored_pairs(tmp_path / "sts-dev.csv")


def test_all_formats_agree(tmp_path):
    table = pd.DataFrame(
        {"id": range(3), "sentence2": [p.b for p in PAIRS], "score": [p.score for p in PAIRS]}
    )
    table["sentence1"] = [p.a for p in PAIRS]
    ordered = table[["score", "sentence1", "sentence2"]]
    ordered.to_csv(tmp_path / "plain.csv", header=False, index=False)
    table.to_csv(tmp_path / "header.csv", index=False)
    table.to_csv(tmp_path / "header.csv.xz", index=False)
    table.to_csv(tmp_path / "index.csv")
    table.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    table.to_json(tmp_path / "a.ndjson.gz", orient="records", lines=True)
    lines = "".join(f"{score}\t{a}\t{b}\r\n" for a, b, score, _ in PAIRS)
    for name in ("plain.tsv", "plain.txt", "plain"):
        (tmp_path / name).write_bytes(f"\ufeff{lines}  \r\n".encode())
    header = "sentence1\tscore\tid\tsentence2 \n"
    (tmp_path / "header.tsv").write_text(header + "".join(f"{a}\t{s}\t1\t{b}\n" for a, b, s, _ in PAIRS))
    for opener, suffix in ((gzip.open, ".gz"), (lzma.open, ".xz")):
        with opener(tmp_path / f"plain.tsv{suffix}", "wb") as file:
            file.write(lines.encode())
    files = sorted(tmp_path.iterdir())
    assert len(files) == 12
    for path in files:
        assert read_scored_pairs(path) == PAIRS, path


def test_a_sentence_weight_is_no_header(tmp_path):
    (tmp_path / "a.tsv").write_text("1\tweight\tmass\n0\tweight\tlight\n")
    assert read_scored_pairs(tmp_path / "a.tsv")[1] == ScoredPair("weight", "light", 0.0)


def test_quoted_line_breaks_in_csv(tmp_path):
    (tmp_path / "a.csv").write_text('score,sentence1,sentence2\n1,"a\nb",c\n\nx,"d","e"\n')
    with pytest.raises(InputError, match=r"a\.csv, line 5: the score 'x' is not a finite number"):
        read_scored_pairs(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "1\ta\tb\nx\ta\tb\n", r"a\.tsv, line 2: the score 'x' is not a finite number"),
        ("a.tsv", "1\ta\tb\n\nnan\ta\tb\n", "line 3: the score 'nan' is not a finite number"),
        ("a.tsv", "inf\ta\tb\n", "line 1: the score 'inf' is not a finite number"),
        ("a.tsv", "1\ta\tb\n\ta\tb\n", "line 2: the score '' is not a finite number"),
        ("a.tsv", "1\ta\tb\n2\ta\n", "line 2: expected 3 columns, got 2"),
        ("a.tsv", "1\ta\tb\tc\n", "line 1: expected 3 columns, got 4"),
        ("a.tsv", "score\tsentence1\tsentence2\tid\n1\ta\tb\n", "line 2: expected 4 columns, got 3"),
        ("a.tsv", "1\ta\tb\n2\t\tb\n", "line 2: sentence1 is empty"),
        ("a.tsv", "1\ta\tb\n2\ta\t \n", "line 2: sentence2 is empty"),
        ("a.tsv", "1\ta\tb\n\t\t\n", "line 2: the score '' is not"),
        ("a.tsv", "score\tsentence_a\tsentence2\n", "line 1: .* there is no column sentence1$"),
        ("a.tsv", "a b c\n", "line 1: expected a score or a header: 'a b c' is not a number"),
        ("a.tsv", "1\ta\tb\n2\ta\t" + "x" * 20_000, "line 2: sentence 1 has 20,000 characters"),
        ("a.tsv", "1\ta\tb\n2\ta\t" + "x" * 100_000, "line 2: the line is too long"),
        ("a.csv", '1,a,b\n2,"a,b\n3,a,b\n', r"a\.csv, line 3: unexpected end of data"),
        ("a.csv", "1,a,b\n2,a,b,c\n", "line 2: expected 3 columns, got 4"),
        ("a.jsonl", '{"score": 1, "sentence1": "a"}', "line 1: expected a JSON object with .*sentence2"),
        ("a.jsonl", "[1]", "line 1: expected a JSON object"),
        ("a.jsonl", '{"score": NaN, "sentence1": "a", "sentence2": "b"}', "the score nan is not"),
        ("a.jsonl", '{"score": true, "sentence1": "a", "sentence2": "b"}', "the score True is not"),
        ("a.jsonl", '{"score": null, "sentence1": "a", "sentence2": "b"}', "the score None is not"),
        ("a.jsonl", '{"score": 1, "sentence1": "a", "sentence2": 3}', "line 1: sentence 1 is not a string"),
        ("a.tsv", "", r"a\.tsv: 0 pair\(s\), but a rank correlation needs at least two"),
        ("a.tsv", "1\ta\tb\n", r"a\.tsv: 1 pair\(s\)"),
        ("a.tsv", "1\ta\tb\n1.0\tc\td\n", r"a\.tsv: all scores are 1, so nothing can correlate"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_scored_pairs(tmp_path / name)


def test_missing_and_damaged(tmp_path):
    for read in (read_scored_pairs, lambda path: list(read_pairs(path))):
        with pytest.raises(InputError, match="no such file"):
            read(tmp_path / "a.tsv")
    (tmp_path / "a.tsv.gz").write_text("1\ta\tb\n")
    with pytest.raises(InputError, match=r"not a complete \.gz file"):
        read_scored_pairs(tmp_path / "a.tsv.gz")


sentence = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n\0")).filter(str.strip)
score = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(score, sentence, sentence), min_size=2, unique_by=lambda row: row[0]))
def test_any_sentences_survive_tabs(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("any") / "a.tsv"
    path.write_text("".join(f"{s!r}\t{a}\t{b}\n" for s, a, b in rows), encoding="utf-8", newline="")
    assert read_scored_pairs(path) == [ScoredPair(a, b, s) for s, a, b in rows]
