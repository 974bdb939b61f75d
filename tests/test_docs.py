"""Every command and every Python block of README and docs runs, on small models; what does not, says why."""

import importlib
import inspect
import json
import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from pkgutil import resolve_name

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from documents import NOTEBOOKS, PAGES, ROOT, blocks, read, spans
from live_server import running
from scored_pairs import make_pairs, write_pairs, write_sts

NOT_RUN = {
    "make demo": "takes minutes; tests/test_demo.py runs a small one",
    "make test": "is what runs this",
    "make bench": "measures for long, on a quiet machine; tests/test_bench.py tests its arithmetic",
    "python benchmarks/bench.py": "the same; that its options exist is tested below",
    "pip install": "takes minutes and a network; that its extras exist is tested below",
    "rankencoder demo": "distills, which takes minutes; tests/test_demo.py runs a small one",
    "rankencoder train corpus.txt --method prompteol": "needs a causal model: tests/test_prompteol.py",
    "rankencoder data fetch": "needs a network; tests/test_fetch.py has a hub of its own",
    "rankencoder push": "needs the hub; tests/test_hub.py has one of its own",
    "docker": "needs a container engine; tests/test_deployment.py runs it where there is one",
    "RANKENCODER_API_KEY=secret docker compose": "the same",
    "rankencoder reproduce": "needs a network and hours; tests/test_reproduce.py has a hub and a tiny BERT",
}
"""How commands begin that are only parsed, and why."""

ELSEWHERE = {"import psycopg": "test_vector_databases.py"}
"""What is in Python blocks that another test runs, for it has a database."""

SHORT = ["--max-steps", "2", "--batch-size", "8"]
QUICK = {"train": [*SHORT, "--reference-size", "1000"], "distill": [*SHORT, "--yes"]}
"""What trainings are given besides."""

LANGUAGES = {"console", "bash", "python", "text", "yaml", "nginx", "caddyfile"}
FOREIGN = {"--nproc_per_node", "-m", "--strict"}
"""Options of other programs that sentences mention."""

OUR_SCRIPTS = [*(ROOT / "benchmarks").rglob("*.py"), ROOT / "tests/faults.py"]
SCRIPTS = "".join(path.read_text(encoding="utf-8") for path in OUR_SCRIPTS)
OF_SCRIPTS = {"results/README.md", "docs/speed.md", "docs/trust.md"}
"""Pages whose sentences mention options of our scripts."""


def begins(words, known):
    return next((start for start in known if words[: len(start.split())] == start.split()), None)


class Reader:
    """Does what a page says, in a folder with what the page takes for granted."""

    def __init__(self, run_cli, capsys, names, stands_for, trained):
        self.run_cli, self.capsys, self.names = run_cli, capsys, names
        self.stands_for, self.trained = stands_for, trained
        self.outputs, self.printed = [], []

    def follow(self, block):
        for words in block.commands:
            if not begins(words, NOT_RUN):
                getattr(self, f"_{words[0]}")([self._own(word) for word in words[1:]])
        if block.language == "python" and not any(mark in block.text for mark in ELSEWHERE):
            exec(compile(self._own(block.text), "page", "exec"), self.names)
            self.printed += self.capsys.readouterr().out.splitlines()

    def _own(self, text):
        for theirs, ours in self.stands_for.items():
            text = text.replace(theirs, ours)
        return text

    def _rankencoder(self, words):
        if words[0] == "train" and words[-1] == "my-run" and Path("my-run").exists():
            shutil.rmtree("my-run")
        if words in self.trained:  # the same command on another page
            shutil.copytree(self.trained[self.trained.index(words) + 1], "my-run")
            return
        is_of_hub = words[:2] == ["threshold", self.stands_for["sentence-transformers/all-MiniLM-L6-v2"]]
        assert not is_of_hub, "nothing is stored with a model of the hub, unlike with its stand-in"
        code, out, err = self.run_cli(*words, *QUICK.get(words[0], []))
        assert code == 0, f"{words}: {err}"
        self.outputs.append(out)
        if words[0] == "train":
            self.trained += [words, Path("my-run").resolve()]

    def _curl(self, words):
        done = subprocess.run(
            ["curl", "--fail-with-body", "-sS", *words], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
        assert json.loads(done.stdout)


@pytest.fixture(scope="module")
def trained():
    """Finished trainings: commands, each followed by its folder."""
    return []


@pytest.fixture
def folder(tmp_path, monkeypatch, tiny_saved, tiny_folder, sentences):
    monkeypatch.chdir(tmp_path)
    given(sentences, tiny_saved, tiny_folder)
    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "vectors"))
    monkeypatch.setenv("RANKENCODER_DATA", str(write_sts(tmp_path / "data/senteval", sentences).parent))
    return tmp_path


