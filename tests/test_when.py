"""Rules for choosing a similarity, on encoders and spaces where the best choice is known."""

import json

import numpy as np
import pytest
import torch
from encoder_profile import agreement, profile, relations, similarities, space_features
from sts_curves import power_curve
from vector_spaces import describe_space
from when import (
    CHOICES,
    COSINE,
    FEATURES,
    POWERS,
    PROXIES,
    RESULTS,
    Encoders,
    Threshold,
    guard,
    guarded,
    halves,
    judge,
    left_out,
    main,
    read,
    threshold,
)

import rankencoder
from rankencoder.encoders import Encoder
from rankencoder.evaluation.halves import LEAST_SHARE
from rankencoder.evaluation.sts_data import read_pair_set
from rankencoder.evaluation.subjects import open_subjects
from rankencoder.evaluation.vector_cache import CachedEncoder

LOW, HIGH = CHOICES.index("centered -0.25"), CHOICES.index("plain +0.5")


def made_up(*, learnable, families=12, each=4, seed=0):
    """Encoders whose best similarity depends on the uniformity, or on nothing that can be seen."""
    random = np.random.default_rng(seed)
    number = families * each
    names = np.repeat([f"family {i}" for i in range(families)], each)
    narrow = np.repeat(np.arange(families) % 2 == 0, each)
    seen = narrow if learnable else np.repeat(random.random(families) < 0.5, each)
    features = random.normal(size=(number, len(FEATURES)))
    features[:, 0] = np.where(seen, -1.0, -3.0) + 0.3 * random.normal(size=number)
    gains = -2 + 0.1 * random.normal(size=(number, len(CHOICES)))
    gains[:, COSINE] = 0
    gains[:, LOW] = np.where(narrow, 2.0, -2.0) + 0.1 * random.normal(size=number)
    gains[:, HIGH] = np.where(narrow, -2.0, 2.0) + 0.1 * random.normal(size=number)
    proxies = 1 + random.random((number, len(PROXIES), len(CHOICES)))
    return Encoders([str(i) for i in range(number)], names, features, proxies, gains)


def test_a_rule_that_can_be_learnt_is_found_and_beats_every_safe_choice():
    encoders = made_up(learnable=True)
    found = judge(encoders)
    assert found["works"]
    assert "better than any safe choice" in found["verdict"]
    assert found["rules"]["selected"]["gain"] == pytest.approx(2, abs=0.2)
    assert found["rules"]["selected"]["regret"] == pytest.approx(0, abs=0.2)
    learned = threshold(encoders)
    assert learned.feature == "uniformity"
    assert -2.9 < learned.threshold < -1.1
    assert (learned.above, learned.below) == (CHOICES[LOW], CHOICES[HIGH])
    assert found["rules"]["always cosine"]["gain"] == 0
    assert found["rules"]["oracle"]["regret"] == 0


def test_where_nothing_can_be_learnt_no_rule_is_claimed():
    found = judge(made_up(learnable=False, seed=1))
    assert not found["works"]
    assert "No rule is significantly better" in found["verdict"]


def test_a_family_is_judged_by_what_the_others_taught():
    encoders = made_up(learnable=True)
    changed = encoders.gains.copy()
    own = encoders.families == "family 0"
    changed[own] = 50  # what the rule would love to have seen
    changed[own, LOW] = -50
    found = judge(Encoders(encoders.names, encoders.families, encoders.features, encoders.proxies, changed))
    choices = np.array(found["rules"]["threshold"]["choices"])
    assert set(choices[own]) == {CHOICES[LOW]}


def test_a_rule_that_fails_on_other_backbones_is_not_claimed():
    encoders = made_up(learnable=True)
    other = made_up(learnable=True, families=2, seed=2)
    names = np.array([f"another {name}" for name in other.families])
    turned = other.gains.copy()
    turned[:, [LOW, HIGH]] = other.gains[:, [HIGH, LOW]]  # on this backbone it is the other way round
    parts = [(encoders.families, names), (encoders.features, other.features)]
    parts += [(encoders.proxies, other.proxies), (encoders.gains, turned)]
    found = judge(Encoders([*encoders.names, *other.names], *(np.concatenate(pair) for pair in parts)))
    assert found["left_out_backbones"]["selected"] < 0
    assert not found["works"]


def test_families_count_alike():
    encoders = made_up(learnable=True, families=4)
    twice = encoders.only(np.ones(len(encoders), dtype=bool))
    rows = [*range(len(encoders)), *([0] * 100)]
    more = Encoders(
        [twice.names[i] for i in rows],
        twice.families[rows],
        twice.features[rows],
        twice.proxies[rows],
        twice.gains[rows],
    )
    assert more.weights().sum() == pytest.approx(1)
    assert more.weights()[more.families == "family 0"].sum() == pytest.approx(0.25)


def space(noise, number=1500, seed=0):
    """Vectors of meanings in eight directions, beside directions of noise, and of related meanings."""
    random = np.random.default_rng(seed)

    def seen(meaning):
        rows = np.concatenate([meaning, random.normal(size=(len(meaning), len(noise))) * noise], axis=1)
        return torch.nn.functional.normalize(torch.from_numpy(rows).float(), dim=1)

    meaning, other = random.normal(size=(2, number, 8))
    extent = random.random((number, 1))
    related = extent * meaning + np.sqrt(1 - extent**2) * other
    return seen(random.normal(size=(5000, 8))), seen(meaning), seen(related), extent[:, 0]


