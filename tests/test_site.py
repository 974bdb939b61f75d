"""The site of the documentation: builds offline without a warning, and loads nothing from elsewhere."""

import os
import re
import sys

import pytest
import warm
from documents import ROOT, read


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="needs mkdocs-material: pip install -c constraints.txt '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = warm.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return folder


def test_every_method_and_command_has_its_place(site):
    from rankencoder.cli import app
    from rankencoder.training.methods import methods

    ours = {name for name, method in methods().items() if method.__module__.startswith("rankencoder.")}
    assert {path.stem for path in (site / "methods").glob("*.html")} == ours | {"index"}
    page = (site / "commands.html").read_text(encoding="utf-8")
    for command in app.registered_commands:
        assert f"rankencoder {command.callback.__name__}" in page


def test_settings_of_methods_are_options_of_train(site):
    from typer.main import get_command

    from rankencoder.cli import app

    known = {name for option in get_command(app).commands["train"].params for name in option.opts}
    for path in (site / "methods").glob("*.html"):
        assert set(re.findall("<td><code>(--[a-z-]+)</code>", path.read_text(encoding="utf-8"))) <= known


def test_tables_in_pages_are_what_code_and_results_say(monkeypatch):
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(ROOT / "docs")
    import hooks

    for name, table in hooks.settings_tables().items():
        assert table in read(name), f"{name}: run python docs/hooks.py"
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        assert hooks.with_tables(page) == page.read_text(encoding="utf-8"), (
            f"{page}: run python docs/hooks.py"
        )
    assert "| `learning_rate` | 3e-05; or the method's |" in read("docs/training.md")
    assert "| `learning_rate` | 0.0001; static: 0.002 |" in read("docs/distill.md")


def test_tables_of_the_results_are_brought_in(site):
    assert "halves, guarded" in (site / "when.html").read_text(encoding="utf-8")
    assert "PromptBERT, E2" in (site / "rank-weight.html").read_text(encoding="utf-8")
    assert "<td>taught by 3</td>" in (site / "distill.html").read_text(encoding="utf-8")
    assert "| taught by 3 | " in read("docs/distill.md")  # which people read on GitHub


def test_pages_load_nothing_from_elsewhere_and_can_be_searched(site, browser):
    page, asked, said = browser.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: said.append(f"{request.failure} {request.url}"))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    for path in sorted(site.rglob("*.html")):
        if path.name != "404.html":  # whose addresses begin at a server's root
            page.goto(path.as_uri())
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("whitening")
    page.locator(".md-search-result__item").first.wait_for()
    page.close()
    assert [line for line in said if "ERR_ABORTED" not in line] == []  # an icon, when the next page is opened
    assert {url.partition(":")[0] for url in asked} <= {"file", "data", "about", "blob"}


def test_pages_mention_no_cdn(site):
    for path in site.rglob("*.html"):
        sources = re.findall(
            r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?://[^\" >]+)", path.read_text()
        )
        assert not sources, path
    for path in (*site.rglob("*.svg"), *site.rglob("*.css")):
        assert not re.findall(r"url\([\"']?https?:", path.read_text(encoding="utf-8")), path


def test_the_workflow_does_what_our_own_ci_does():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]
    assert {"run": ".ci/run"} in jobs["test"]["steps"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.10", "3.11", "3.12", "3.13"]
    assert {"run": "make locked lint"} in jobs["lint"]["steps"]
    assert {"run": "make docs"} in jobs["docs"]["steps"]