@pytest.fixture
def reader(folder, monkeypatch, tiny_folder, backbone, sentences, callable_encoder, run_cli, capsys, trained):
    stands_for = {
        "bert-base-uncased": str(backbone),
        "sentence-transformers/all-MiniLM-L6-v2": str(tiny_folder),
        "intfloat/e5-small": str(tiny_folder),  # with a prompt, another encoder
        "openai:text-embedding-3-small": str(tiny_folder),
        "--layers=3": "--layers=1",
        "http://localhost:6333": ":memory:",
    }
    monkeypatch.setattr(importlib.import_module("rankencoder.cli.label"), "_ask", answer_by_similarity)
    names = {"__name__": "page", "my_api_client": callable_encoder, "texts": sentences[:20]}
    monkeypatch.setattr("rankencoder.distillation.agreement._SECONDS", 0.01)
    monkeypatch.setattr("rankencoder.demo.docstrings.sentences", lambda _: iter(sentences))
    with ExitStack() as stack:
        listen_for_a_moment(monkeypatch, stack, stands_for)
        yield Reader(run_cli, capsys, names, stands_for, trained)


def answer_by_similarity(sitting, pairs):
    """Label as somebody would who agrees with the model; tests/test_label_terminal.py has the keys."""
    middle = sitting.pool.edges[len(sitting.pool.bins) // 2]
    while len(sitting.given) < pairs and (asked := sitting.question()):
        sitting.answer(asked.bin is not None and bool(asked.similarity > middle))


def given(sentences, model, encoder):
    """Write what pages take for granted into the folder."""
    shutil.copytree(model, "my-encoder")
    for run in ("my-run-1", "my-run-2", "my-run-3"):
        shutil.copytree(encoder, run)
    Path("corpus.txt").write_text("\n".join(sentences))
    Path("key.txt").write_text("secret")
    write_pairs(Path("my-pairs.tsv"), make_pairs(sentences, 60))
    pq.write_table(pa.table({"id": range(len(sentences)), "body": sentences}), "corpus.parquet")
    modules = ["os", "shutil"] * 40
    rows = [{"text": text, "module": name} for text, name in zip(sentences, modules, strict=False)]
    Path("docstrings.jsonl").write_text("\n".join(map(json.dumps, rows)))
    tickets = [
        f"{1000 + 3 * n};2026-01-{n % 28 + 1:02d};{text}?;en" for n, text in enumerate(sentences[:600])
    ]
    Path("tickets.csv").write_text("\n".join(["ticket;day;question;lang", *tickets]))
    reports = [{"id": n, "text": ". ".join(sentences[6 * n : 6 * n + 6]) + "."} for n in range(20)]
    Path("reports.jsonl").write_text("\n".join(map(json.dumps, reports)))
    articles = [{"title": text, "year": 1980 + n, "lang": "en"} for n, text in enumerate(sentences[:30])]
    Path("articles.jsonl").write_text("\n".join(map(json.dumps, articles)))


def listen_for_a_moment(monkeypatch, stack, stands_for):
    """Let servers come back from serving: in a thread, on a free port, until the page is read."""
    from rankencoder import web_process as server

    bind = server.bind

    def serve(app, listener, **_):
        listener.close()
        stands_for["http://127.0.0.1:8000"] = stack.enter_context(running(app))

    monkeypatch.setattr(server, "bind", lambda host, port: bind("127.0.0.1", 0))
    monkeypatch.setattr(server, "run", serve)


def before(page):
    """Make what one page alone takes for granted."""
    from rankencoder import RankEncoder, RankIndex

    if page == "docs/quickstart.md":
        shutil.rmtree("my-encoder")
    if page in ("docs/serving.md", "docs/explorer.md"):
        RankIndex.build("my-encoder", "articles.jsonl", "my-index", column="title")
    return {"model": RankEncoder.load("my-encoder")} if page == "docs/search.md" else {}


def is_followed(page):
    return any(block.commands or block.language == "python" for block in blocks(page))


@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
@pytest.mark.parametrize("page", [*filter(is_followed, PAGES), *NOTEBOOKS])
def test_what_a_page_says_works(page, reader):
    reader.names |= before(page)
    for block in blocks(page):
        reader.follow(block)
    if page == "docs/search.md":
        indexed, found = reader.outputs
        assert indexed == "my-index: 80 sentences (80 added)\n"
        assert "os" in found
        assert "shutil" not in found
        assert len(reader.printed) == 5
    if page == "docs/duplicates.md":
        assert "among 80 different sentences" in reader.outputs[0]
        assert len(reader.printed) == 3
    if page == "docs/thresholds.md":
        assert "precision at least 0.9, 90% sure" in reader.outputs[2]
        assert "different sentences, from similarity" in reader.outputs[3]
    if page == "docs/data.md":
        said = [
            line for block in blocks(page) for line in block.text.splitlines() if line.endswith((")", "s"))
        ]
        outputs = [out.strip() for out in reader.outputs]
        assert [line for line in said if line in outputs] == [
            "ticket-index: 600 sentences (600 added)",
            "hits.parquet: 10 hits",
            "vectors.parquet: 600 vectors",
            "report-index: 120 sentences (120 added)",
        ]
    if page == "README.md":
        assert reader.printed[0].startswith("(3, ")
    if page == "examples/distill.ipynb":
        assert [line.split(":")[0] for line in reader.printed[1:3]] == ["before", "after"]
    if page == "docs/distill.md":
        told = [out for out in reader.outputs if "to its teachers" in out]
        assert len(told) == 8
        assert "times as fast" in told[0]
        assert "dev pairs, Spearman" in told[-1]


def test_what_is_not_run_is_there_and_is_parsed(parsed):
    commands = [words for page in PAGES for block in blocks(page) for words in block.commands]
    for start in NOT_RUN:
        assert any(begins(words, [start]) for words in commands), f"no page says {start!r} any more"
    for words in commands:
        if words[0] == "rankencoder":
            parsed(words)
    for mark, file in ELSEWHERE.items():
        assert any(mark in block.text for page in PAGES for block in blocks(page))
        assert "python_block" in read(f"tests/{file}")


@pytest.fixture(scope="module")
def parsed():
    """Refuses a command that the command line would refuse for its words."""
    from typer.main import get_command

    from rankencoder.cli import app

    def parse(words):
        command = get_command(app)
        rest = words[1:]
        while getattr(command, "commands", None):
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context(command.name, list(rest))

    return parse


@pytest.fixture(scope="module")
def options():
    """The options of each command."""
    from typer.main import get_command

    from rankencoder.cli import app

    def of(command):
        inner = getattr(command, "commands", {}).values()
        named = {
            name for p in command.params for name in (*p.opts, *p.secondary_opts) if name.startswith("-")
        }
        return named.union({"--help"}, *map(of, inner))

    main = get_command(app)
    return {"": of(main)} | {name: of(command) for name, command in main.commands.items()}


@pytest.mark.parametrize("page", [*PAGES, "results/README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_commands_and_options_in_sentences_exist(page, options):
    every = set().union(*options.values()) | FOREIGN
    every |= set(re.findall('"(--[a-z-]+)"', SCRIPTS)) if page in OF_SCRIPTS else set()
    for span in spans(page):
        words = span.replace("…", " ").replace(",", " ").split()
        if words and words[0] == "rankencoder" and len(words) > 1 and words[1].isalpha():
            assert words[1] in options, span
            known = options[words[1]]
        else:
            known = every
        if words and (words[0] in ("rankencoder", "torchrun") or words[0].startswith("--")):
            given = {word for word in words if re.fullmatch("--[a-z].*|-[a-z]", word)}
            assert given <= known, f"{page}: {span}"


@pytest.mark.parametrize("page", [*PAGES, "results/README.md", "CONTRIBUTING.md"])
def test_scripts_and_targets_exist_with_these_options(page):
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), flags=re.MULTILINE))
    lines = [line for block in blocks(page) for line in block.text.replace("$ ", "").splitlines()]
    for words in [text.split("#")[0].split(" -- ")[0].split() for text in (*lines, *spans(page))]:
        if words[:1] == ["make"] and len(words) == 2:
            assert words[1] in targets, words
        if len(words) > 1 and words[0] == "python" and words[1].endswith(".py"):
            script = read(words[1]) + SCRIPTS  # some share theirs
            assert all(f'"{word}"' in script for word in words if word.startswith("--")), words