@pytest.mark.parametrize(("noise", "sign"), [([6.0, 5.0], -1), ([0.4] * 100, 1)])
def test_related_sentences_tell_which_power_is_best(noise, sign):
    reference, first, second, extent = space(noise)
    found = agreement(torch.cat([first, second]), extent, similarities(reference))
    powers = {power: found[f"centered {power:+g}"] for power in (-0.25, 0.25)}
    assert powers[sign * 0.25] > found["cosine"] > powers[-sign * 0.25]
    assert set(CHOICES) <= set(found)
    assert found["plain +0.5"] == pytest.approx(found["ranks"], abs=3)  # Pearson in place of Spearman


def test_parts_of_a_sentence_are_parts_of_it():
    texts = [f"one two three four five six seven eight {i}" for i in range(50)]
    found = relations(texts)
    for text, (whole, left, share) in zip(texts, found["dropped"], strict=True):
        assert whole == text
        assert 0 < share == len(left.split()) / 9 < 1
        assert [word for word in text.split() if word in left.split()] == left.split()
    assert all(f"{a} {b}" == text for text, (a, b, _) in zip(texts, found["halves"], strict=True))
    assert relations(texts) == found


def test_features_are_numbers_that_describe_the_space():
    wide = torch.nn.functional.normalize(torch.randn(2000, 16, generator=torch.manual_seed(0)), dim=1)
    narrow = torch.nn.functional.normalize(wide + 3 * torch.ones(16) / 4, dim=1)
    a, b = space_features(wide), space_features(narrow)
    assert all(np.isfinite(value) for value in (*a.values(), *b.values()))
    assert a["participation_ratio"] == pytest.approx(16, rel=0.05)
    assert a["relative_rank"] == pytest.approx(1, abs=0.02)
    assert b["mean_norm"] > 0.9 > a["mean_norm"]
    assert b["uniformity"] > a["uniformity"]
    assert set(FEATURES) - set(a) == {"alignment_dropped", "alignment_halves"}


def test_a_profile_agrees_with_the_evaluation(callable_encoder, sentences, tmp_path):
    random = np.random.default_rng(0)
    sentences = [f"{text} here and now" for text in sentences]
    drawn = random.integers(0, len(sentences), (200, 2))
    lines = [f"{random.random() * 5:.2f}\t{sentences[a]}\t{sentences[b]}" for a, b in drawn]
    file = tmp_path / "STS-B mine.tsv"
    file.write_text("\n".join(lines))
    found = profile(CachedEncoder(Encoder(callable_encoder), None), [read_pair_set(file)], sentences)
    evaluation = rankencoder.evaluate(
        callable_encoder, dev=file, tasks=["sts"], corpus=sentences, size=1200, cache=False
    )
    result = evaluation.results[0]
    scores = {name: of["STS-B mine"] for name, of in found["scores"].items()}
    for system in ("cosine", "ranks", "blend 0.1"):
        assert scores[system] == pytest.approx(result["sts"][system]["scores"]["STS-B mine"]["all"], abs=0.01)
    sets = [read_pair_set(file)]
    subject = open_subjects(callable_encoder, corpus=sentences, size=1200).subjects[0]
    curve = power_curve(subject, sets)
    for i, power in enumerate(POWERS):
        expected = curve["centered"]["STS-B mine"][i]
        assert scores[f"centered {power:+g}"] == pytest.approx(expected, abs=0.01)
    space = describe_space(subject, sets[0])["base"]
    assert found["space"]["STS-B mine"]["uniformity"] == pytest.approx(space["uniformity"])
    assert set(FEATURES) <= found["features"].keys()
    assert set(CHOICES) <= found["proxies"]["dropped"].keys() & scores.keys()
    assert len(found["eigenvalues"]) == 16


def test_the_program_reads_profiles_and_writes_what_it_found(tmp_path, capsys):
    encoders = made_up(learnable=True, families=6, each=2)
    for i, name in enumerate(encoders.names):
        profile = {
            "features": dict(zip(FEATURES, encoders.features[i].tolist(), strict=True)),
            "proxies": {
                of: dict(zip(CHOICES, encoders.proxies[i, j].tolist(), strict=True))
                for j, of in enumerate(PROXIES)
            },
            "scores": {c: {"AVG": 60 + g} for c, g in zip(CHOICES, encoders.gains[i].tolist(), strict=True)},
        }
        result = {"group": "when", "name": name, "seed": 1, "family": str(encoders.families[i])}
        (tmp_path / "runs/when").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"runs/when/{name}-1.json").write_text(
            json.dumps({**result, "profiles": {"E1": profile}})
        )
    main(["--runs", str(tmp_path / "runs"), "--json", str(tmp_path / "when.json")])
    assert "12 encoders of 6 families" in capsys.readouterr().out
    found = json.loads((tmp_path / "when.json").read_text())
    assert Threshold(**found["threshold"]).feature == "uniformity"
    main(["--runs", str(tmp_path / "none"), "--json", str(tmp_path / "none.json")])
    assert "nothing can be said" in capsys.readouterr().out
    assert not (tmp_path / "none.json").exists()


def test_halves_are_heeded_where_they_did_good():
    encoders = made_up(learnable=True)
    shares = encoders.features[:, FEATURES.index("first_ten_share")]
    much = encoders.gains[:, LOW] > 0
    shares[:] = np.where(much, 0.4, 0.2)
    encoders.proxies[:, PROXIES.index("halves"), LOW] = 60  # for all of them, rightly or not
    assert 0.2 < guard(encoders) < 0.4
    choices, gains = left_out(guarded, encoders)
    assert [CHOICES[i] for i in choices] == [CHOICES[LOW] if good else "cosine" for good in much]
    assert gains.min() == 0
    assert left_out(halves, encoders)[1].min() < -1  # which heeds them always


def test_our_advice_has_the_threshold_that_was_measured():
    found = json.loads((RESULTS / "when.json").read_text())
    assert round(found["guard"], 2) == LEAST_SHARE
    assert found["encoders"] == read(RESULTS / "runs").names
