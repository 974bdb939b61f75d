"""The starting encoder is scored first, and kept where no step of the training does better."""

import itertools
import logging
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from training_runs import flags, losses, same_weights

import rankencoder
from rankencoder.errors import InputError
from rankencoder.training.loop.trainer import EncoderTrainer

pytestmark = pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
DESTROYS = {"learning_rate": 0.3, "eval_steps": 2, "max_steps": 5, "only_base": True}


def write_dev(path, encoder, sentences):
    """Pairs scored by an encoder's own cosines, as sentence-transformers has them."""
    pairs = np.random.default_rng(0).permutation(sentences)[:80].reshape(-1, 2)
    model = SentenceTransformer(str(encoder), device="cpu")
    a, b = (model.encode(list(side), normalize_embeddings=True) for side in pairs.T)
    rows = zip((a * b).sum(axis=1), pairs, strict=True)
    path.write_text("".join(f"{score:.9f}\t{x}\t{y}\n" for score, (x, y) in rows))
    return str(path)


@pytest.fixture
def dev(tmp_path, tiny_folder, sentences):
    return write_dev(tmp_path / "dev.tsv", tiny_folder, sentences)


def test_a_start_that_wins_is_kept_and_said(train, dev, tiny_folder, caplog):
    with caplog.at_level(logging.INFO, "rankencoder.training"):
        run = train(backbone=str(tiny_folder), dev=[dev], **DESTROYS)
    (stage,) = run.record["stages"]
    scores = {entry["step"]: entry["dev"] for entry in run.record["history"] if "dev" in entry}
    assert list(scores) == [0, 2, 4, 5]
    assert scores[0] == stage["start"] == pytest.approx(1)
    assert stage["best"] == {"step": 0, "dev": scores[0]}
    assert stage["trained"] == max(scores[2], scores[4], scores[5]) < 0.9
    assert (
        f"stage 1: Spearman at the start 100.00, best {100 * stage['trained']:.2f}: keeping the start"
        in caplog.messages
    )
    assert same_weights(run.encoder, tiny_folder)
    texts = ["The cat sees the dog", "A river moves"]
    kept, start = (
        SentenceTransformer(str(f), device="cpu").encode(texts) for f in (run.encoder, tiny_folder)
    )
    np.testing.assert_allclose(kept, start, atol=1e-6)


def test_the_command_line_says_so_too(run_cli, dev, tiny_folder, corpus_file, tmp_path):
    settings = flags(method="simcse", batch_size=8, reference_size=1000, backbone=tiny_folder, dev=dev)
    settings += flags(learning_rate=0.3, max_steps=2)
    code, out, err = run_cli("train", corpus_file, *settings, "-o", tmp_path / "run")
    assert code == 0, err
    for number in (1, 2):  # E2 starts from the backbone as well
        assert f"\nstage {number}: Spearman at the start 100.00, best " in err
        line = next(line for line in out.splitlines() if line.startswith(f"stage {number}: 2 steps"))
        assert ", Spearman at the start 100.00, best " in line
        assert line.endswith(": keeping the start")
    assert same_weights(tmp_path / "run/encoder", tiny_folder)


def test_a_start_that_loses_is_not_spoken_of(run_cli, train, backbone, corpus_file, tmp_path, sentences):
    taught = train("taught", only_base=True)
    dev = write_dev(tmp_path / "dev.tsv", taught.encoder, sentences)
    settings = flags(
        method="simcse", batch_size=8, learning_rate=1e-3, max_steps=6, backbone=backbone, dev=dev
    )
    code, out, err = run_cli("train", corpus_file, *settings, "--only-base", "-o", tmp_path / "run")
    assert code == 0, err
    assert ", dev Spearman 100.00 at step 6" in out  # the same training once more
    assert "keeping" not in out + err


def test_a_resumed_stage_knows_its_start(train, train_killed, dev, tiny_folder, tmp_path, monkeypatch):
    settings = {**DESTROYS, "backbone": str(tiny_folder), "dev": [dev], "save_steps": 2}
    whole = train("whole", **settings)
    train_killed("cut", stage=1, step=3, **settings)
    scored = []
    keep = EncoderTrainer.keep_if_best
    monkeypatch.setattr(
        EncoderTrainer, "keep_if_best", lambda self, s: scored.append(self.state.global_step) or keep(self, s)
    )
    resumed = rankencoder.train(output=tmp_path / "cut", resume=True, progress=False)
    assert scored == [4, 5]  # the start was scored before the checkpoint
    first, second = whole.record["stages"][0], resumed.record["stages"][0]
    assert second["resumed_at"] == 2
    assert [first[key] for key in ("start", "trained", "best")] == [
        second[key] for key in ("start", "trained", "best")
    ]
    assert second["best"]["step"] == 0
    assert same_weights(whole.encoder, resumed.encoder)
    assert same_weights(resumed.encoder, tiny_folder)
    assert losses(whole) == losses(resumed)
    dev_scores = [
        [(e["step"], e["dev"]) for e in run.record["history"] if "dev" in e] for run in (whole, resumed)
    ]
    assert dev_scores[0] == dev_scores[1]


