import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from rankencoder import RankEncoder, __version__
from rankencoder.errors import InputError

A, B = "The cat sees the dog", "The dog sees the cat"


HELP = """
import sys
from rankencoder.cli import app, main
from typer.main import get_command
for command in ("", *get_command(app).commands):
    sys.argv = ["rankencoder", *command.split(), "--help"]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code
assert not {"torch", "transformers", "numpy"} & set(sys.modules), sys.modules.keys()
"""


def test_help_has_examples_and_is_light():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    helps = done.stdout.split("Usage: ")[2:]
    assert len(helps) >= 18
    for text in helps:
        assert "Example" in text or text.startswith("rankencoder data"), text


def test_build_info_and_every_question(run_cli, tiny_folder, corpus_file, tmp_path):
    folder = tmp_path / "m"
    code, out, err = run_cli(
        "build", tiny_folder, corpus_file, "-o", folder, "--dim", 32, "--rank-weight", 0.4
    )
    assert code == 0, err
    assert "1,200 sentences, seed 42" in out
    assert re.search(r"fidelity +Spearman [01]\.\d{4}", out)
    code, out, _ = run_cli("info", folder, "--json")
    about = json.loads(out)
    assert (about["rank_weight"], about["form"]["settings"]) == (0.4, {"dim": 32})
    model = RankEncoder.load(folder)
    expected = model.explain(A, B)
    code, out, _ = run_cli("similarity", folder, A, B, "--json")
    assert json.loads(out)[0]["similarity"] == pytest.approx(expected.similarity, abs=1e-6)
    code, out, _ = run_cli("similarity", folder, A, B, "--rank-weight", 1)
    assert f"{expected.rank_similarity:.4f}" in out.splitlines()[1].split()[2]
    code, out, _ = run_cli("explain", folder, A, B, "--json", "-k", 30)
    assert json.loads(out)["cosine"] == pytest.approx(expected.cosine, abs=1e-6)
    code, out, _ = run_cli("explain", folder, A, B, "--show", 3)
    assert f"{len(expected.shared)} of the 100 nearest" in out
    code, out, _ = run_cli("neighbors", folder, A, "-k", 3)
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["1", "2", "3"]
    code, out, _ = run_cli("neighbors", folder, A, "-k", 2, "--json")
    assert json.loads(out)[0]["rank"] == 1


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
def test_pairs_of_a_file(run_cli, tiny_saved, tmp_path, sentences, suffix):
    a, b = sentences[:1100], sentences[100:1200]
    path = tmp_path / f"pairs{suffix}"
    if suffix == ".tsv":
        path.write_text("".join(f"{x}\t{y}\n" for x, y in zip(a, b, strict=True)))
    else:
        rows = ({"sentence1": x, "sentence2": y} for x, y in zip(a, b, strict=True))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, out, _ = run_cli("similarity", tiny_saved, "--pairs", path, "--json")
    rows = json.loads(out)
    expected = RankEncoder.load(tiny_saved).similarity_pairwise(a, b)
    assert np.allclose([row["similarity"] for row in rows], expected, atol=1e-5)
    assert [row["a"] for row in rows] == a


def test_encode(run_cli, tiny_saved, corpus_file, tmp_path):
    code, out, _ = run_cli("encode", tiny_saved, corpus_file, "-o", tmp_path / "v.npy")
    assert code == 0
    assert "1,200 vectors" in out
    code, out, _ = run_cli(
        "encode", tiny_saved, corpus_file, "-o", tmp_path / "v.npy", "--overwrite", "--json"
    )
    assert json.loads(out)["encoded"] == 1200


def test_sentences_may_hold_markup_and_begin_with_dashes(run_cli, tiny_saved):
    code, out, _ = run_cli("explain", tiny_saved, "[bold]The cat[/]", "[/red] dog")
    assert code == 0
    assert "[bold]The cat[/]" in out
    assert "[/red] dog" in out
    code, out, _ = run_cli("similarity", tiny_saved, "--", "--cat [b]", "-dog")
    assert code == 0
    assert "--cat [b]" in out


