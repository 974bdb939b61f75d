from itertools import pairwise

import numpy as np
import pytest

from rankencoder.demo import docstrings
from rankencoder.demo.docstrings import Function
from rankencoder.demo.encoder import bundled_encoder
from rankencoder.demo.retrieval import score
from rankencoder.errors import InputError


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


def test_the_score_is_the_mean_reciprocal_rank(tiny_model, sentences):
    tasks = [Function(text, text) for text in sentences[:40]]
    results = score(tiny_model, tasks)
    assert results[0].name == "plain cosine"
    assert results[0].first == results[0].reciprocal_rank == 1
    shuffled = [Function(a, b) for a, b in pairwise(sentences[:41])]
    result = score(tiny_model, shuffled)[0]
    names, purposes = (tiny_model.encoder([t[i] for t in shuffled]).numpy() for i in (0, 1))
    similarity = names @ purposes.T
    ranks = [(similarity[i] >= similarity[i, i]).sum() for i in range(40)]
    assert result.reciprocal_rank == pytest.approx(np.mean(1 / np.array(ranks)))


def test_the_bundled_encoder_is_checked(monkeypatch):
    assert (bundled_encoder() / "modules.json").exists()
    monkeypatch.setattr("rankencoder.demo.encoder.SHA256", "0" * 64)
    with pytest.raises(InputError, match="does not hold the published"):
        bundled_encoder()


def test_the_demo_tells_what_it_measured(run_cli, tiny_folder, tmp_path):
    code, out, err = run_cli(
        "demo", "--encoder", tiny_folder, "--size", 1200, "--functions", 50, "-o", tmp_path / "m"
    )
    assert code == 0, err
    assert "plain cosine" in out
    assert "Ranks do not always help" in out
    assert (tmp_path / "m" / "rankencoder.json").exists()