def test_patience_counts_from_the_start(train, dev, tiny_folder):
    settings = {**DESTROYS, "eval_steps": 1, "max_steps": 9}
    run = train(backbone=str(tiny_folder), dev=[dev], patience=2, **settings)
    assert run.record["stages"][0]["steps"] == 2


def test_scores_in_half_precision_are_those_of_the_weights(
    tmp_path, tiny_folder, sentences, callable_encoder, monkeypatch
):
    """What a run logs of its start is what anybody measures of it afterwards."""
    from rankencoder.training.loop import stage

    arguments, compute, halves = stage.SentenceTransformerTrainingArguments, EncoderTrainer.compute_loss, []

    def watched(self, *args, **kwargs):
        found = compute(self, *args, **kwargs)
        halves.append("forward" in vars(self.model))
        return found

    monkeypatch.setattr(EncoderTrainer, "compute_loss", watched)
    monkeypatch.setattr(  # as on a GPU
        stage, "SentenceTransformerTrainingArguments", lambda **given: arguments(**{**given, "bf16": True})
    )
    a, b = sentences[:200], sentences[300:500]
    gold = np.random.default_rng(0).normal(size=200)
    (tmp_path / "dev.tsv").write_text(
        "".join(f"{score}\t{x}\t{y}\n" for score, x, y in zip(gold, a, b, strict=True))
    )
    run = rankencoder.distill(
        sentences,
        tmp_path / "out",
        teacher=callable_encoder,
        student=tiny_folder,
        dev=[str(tmp_path / "dev.tsv")],
        batch_size=64,
        max_steps=3,
        eval_steps=1,
        learning_rate=1e-3,
        device="cpu",
        progress=False,
    )
    assert halves == [True] * 3  # the steps themselves stay in half precision
    for folder, scores in (
        (tiny_folder, (run.record["stage"]["start"], run.record["dev"]["before"])),
        (run.encoder, (run.record["stage"]["best"]["dev"], run.record["dev"]["after"])),
    ):
        model = SentenceTransformer(str(folder), device="cpu")
        cosines = model.similarity_pairwise(model.encode(a), model.encode(b)).numpy()
        assert scores == pytest.approx([spearmanr(gold, cosines).statistic] * 2, abs=5e-5)


PRODUCTS = torch.backends.cuda.matmul


@pytest.mark.skipif(not hasattr(PRODUCTS, "fp32_precision"), reason="PyTorch before 2.9 has no such setting")
@pytest.mark.parametrize("own", ["none", "ieee", "tf32"])
@pytest.mark.parametrize("half", ["fp16", "bf16", ""])
@pytest.mark.parametrize("fails", [False, True])
def test_trainings_in_half_precision_are_evaluated_in_tf32(monkeypatch, own, half, fails):
    used = []

    def evaluate(self):
        used.append((PRODUCTS.fp32_precision, vars(self.model).get("forward")))
        if fails:
            raise InputError("no score")

    monkeypatch.setattr(SentenceTransformerTrainer, "evaluate", evaluate)
    trainer = EncoderTrainer.__new__(EncoderTrainer)
    trainer.loss, trainer.args = None, SimpleNamespace(fp16=half == "fp16", bf16=half == "bf16")
    trainer.model = torch.nn.Linear(1, 1)
    trainer.model.forward = casting = trainer.model.forward
    before = PRODUCTS.fp32_precision
    try:
        PRODUCTS.fp32_precision = own
        with pytest.raises(InputError) if fails else nullcontext():
            trainer.evaluate()
        assert used == [("tf32" if half else own, None)]
        assert PRODUCTS.fp32_precision == own
        assert trainer.model.forward is casting
    finally:
        PRODUCTS.fp32_precision = before


def test_an_old_snapshot_gives_its_memory(train, sentences, monkeypatch):
    kept, hold = [], EncoderTrainer.hold

    def held(self, score):
        hold(self, score)
        kept.append(next(iter(self.held["weights"].values())))

    monkeypatch.setattr(EncoderTrainer, "hold", held)
    long = [f"{text} {other} {text}" for text, other in itertools.pairwise(sentences)]
    train(corpus=long, eval_steps=1, max_steps=7, only_base=True)
    assert len(kept) == 8
    assert len({weight.data_ptr() for weight in kept}) <= 3