def test_blocks_say_what_they_are():
    for page in PAGES:
        assert {block.language for block in blocks(page)} <= LANGUAGES, page


def test_extras_are_listed_and_exist():
    section = re.search(
        r"\[project.optional-dependencies\]\n(.*?)\n\[", read("pyproject.toml"), flags=re.DOTALL
    )[1]
    extras = set(re.findall(r"^([a-z]+) = \[", section, flags=re.MULTILINE))
    listed = re.search(r"^Extras: (.*?)\n\n", read("README.md"), flags=re.DOTALL | re.MULTILINE)[1]
    assert set(re.findall("`([a-z]+)`", listed)) == extras
    for page in PAGES:
        for names in re.findall(r"(?:rankencoder|'\.)\[([a-z,]+)\]", read(page)):
            assert set(names.split(",")) <= extras, page


def test_tables_that_pages_bring_in_exist():
    results = read("results/README.md")
    for page in PAGES:
        for name in re.findall(r"^<!-- results: (.+?) -->$", read(page), flags=re.MULTILINE):
            assert f"<!-- {name} -->\n" in results, page


@pytest.mark.parametrize("page", PAGES)
def test_dotted_names_in_pages_exist(page):
    named = [span for span in spans(page) if re.fullmatch(r"rankencoder(\.\w+)+", span)]
    named += re.findall(r"^::: (\S+)$", read(page), flags=re.MULTILINE)
    for name in named:
        assert resolve_name(name) is not None


