"""Several teachers, other targets, patience: on a tiny BERT."""

import json

import numpy as np
import pytest
from scored_pairs import make_pairs, write_pairs, write_senteval_dev
from training_runs import SMALL, losses, same_weights

import rankencoder
from rankencoder.errors import InputError

pytestmark = [
    pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning"),
    pytest.mark.filterwarnings("ignore::rankencoder.errors.ReferenceWarning"),
]
LEARNS = {"combine": "sum", "rank_loss_weight": 3.0, "reference_size": 120, "max_steps": 3}


@pytest.fixture(scope="module")
def base(tmp_path_factory, backbone, corpus_file):
    """An E1."""
    folder = tmp_path_factory.mktemp("base") / "run"
    settings = {**SMALL, "backbone": str(backbone), "only_base": True, "max_steps": 2}
    return rankencoder.train(corpus_file, folder, progress=False, **settings).encoder


def test_several_teachers_teach_together(train, base, tiny_folder, run_cli, tmp_path):
    one = train("one", base_encoder=str(base), **LEARNS)
    twice = train("twice", base_encoder=[str(base), str(base)], **LEARNS)
    assert same_weights(one.encoder, twice.encoder)  # the mean of a number with itself
    both = train("both", base_encoder=[str(base), str(tiny_folder)], **LEARNS)
    assert not same_weights(one.encoder, both.encoder)
    assert "teachers 2" in (both.encoder / "README.md").read_text()
    # the same by the command line
    config = tmp_path / "one/train.yaml"
    given = ["--base-encoder", base, "--base-encoder", tiny_folder]
    code, out, err = run_cli("train", "--config", config, "-o", tmp_path / "cli", *given, "--json")
    assert code == 0, err
    assert json.loads(out)["config"]["base_encoder"] == [str(base), str(tiny_folder)]
    assert same_weights(both.encoder, tmp_path / "cli/encoder")


def test_the_target_makes_a_difference(train, base, tmp_path):
    runs = {
        target: train(f"t{target}", base_encoder=str(base), target=target, **LEARNS)
        for target in ("ranks", "cosine", -0.25)
    }
    ranks, cosine, power = (run.encoder for run in runs.values())
    assert not same_weights(ranks, cosine)
    assert not same_weights(cosine, power)
    assert "target -0.25" in (power / "README.md").read_text()
    with pytest.raises(InputError, match=r"target is 5, but must be .* less than or equal to 2"):
        train("no", target=5)
    with pytest.raises(InputError, match=r"target is 'cosin'.*did you mean 'cosine'\?"):
        train("no", target="cosin")
    assert not (tmp_path / "no").exists()


def test_fetched_dev_sets_by_name_and_each_stage_by_its_own(
    train, run_cli, corpus_file, backbone, sentences, tmp_path, monkeypatch
):
    from scipy.stats import spearmanr
    from sentence_transformers import SentenceTransformer

    monkeypatch.setenv("RANKENCODER_DATA", str(tmp_path / "data"))
    code, _, err = run_cli(
        "train", corpus_file, "-o", tmp_path / "no", "--backbone", backbone, "--dev", "stsb"
    )
    assert code == 2
    assert "dev set 'stsb' is not fetched" in err
    assert "data fetch" in err
    stsb, sick = write_senteval_dev(tmp_path / "data/senteval/downstream", sentences)
    dev = {"dev": ["stsb"], "stage2_dev": ["stsb", "sickr"], "eval_steps": 2}
    run = train(**dev, **LEARNS)
    first, second = (stage["best"]["dev"] for stage in run.record["stages"])

    def score(folder, pairs):
        model = SentenceTransformer(str(folder), device="cpu")
        a, b = (model.encode([pair[i] for pair in pairs], normalize_embeddings=True) for i in (0, 1))
        return spearmanr([pair.score for pair in pairs], (a * b).sum(axis=1)).statistic

    # batches differ, so that nearly equal cosines can change places
    assert first == pytest.approx(score(run.folder / "base", stsb), abs=1e-3)
    both = [score(run.encoder, pairs) for pairs in (stsb, sick)]
    assert second == pytest.approx(sum(both) / 2, abs=1e-3)
    assert run.record["config"]["dev"][0].endswith("data/senteval/downstream/STS/STSBenchmark/sts-dev.csv")
    with pytest.raises(InputError, match=r"no such file: .*nowhere\.tsv"):
        train("no", stage2_dev=["nowhere.tsv"])
    assert not (tmp_path / "no").exists()


