"""E2 as the next E1, several teachers, other targets, patience: on a tiny BERT."""

import json

import numpy as np
import pytest
from scipy.stats import spearmanr
from scored_pairs import make_pairs, write_pairs
from sentence_transformers import SentenceTransformer
from training_runs import losses, same_weights

import rankencoder
from rankencoder.errors import InputError
from rankencoder.training import rounds
from rankencoder.training.teaching.rounds import Round

pytestmark = [
    pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning"),
    pytest.mark.filterwarnings("ignore::rankencoder.errors.ReferenceWarning"),
]
LEARNS = {"combine": "sum", "rank_loss_weight": 3.0, "reference_size": 120}


def test_a_round_is_better_by_dev_or_by_smaller_change():
    assert Round(2, 0.8, None).is_better_than(Round(1, 0.7, None))
    assert not Round(2, 0.7, None).is_better_than(Round(1, 0.7, None))
    assert Round(2, None, 0.1).is_better_than(Round(1, None, 0.2))
    assert not Round(2, None, 0.2).is_better_than(Round(1, None, 0.2))


@pytest.fixture
def changes(monkeypatch):
    """Lets rounds end as told."""

    def tell(*values):
        left = list(values)
        monkeypatch.setattr(rounds, "similarity_change", lambda folder, config: left.pop(0))

    return tell


def test_rounds_end_when_they_gain_nothing(train, changes):
    changes(0.3, 0.2, 0.25)
    run = train(rounds=5, **LEARNS)
    told = run.record["rounds"]
    assert told["kept"] == 2
    assert [ended["change"] for ended in told["rounds"]] == [0.3, 0.2, 0.25]
    assert [stage["stage"] for stage in run.record["stages"]] == [1, 2, 3, 4]
    assert "stage4-weighted_rank" in (run.folder / "losses.svg").read_text()
    assert not (run.folder / "work").exists()


def test_a_round_learns_from_the_one_before(train, changes):
    one = train("one", **LEARNS)
    apart = train("apart", base_encoder=str(one.encoder), **LEARNS)
    changes(0.3, 0.2)
    two = train("two", rounds=2, **LEARNS)
    assert same_weights(two.encoder, apart.encoder)
    assert not same_weights(two.encoder, one.encoder)
    changes(0.2, 0.3)
    kept = train("kept", rounds=2, **LEARNS)
    assert same_weights(kept.encoder, one.encoder)


def test_the_change_is_the_mean_difference_of_rank_similarities(train):
    run = train(rounds=2, corpus=SENTENCES, **LEARNS)
    kept = rankencoder.RankEncoder.load(run.folder / "rankencoder").reference.sentences
    base = SentenceTransformer(str(run.folder / "base"), device="cpu")
    apart = train("apart", base_encoder=str(run.folder / "base"), corpus=SENTENCES, **LEARNS)
    after = SentenceTransformer(str(apart.encoder), device="cpu")

    def similarities(model):
        vectors = model.encode(kept, normalize_embeddings=True).astype(float)
        return spearmanr(vectors @ vectors.T, axis=1).statistic

    off = ~np.eye(len(kept), dtype=bool)
    expected = np.abs(similarities(base) - similarities(after))[off].mean()
    assert run.record["rounds"]["rounds"][0]["change"] == pytest.approx(expected, abs=1e-4)


SENTENCES = [
    f"The {a} sees the {b}." for a in ("cat", "dog", "old house", "river") for b in map(str, range(40))
]


def test_dev_decides_where_there_is_one(train, tmp_path, sentences, monkeypatch):
    write_pairs(tmp_path / "dev.tsv", make_pairs(sentences, 60))
    monkeypatch.setattr(rounds, "similarity_change", None)  # is not asked for
    run = train(rounds=2, dev=[str(tmp_path / "dev.tsv")], eval_steps=2, **LEARNS)
    told = run.record["rounds"]
    best = [stage["best"]["dev"] for stage in run.record["stages"]]
    assert [ended["dev"] for ended in told["rounds"]] == best[1:]
    assert told["kept"] == 1 + (best[2] > best[1])


def test_interrupted_rounds_end_with_the_same_weights(train, train_killed, tmp_path):
    settings = {"rounds": 2, "save_steps": 2, "neighbors": 2, "listwise": "listmle", **LEARNS}
    whole = train("whole", **settings)
    for stage in (2, 3):
        train_killed(f"cut-{stage}", stage=stage, step=3, **settings)
        resumed = rankencoder.train(output=tmp_path / f"cut-{stage}", resume=True, progress=False)
        assert same_weights(whole.encoder, resumed.encoder)
        assert resumed.record["rounds"] == whole.record["rounds"]


