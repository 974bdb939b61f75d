import subprocess
import sys
from pathlib import Path

import pytest

import rankencoder

ROOT = Path(__file__).parents[1]


def test_public_names_are_few_and_final():
    expected = [
        "RankEncoder",
        "RankIndex",
        "RankTransformer",
        "Reference",
        "__version__",
        "evaluate",
        "find_duplicates",
        "rank_similarity",
        "rank_vectors",
        "train",
        "tune",
    ]
    assert sorted(rankencoder.__all__) == sorted(expected)
    assert dir(rankencoder) == sorted(expected)
    for name in expected:
        assert getattr(rankencoder, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'train_it'"):
        _ = rankencoder.train_it


def test_import_is_light():
    code = (
        "import sys, rankencoder; sys.exit(bool({'torch', 'numpy', 'sklearn', 'typer'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_typed_and_licensed():
    assert (ROOT / "src/rankencoder/py.typed").exists()
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert rankencoder.__version__ in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {rankencoder.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_ci_runs_the_readmes_test_command():
    assert "make test" in (ROOT / "README.md").read_text()
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] == "make test"


def test_nothing_unpickles():
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text, path
        assert "torch.load(" not in text, path
        assert "allow_pickle=True" not in text, path
        assert "trust_remote_code=True" not in text.replace("``trust_remote_code=True``", ""), path


def test_public_names_have_runnable_examples():
    for name in rankencoder.__all__:
        if not name.startswith("_"):
            assert ">>>" in getattr(rankencoder, name).__doc__, name
