import json
import re
import shutil
from itertools import pairwise

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from rankencoder.demo import docstrings
from rankencoder.demo.docstrings import Function
from rankencoder.demo.encoder import bundled_encoder
from rankencoder.demo.retrieval import score_encoders, score_ranks
from rankencoder.errors import InputError
from rankencoder.model_card import short_name


def test_the_standard_library_has_thousands_of_sentences():
    library = docstrings.standard_library()
    sentences = list(docstrings.sentences(library))
    assert len(sentences) > 10_000
    functions = {f.name: f.purpose for f in docstrings.functions(library)}
    assert len(functions) > 1500
    assert (
        functions["shutil copytree"]
        == "Recursively copy a directory tree and return the destination directory."
    )
    assert len(set(functions.values())) == len(functions)


def test_docstrings_are_split_into_prose():
    text = 'Do one thing.  Then do\nanother thing.\n\n    >>> code()\n    1\n\nNo.\n\nAnd a last one: "x".'
    assert list(docstrings.split_sentences(text)) == [
        "Do one thing.",
        "Then do another thing.",
        'And a last one: "x".',
    ]


def test_no_test_sentence_is_in_the_training_text():
    library = docstrings.standard_library()
    functions = docstrings.functions(library)
    tasks = docstrings.spread_functions(functions, 1000)
    text = docstrings.training_text(library, tasks)
    assert len({task.name for task in tasks}) == len({task.purpose for task in tasks}) == 1000
    assert not set(text) & {part for task in tasks for part in task}
    assert len(set(text)) == len(text) > 10_000
    learned = {function.name for function in functions} & set(text)
    assert len(learned) == len(functions) - 1000


def test_at_most_a_third_of_the_functions_are_found():
    functions = [Function(f"name {i}", f"purpose {i}") for i in range(90)]
    assert docstrings.spread_functions(functions, 1000) == functions[::3]
    assert docstrings.spread_functions(functions, 9) == functions[::10]
    assert docstrings.spread_functions([], 9) == []


def test_the_score_is_the_mean_reciprocal_rank(tiny_model, sentences):
    tasks = [Function(text, text) for text in sentences[:40]]
    results = score_ranks(tiny_model, tasks)
    assert results[0].name == "plain cosine"
    assert results[0].first == results[0].reciprocal_rank == 1
    shuffled = [Function(a, b) for a, b in pairwise(sentences[:41])]
    encoder = tiny_model.encoder
    result, same = score_encoders({"one": encoder, "the same": encoder}, shuffled)
    names, purposes = (encoder([t[i] for t in shuffled]).numpy() for i in (0, 1))
    similarity = names @ purposes.T
    ranks = np.array([(similarity[i] >= similarity[i, i]).sum() for i in range(40)])
    assert result.reciprocal_rank == pytest.approx(np.mean(1 / ranks))
    assert result.first == pytest.approx(np.mean(ranks == 1))
    assert same.gain == (0, 0, 0)


def test_the_bundled_encoder_is_checked(monkeypatch):
    assert (bundled_encoder() / "modules.json").exists()
    monkeypatch.setattr("rankencoder.demo.encoder.SHA256", "0" * 64)
    with pytest.raises(InputError, match="does not hold the published"):
        bundled_encoder()


DIFFERENCE = r"[+-]0\.\d{3}"
FIGURES = [r"\d+\.\d%", r"0\.\d{3}", DIFFERENCE, f"{DIFFERENCE} to {DIFFERENCE}", r"[\d,]+", r"\d+\.\d"]


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    """Give a folder with a part of the standard library."""
    folder = tmp_path_factory.mktemp("code")
    for name in ("asyncio", "email"):
        shutil.copytree(docstrings.standard_library() / name, folder / name)
    return folder


def test_the_demo_distills_and_tells_what_it_measured(run_cli, tiny_folder, tmp_path, code):
    output = tmp_path / "mine"
    status, out, err = run_cli("demo", code, "--encoder", tiny_folder, "-o", output)
    assert status == 0, err
    rows = {cells[0]: cells[1:] for cells in (re.split(r" {2,}", line.strip()) for line in out.splitlines())}
    teacher = rows[short_name(str(tiny_folder))]
    assert all(
        re.fullmatch(form, cell) for form, cell in zip(FIGURES[:2] + FIGURES[4:], teacher, strict=True)
    )
    for name in ("static, untaught", "static, taught"):
        assert all(re.fullmatch(form, cell) for form, cell in zip(FIGURES, rows[name], strict=True)), rows[
            name
        ]
    assert "Measure on your own sentences before you use ranks." in out
    python = out[out.index("from sentence_transformers") :].partition("──")[0]
    found: dict[str, np.ndarray] = {}
    exec(python, found)
    assert found["vectors"].shape[0] == 2
    record = json.loads((output / "rankencoder-run.json").read_text())
    assert record["agreement"]["after"]["spearman"] > record["agreement"]["before"]["spearman"]
    start = SentenceTransformer(str(output / "start"))
    assert not np.allclose(start.encode("Delete a file from the disk."), found["vectors"][0])
    assert run_cli("info", output)[0] == 0


def test_the_demo_wants_docstrings(run_cli, tmp_path):
    (tmp_path / "one.py").write_text("def f():\n    'Return nothing at all.'\n")
    status, _, err = run_cli("demo", tmp_path)
    assert status == 2
    assert err.count("\n") == 1
    assert "only 0 docstring sentences" in err


@pytest.mark.filterwarnings("ignore::rankencoder.errors.ReferenceWarning")
def test_the_playground_is_made_once(tmp_path, monkeypatch, tiny_folder, sentences):
    from rankencoder import RankIndex
    from rankencoder.demo import playground

    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path))
    monkeypatch.setattr(playground, "bundled_encoder", lambda: tiny_folder)
    monkeypatch.setattr(docstrings, "sentences", lambda _: iter(sentences[:900]))
    model, index = playground.make_playground()
    hits = RankIndex.load(index).search(sentences[3], k=1)
    assert sorted(hits[0].text.split()) == sorted(sentences[3].split())  # static encoders know no order
    monkeypatch.setattr(playground, "distill", None)  # would fail if it were called again
    assert playground.make_playground() == (model, index)
    (tmp_path / "playground/ready").unlink()  # as if interrupted while indexing
    playground.make_playground()
    assert len(RankIndex.load(index)) == len(set(sentences[:900]))