def test_several_teachers_teach_together(train, tiny_folder, run_cli, tmp_path):
    base = train("base", only_base=True).folder / "base"
    one = train("one", base_encoder=str(base), **LEARNS)
    twice = train("twice", base_encoder=[str(base), str(base)], **LEARNS)
    assert same_weights(one.encoder, twice.encoder)  # the mean of a number with itself
    both = train("both", base_encoder=[str(base), str(tiny_folder)], **LEARNS)
    assert not same_weights(one.encoder, both.encoder)
    assert '"teachers": 2' in (both.encoder / "README.md").read_text()
    # the same by the command line
    config = tmp_path / "one/train.yaml"
    given = ["--base-encoder", base, "--base-encoder", tiny_folder]
    code, out, err = run_cli("train", "--config", config, "-o", tmp_path / "cli", *given, "--json")
    assert code == 0, err
    assert json.loads(out)["config"]["base_encoder"] == [str(base), str(tiny_folder)]
    assert same_weights(both.encoder, tmp_path / "cli/encoder")


def test_the_target_makes_a_difference(train, tmp_path):
    base = str(train("base", only_base=True).folder / "base")
    runs = {
        target: train(f"t{target}", base_encoder=base, target=target, **LEARNS)
        for target in ("ranks", "cosine", -0.25)
    }
    ranks, cosine, power = (run.encoder for run in runs.values())
    assert not same_weights(ranks, cosine)
    assert not same_weights(cosine, power)
    assert '"target": -0.25' in (power / "README.md").read_text()
    with pytest.raises(InputError, match=r"target 5\.0 is no similarity: power must be between -2 and 2"):
        train("no", target=5)
    with pytest.raises(InputError, match=r"target is 'cosin'.*did you mean 'cosine'\?"):
        train("no", target="cosin")
    assert not (tmp_path / "no").exists()


def test_patience_ends_a_stage(train, tmp_path, sentences, monkeypatch):
    from rankencoder.training.loop.trainer import EncoderTrainer

    write_pairs(tmp_path / "dev.tsv", make_pairs(sentences, 60))
    scores = iter([0.5, 0.7, 0.6, 0.6, 0.9, 0.9])
    keep = EncoderTrainer.keep_if_best
    monkeypatch.setattr(EncoderTrainer, "keep_if_best", lambda self, score: keep(self, next(scores)))
    run = train(dev=[str(tmp_path / "dev.tsv")], eval_steps=1, patience=2, only_base=True)
    (stage,) = run.record["stages"]
    assert stage["steps"] == 4
    assert stage["best"] == {"step": 2, "dev": 0.7}


def test_a_stage_that_patience_ended_is_not_taken_up_again(train, tmp_path, sentences, monkeypatch):
    from training_runs import Killed

    from rankencoder.training import outputs
    from rankencoder.training.loop.trainer import EncoderTrainer

    write_pairs(tmp_path / "dev.tsv", make_pairs(sentences, 60))
    settings = {"dev": [str(tmp_path / "dev.tsv")], "eval_steps": 1, "save_steps": 1, "only_base": True}
    keep = EncoderTrainer.keep_if_best

    def told(*scores):
        left = iter(scores)
        monkeypatch.setattr(EncoderTrainer, "keep_if_best", lambda self, score: keep(self, next(left)))

    told(0.5, 0.7, 0.6, 0.6)
    whole = train("whole", patience=2, **settings)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        told(0.5, 0.7, 0.6, 0.6)
        patch.setattr(outputs, "save_encoder", lambda *_: (_ for _ in ()).throw(Killed()))
        train("cut", patience=2, **settings)
    told(0.9, 0.9)  # would be better, but nobody may look
    resumed = rankencoder.train(output=tmp_path / "cut", resume=True, progress=False)
    (stage,) = resumed.record["stages"]
    assert (stage["steps"], stage["best"]) == (4, {"step": 2, "dev": 0.7})
    assert same_weights(whole.encoder, resumed.encoder)
    assert losses(resumed) == losses(whole)


def test_a_batch_of_one_sentence_has_no_list(train, sentences):
    base = str(train("base", only_base=True).folder / "base")
    settings = {"max_steps": 3, "reference_size": 16, "base_encoder": base}
    for listwise in ("listnet", "listmle"):
        run = train(listwise, corpus=sentences[:17], listwise=listwise, **settings)
        last = [entry for entry in run.record["history"] if "loss" in entry][-1]
        assert (last["step"], last[listwise]) == (3, 0)


def test_ten_stages_are_all_in_the_record(train, changes):
    changes(*(1 / (1 + i) for i in range(10)))
    run = train(rounds=10, max_steps=1, only_base=False, **LEARNS)
    assert [stage["stage"] for stage in run.record["stages"]] == list(range(1, 12))
    assert run.record["rounds"]["kept"] == 10


def test_a_run_with_several_teachers_is_evaluated_without_one_e1(train, tiny_folder, tmp_path, sentences):
    run = train(base_encoder=[str(tiny_folder), str(tiny_folder)])
    write_pairs(tmp_path / "dev.tsv", make_pairs(sentences, 60))
    found = rankencoder.evaluate(run.folder, dev=tmp_path / "dev.tsv", tasks=["sts"], cache=False)
    assert [row.system for row in found.rows()] == ["E2 cosine", "E2 ranks", "E2 blend 0.1"]
