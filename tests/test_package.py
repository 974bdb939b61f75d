import ast
import difflib
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest
from packaging.utils import canonicalize_name
from public_names import FILE, described

import rankencoder

ROOT = Path(__file__).parents[1]


def test_public_names_are_few_and_final():
    expected = [
        "RankEncoder",
        "RankIndex",
        "RankTransformer",
        "Reference",
        "__version__",
        "distill",
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


def test_the_workflow_runs_the_same_on_every_python():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.10", "3.11", "3.12", "3.13"]
    commands = {step["run"] for job in jobs.values() for step in job["steps"] if "run" in step}
    assert {".ci/run", "make locked lint", "make test-lowest", "make release-check"} <= commands
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {word for command in commands if command.startswith("make ") for word in command.split()[1:]}
    assert named <= targets


def test_the_makefile_names_tests_that_exist():
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    lowest = re.search(r"^LOWEST_TESTS :=.*suffix \.py,([\w\s]+?)\)", text, flags=re.MULTILINE)[1].split()
    fuzzed = re.search(r"^FUZZED := (.+)$", text, flags=re.MULTILINE)[1].split()
    for path in (*fuzzed, *(f"tests/test_{name}.py" for name in lowest)):
        assert (ROOT / path).exists(), path


def test_the_fault_harness_names_constants_that_exist():
    from fault_runs import PARTS

    for name in PARTS:
        assert isinstance(resolve_name(name), int), name


def test_nothing_unpickles():
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text, path
        assert "torch.load(" not in text, path
        assert "allow_pickle=True" not in text, path
        assert not re.search(r"""[^`"]trust_remote_code=True""", text), path  # quoted, it is a card's text


def test_public_names_have_runnable_examples():
    for name in rankencoder.__all__:
        if not name.startswith("_"):
            assert ">>>" in getattr(rankencoder, name).__doc__, name


def test_names_parameters_commands_and_options_do_not_change_by_accident():
    known, found = FILE.read_text(encoding="utf-8").splitlines(), described().splitlines()
    changed = "\n".join(difflib.unified_diff(known, found, "public_names.txt", "this code", lineterm="", n=0))
    assert not changed, f"public names changed; if that is meant: make public-names\n{changed}"


def pinned(name):
    """Names and versions of a file of pip's."""
    lines = re.findall(
        r"^([\w.-]+)==([^;\s]+)", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return {canonicalize_name(package): version for package, version in lines}


@pytest.fixture(scope="module")
def declared():
    """What pyproject.toml needs with all extras, on the lock file's Python."""
    from lowest import declared

    here = {"python_version": "3.11", "python_full_version": "3.11.7"}
    return [found for found in declared(["dev"], here) if found.name != "torch"]


def test_the_lock_file_has_everything_in_versions_that_are_allowed(declared):
    locked, constraints = pinned("requirements.lock"), pinned("constraints.txt")
    for requirement in declared:
        version = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement}: {version}; make lock"
    assert "torch" not in locked  # a CPU or a CUDA build, as the machine wants it
    assert {name: locked[name] for name in locked.keys() & constraints.keys()}.items() <= constraints.items()
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)


def test_every_dependency_has_a_lowest_version():
    from lowest import pins, project

    assert pins(["dev"], {})["torch"]
    for extra in project()["optional-dependencies"]:
        assert pins([extra], {})


NAMES = {"sklearn": "scikit-learn", "umap": "umap-learn", "yaml": "pyyaml", "pydantic-core": "pydantic"}
"""Packages that are installed by another name than they are imported by."""


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def test_what_is_imported_is_declared():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("\ndev = [")[0]
    declared = {name.lower().replace("_", "-") for name in re.findall(r'"([\w-]+)(?:\[\w+\])?[>=]=', project)}
    for path in (ROOT / "src").rglob("*.py"):
        modules = {name.partition(".")[0] for name in imported(path)}
        modules -= {"rankencoder", "triton", *sys.stdlib_module_names}  # torch brings triton for GPUs
        names = {name.lower().replace("_", "-") for name in modules}
        assert {NAMES.get(name, name) for name in names} <= declared, path