def test_references_can_be_ranked_by_raw_inner_products(train, base, sentences, tmp_path):
    """As in the authors' inference: unit queries, raw reference vectors; the form survives saving."""
    from scipy.stats import spearmanr
    from sentence_transformers import SentenceTransformer

    given = {"base_encoder": str(base), "form": "exact", "rank_weight": 1.0, **LEARNS}
    run = train(normalize_reference=False, **given)
    loaded = run.load()
    model = SentenceTransformer(str(run.encoder), device="cpu")
    queries = model.encode(sentences[:5], normalize_embeddings=True).astype(float)
    raw = model.encode(loaded.reference.sentences).astype(float)
    expected = spearmanr(queries @ raw.T, axis=1).statistic
    found = loaded.similarity(sentences[:5], sentences[:5])
    np.testing.assert_allclose(found, expected, atol=2e-4)
    ranks = loaded.rank_vectors(sentences[:5])
    np.testing.assert_allclose(ranks @ ranks.T, expected, atol=2e-4)
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    by_cosine = spearmanr(queries @ (raw / lengths).T, axis=1).statistic
    assert np.abs(by_cosine - expected).max() > 2e-3
    with pytest.raises(InputError, match=r"raw reference vectors .* need form exact, not compact"):
        train("no", normalize_reference=False, **{**given, "form": "compact"})


def test_patience_ends_a_stage(train, tmp_path, sentences, monkeypatch):
    from rankencoder.training.loop.trainer import EncoderTrainer

    write_pairs(tmp_path / "dev.tsv", make_pairs(sentences, 60))
    scores = iter([0.1, 0.5, 0.7, 0.6, 0.6, 0.9, 0.9])  # the first is the start's
    keep = EncoderTrainer.keep_if_best
    monkeypatch.setattr(EncoderTrainer, "keep_if_best", lambda self, score: keep(self, next(scores)))
    run = train(dev=[str(tmp_path / "dev.tsv")], eval_steps=1, patience=2, only_base=True)
    (stage,) = run.record["stages"]
    assert stage["steps"] == 4
    assert stage["best"] == {"step": 2, "dev": 0.7}


def test_a_stage_that_patience_ended_is_not_taken_up_again(train, tmp_path, sentences, monkeypatch):
    from training_runs import Killed

    from rankencoder.training import execution
    from rankencoder.training.loop.trainer import EncoderTrainer

    write_pairs(tmp_path / "dev.tsv", make_pairs(sentences, 60))
    settings = {"dev": [str(tmp_path / "dev.tsv")], "eval_steps": 1, "save_steps": 1, "only_base": True}
    keep = EncoderTrainer.keep_if_best

    def told(*scores):
        left = iter(scores)
        monkeypatch.setattr(EncoderTrainer, "keep_if_best", lambda self, score: keep(self, next(left)))

    told(0.1, 0.5, 0.7, 0.6, 0.6)
    whole = train("whole", patience=2, **settings)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        told(0.1, 0.5, 0.7, 0.6, 0.6)
        patch.setattr(execution, "save_encoder", lambda *_: (_ for _ in ()).throw(Killed()))
        train("cut", patience=2, **settings)
    told(0.9, 0.9)  # would be better, but nobody may look
    resumed = rankencoder.train(output=tmp_path / "cut", resume=True, progress=False)
    (stage,) = resumed.record["stages"]
    assert (stage["steps"], stage["best"]) == (4, {"step": 2, "dev": 0.7})
    assert same_weights(whole.encoder, resumed.encoder)
    assert losses(resumed) == losses(whole)


def test_a_batch_of_one_sentence_has_no_list(train, base, sentences):
    settings = {"max_steps": 3, "reference_size": 16, "base_encoder": str(base)}
    run = train(corpus=sentences[:17], listwise="listnet", **settings)
    last = [entry for entry in run.record["history"] if "loss" in entry][-1]
    assert (last["step"], last["listnet"]) == (3, 0)


def test_a_run_with_several_teachers_is_evaluated_without_one_e1(train, tiny_folder, tmp_path, sentences):
    run = train(base_encoder=[str(tiny_folder), str(tiny_folder)], max_steps=1)
    write_pairs(tmp_path / "dev.tsv", make_pairs(sentences, 60))
    found = rankencoder.evaluate(run.folder, dev=tmp_path / "dev.tsv", tasks=["sts"], cache=False)
    assert [row.system for row in found.rows()] == ["E2 cosine", "E2 ranks", "E2 blend 0.1"]
