"""The real thing: all-MiniLM-L6-v2 on the STS sets and Wikipedia sentences of ../shared.

Expected figures: plain cosine as published by mteb; rank similarities as measured by an earlier prototype.
"""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sts import wiki_sentences

from rankencoder import RankEncoder, Reference, evaluate
from rankencoder.evaluation.sts_data import read_sts
from rankencoder.forms import fit_form

COSINE = {"STS12": 72.37, "STS13": 80.58, "STS14": 75.60, "STS15": 85.39, "STS16": 78.99, "STS-B": 82.03}


@pytest.fixture(scope="module")
def reference(shared, minilm):
    short = [
        sentence for sentence in wiki_sentences(60_000) if len(sentence) < 80
    ]  # which are encoded sooner
    return Reference.build(minilm, short, size=3_000)


@pytest.fixture(scope="module")
def model(minilm, reference):
    return RankEncoder(minilm, reference, form="exact", rank_weight=1.0, progress=False)


@pytest.fixture(scope="module")
def stsb(shared, minilm):
    pairs = stsb_pairs(shared)
    texts = sorted({text for pair in pairs for text in pair[:2]})
    vectors = dict(zip(texts, minilm(texts), strict=True))
    a, b = (torch.stack([vectors[pair[i]] for pair in pairs]) for i in (0, 1))
    return [pair.score for pair in pairs], a, b


def stsb_pairs(shared):
    return read_sts(shared / "data/sts-raw", ["STS-B"])[0].pairs


def score(scores, a, b):
    return 100 * float(spearmanr(scores, (a * b).sum(dim=1)).statistic)


def test_forms_keep_the_exact_similarities(model, stsb):
    """All pairs of 1,000 STS-B sentences: the fidelity of each form, and its STS-B score."""
    vectors = torch.cat([stsb[1], stsb[2]]).unique(dim=0)
    vectors = vectors[torch.randperm(len(vectors), generator=torch.Generator().manual_seed(0))[:1000]]
    exact = model.form(vectors)
    above = np.triu_indices(1000, k=1)
    true = (exact @ exact.T).numpy()[above]
    found = {"exact": score(stsb[0], model.form(stsb[1]), model.form(stsb[2]))}
    for name, at_least in (("compact", 0.999), ("linear", 0.995)):
        form = fit_form(name, model.form.reference)
        parts = form(vectors)
        assert spearmanr((parts @ parts.T).numpy()[above], true).statistic >= at_least
        found[name] = score(stsb[0], form(stsb[1]), form(stsb[2]))
    assert found["exact"] == pytest.approx(79.92, abs=0.4)  # with 10,000 references, not 3,000
    assert found["compact"] == pytest.approx(found["exact"], abs=0.3)
    assert found["linear"] == pytest.approx(found["exact"], abs=0.3)


def test_stsb_by_plain_cosine_is_the_published_figure(stsb):
    assert score(*stsb) == pytest.approx(82.03, abs=0.05)


def test_counting_is_what_ranks_real_sentences(model, stsb):
    from rankencoder import ranks

    similarities = stsb[1][:200] @ model.form.reference.T
    for tolerance in (ranks.TOLERANCE, ranks.COARSE):
        bins = ranks._number_of_bins(10_000, tolerance)
        cubes, bursts = ranks._rank_by_counting(similarities, torch.empty_like(similarities), bins)
        few = cubes > ranks._cubes_limit(10_000, tolerance)
        assert (few | (bursts > ranks._bursts_limit(10_000, bins))).float().mean() < 0.05


def test_blend_through_the_front_door(model, shared):
    """Eq. 7 from sentences, for a few real pairs: scipy's Spearman and sentence-transformers' cosine."""
    blended = model.with_form("exact")
    blended.rank_weight = 0.25
    base = model.encoder.model
    for x, y, *_ in stsb_pairs(shared)[:5]:
        left, right = base.encode([x, y], normalize_embeddings=True).astype(np.float64)
        references = model.reference.vectors.astype(np.float64)
        rho = spearmanr(references @ left, references @ right).statistic
        assert blended.similarity(x, y)[0, 0] == pytest.approx(0.25 * rho + 0.75 * left @ right, abs=1e-6)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Vectors of sentences that are in both layouts."""
    return tmp_path_factory.mktemp("vectors")


@pytest.mark.parametrize("layout", ["sts-raw", "senteval"])
def test_sts16_is_the_published_figure_from_both_layouts(shared, minilm, cache, layout):
    given = {"tasks": ["STS16"], "cache": cache, "progress": False}
    evaluation = evaluate(minilm.model, data=shared / "data" / layout, **given)
    (scores,) = evaluation.scores().values()
    assert scores["STS16"] == pytest.approx(COSINE["STS16"], abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["sts-raw", "senteval"])
def test_seven_sts_sets(shared, minilm, tmp_path, layout):
    """Plain cosine as published by mteb, and the average of the rank similarities with 20,000 references."""
    reference = Reference.build(minilm, wiki_sentences(60_000), size=20_000)
    model = RankEncoder(minilm, reference, form="exact", progress=False)
    evaluation = evaluate(model, data=shared / "data" / layout, tasks=["sts"], cache=False, progress=False)
    cosine, ranks, _ = evaluation.scores().values()
    print({name: (round(cosine[name], 2), round(ranks[name], 2)) for name in cosine})
    for name, expected in COSINE.items():
        assert cosine[name] == pytest.approx(expected, abs=0.1), name
    assert cosine["AVG"] == pytest.approx(78.87, abs=0.1)
    assert ranks["AVG"] == pytest.approx(77.65, abs=0.15)