def test_the_python_page_has_every_public_name():
    import rankencoder

    listed = {
        name.rpartition(".")[2]
        for name in re.findall(r"^::: (\S+)$", read("docs/api.md"), flags=re.MULTILINE)
    }
    assert {name for name in rankencoder.__all__ if not name.startswith("_")} <= listed


def test_the_page_on_equations_is_true():
    rows = re.findall(r"^\| Eq\. (\d) \|.*\| `([\w.]+)` \|$", read("docs/equations.md"), flags=re.MULTILINE)
    assert {int(number) for number, _ in rows} == set(range(2, 8))
    for number, name in rows:
        ranges = re.findall(r"Eq\. (\d)(?:-(\d))?", inspect.getdoc(resolve_name(name)))
        assert any(int(a) <= int(number) <= int(b or a) for a, b in ranges), name


def test_equations_in_the_code_are_on_the_page():
    page = read("docs/equations.md")
    for module in ("ranks", "blend", "training.losses.formulas"):
        found = importlib.import_module(f"rankencoder.{module}")
        for name, function in inspect.getmembers(found, inspect.isfunction):
            lead = (inspect.getdoc(function) or "").partition("\n")[0]
            if function.__module__ == found.__name__ and "Eq. " in lead:
                assert f"`rankencoder.{module}.{name}`" in page