def test_version(run_cli):
    assert run_cli("--version")[1] == f"rankencoder {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "nowhere"], "cannot load encoder 'nowhere': no such folder"),
        (["explain", "nowhere", "a", "b"], "cannot load encoder 'nowhere': no such folder"),
        (["explain", "{encoder}", "a", "b"], "is a plain encoder: build a RankEncoder from it first"),
        (["similarity", "{encoder}", "a", "b", "--rank-weight", "0.5"], "is a plain encoder: only a"),
        (["similarity", "{model}"], "pass two sentences, or --pairs FILE"),
        (["similarity", "{model}", "a", "--pairs", "{corpus}"], "pass two sentences, or --pairs FILE"),
        (["build"], "Missing argument 'encoder'. See: rankencoder build --help"),
        (["nonsense"], "No such command 'nonsense'. See: rankencoder --help"),
        (["build", "{encoder}", "{corpus}", "-o", "{new}", "--size", "x"], "Invalid value for '--size'"),
        (["build", "{encoder}", "{corpus}", "-o", "{new}", "--dim", "0"], "dim must be at least 1"),
        (["build", "{encoder}", "{corpus}", "-o", "{new}", "--seed", "9" * 30], "seed must fit into 64 bits"),
        (
            ["build", "{encoder}", "{corpus}", "-o", "{new}", "--device", "abacus"],
            "cannot run on device 'abacus'",
        ),
        (["similarity", "{model}", "a", "b", "--rank-weight", "2"], "rank_weight must be between 0"),
        (["similarity", "{model}", "a", " "], "sentence 1 is empty"),
        (["similarity", "{model}", "--pairs", "nowhere.tsv"], "no such file: nowhere.tsv"),
        (
            ["similarity", "{model}", "--pairs", "{corpus}"],
            "line 1: expected 2 columns, got 1",
        ),
        (["build", "{encoder}", "nowhere.txt", "-o", "{new}"], "no such file or folder: nowhere.txt"),
        (["build", "someone/nothing", "{corpus}", "-o", "{new}"], "cannot load encoder 'someone/nothing'"),
        (["build", "{encoder}", "{corpus}", "-o", "{model}"], "already exists"),
        (["build", "{encoder}", "{corpus}", "-o", "{new}", "--form", "flat"], "unknown form 'flat'"),
        (
            ["build", "{encoder}", "{corpus}", "-o", "{new}", "--power", "1"],
            "power is not a setting of the compact",
        ),
        (["build", "{encoder}", "{corpus}", "-o", "{new}", "--rank-weight", "7"], "rank_weight must be"),
        (["encode", "{model}", "{corpus}", "-o", "{new}.xyz"], "cannot write .xyz"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(
    run_cli, tiny_saved, tiny_folder, corpus_file, tmp_path, arguments, message
):
    places = {"model": tiny_saved, "encoder": tiny_folder, "corpus": corpus_file, "new": tmp_path / "new"}
    code, out, err = run_cli(*(argument.format(**places) for argument in arguments))
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")
    assert message.lower() in err.lower()  # typer writes names of arguments in either case
    assert not list(tmp_path.iterdir())


def test_no_arguments_print_the_help_once():
    done = subprocess.run([sys.executable, "-m", "rankencoder"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.count("Usage: rankencoder") == 1


def test_settings_in_messages_become_options(run_cli, tiny_saved, monkeypatch):
    def breaks(*_, **__):
        raise InputError("set `rank_weight`, `as_json` or `k`, not `column` or `the model`")

    monkeypatch.setattr("rankencoder.cli.compare.load", breaks)
    for command, told in (
        (["explain", tiny_saved, "a", "b"], "--rank-weight, --json or -k"),
        (["neighbors", tiny_saved, "a"], "`rank_weight`, --json or -k"),
    ):
        assert run_cli(*command)[2] == f"error: set {told}, not `column` or `the model`\n"


def test_what_nobody_thought_of_is_one_line_too(run_cli, tiny_saved, monkeypatch):
    def breaks(*_, **__):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("rankencoder.cli.compare.load", breaks)
    code, _, err = run_cli("neighbors", tiny_saved, "a")
    assert code == 1
    assert err.startswith("error: unexpected ZeroDivisionError: division by zero (RANKENCODER_DEBUG=1")
    monkeypatch.setenv("RANKENCODER_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run_cli("neighbors", tiny_saved, "a")


def test_characters_that_a_terminal_does_not_know():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "rankencoder", "info", "nowhere-cät"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert "nowhere-c?t" in done.stderr


@pytest.mark.filterwarnings("default::rankencoder.errors.ReferenceWarning")
def test_small_corpora_warn_in_one_line(run_cli, tiny_folder, tmp_path):
    (tmp_path / "few.txt").write_text("The cat\nThe dog\nThe river\n")
    code, _, err = run_cli("build", tiny_folder, tmp_path / "few.txt", "-o", tmp_path / "m")
    assert code == 0
    assert err.startswith("warning: a reference corpus of 3 sentences is small")
    assert len(err.splitlines()) == 1


def test_interruption_is_a_clean_message(run_cli, tiny_saved, corpus_file, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankencoder.vector_files._write_part", stop)
    code, _, err = run_cli("encode", tiny_saved, corpus_file, "-o", tmp_path / "v.npy")
    assert code == 130
    assert err.startswith("error: interrupted; to resume, run the same command again")


EIGHT = {"simcse", "promptbert", "sncse", "consert", "esimcse", "dclr", "diffcse", "prompteol"}


def test_methods_are_listed(run_cli):
    code, out, _ = run_cli("methods")
    assert code == 0
    for name in EIGHT:
        assert f"\n{name}  " in f"\n{out}"
    for told in ("Gao et al., 2021", "learning_rate 3e-05", "[CLS]", "epochs 10", "queue_size=160"):
        assert told in out
    code, out, _ = run_cli("methods", "--json", "--family", "roberta")
    listed = json.loads(out)
    assert listed.keys() >= EIGHT
    assert listed["simcse"]["settings"]["batch_size"] == 512
    assert listed["dclr"]["options"]["complementary"] == "princeton-nlp/unsup-simcse-roberta-base"
    assert all({"about", "paper", "year", "settings", "options"} == told.keys() for told in listed.values())
    code, _, err = run_cli("methods", "--family", "gpt")
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_commands_take_any_encoder(run_cli, tiny_folder, tiny_saved, corpus_file, tmp_path):
    code, out, _ = run_cli("info", tiny_folder, "--json")
    assert (code, json.loads(out)["dimension"]) == (0, 32)
    code, out, _ = run_cli("similarity", f"{tiny_folder}?prompt=query: ", "The cat", "The cat", "--json")
    assert json.loads(out)[0]["similarity"] == pytest.approx(1, abs=1e-5)
    code, _, _ = run_cli("encode", tiny_folder, corpus_file, "-o", tmp_path / "v.npy")
    assert np.load(tmp_path / "v.npy").shape == (1200, 32)
    run = tmp_path / "run"
    shutil.copytree(tiny_saved, run / "rankencoder")
    (run / "rankencoder-run.json").write_text("{}")
    (tmp_path / "pairs.tsv").write_text("1\tThe cat\tThe dog\n2\tA river\tA house\n")
    answers = [
        run_cli("similarity", model, "--pairs", tmp_path / "pairs.tsv", "--json")
        for model in (run, tiny_saved)
    ]
    assert answers[0] == answers[1]
    assert len(json.loads(answers[0][1])) == 2
    assert "compact (dim 64)" in run_cli("info", run)[1]


def test_interrupted_imports_are_one_line(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "rankencoder", "--help"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
