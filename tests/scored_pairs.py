"""Scored pairs for tests, alone and as the sets of the field."""

import numpy as np

from rankencoder.evaluation.sts_data import SEVEN, SUBSETS
from rankencoder.io.pairs import DEV_FILES, ScoredPair


def make_pairs(sentences, number, seed=0):
    """Pairs whose score is the number of shared words, and some noise."""
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(number):
        a, b = (sentences[i] for i in rng.choice(len(sentences), 2, replace=False))
        shared = len(set(a.split()) & set(b.split()))
        pairs.append(ScoredPair(a, b, round(float(np.clip(shared - 1 + rng.normal(), 0, 5)), 2)))
    return pairs


def write_pairs(path, pairs):
    path.write_text("".join(f"{p.score}\t{p.a}\t{p.b}\n" for p in pairs), encoding="utf-8")
    return path


def write_sts(root, sentences):
    """Write all nine sets in the plain layout, small; sub-sets as published."""
    files = [f"{name}/{subset}" for name in SEVEN[:5] for subset in SUBSETS[name]]
    for i, name in enumerate([*files, "STSB/test", "STSB/dev", "SICKR/test", "SICKR/trial"]):
        path = root / f"{name}.tsv"
        path.parent.mkdir(exist_ok=True, parents=True)
        write_pairs(path, make_pairs(sentences, 40 + i, seed=i))
    return root


def write_senteval_dev(downstream, sentences, number=40):
    """Write the dev sets of STS-B and SICK as SentEval has them, and return their pairs."""
    stsb, sick = (make_pairs(sentences, number, seed=seed) for seed in (101, 102))
    rows = [f"main\tMSRvid\t2012\t{i}\t{p.score}\t{p.a}\t{p.b}" for i, p in enumerate(stsb)]
    _write_lines(downstream / "STS/STSBenchmark/sts-dev.csv", rows)
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    rows = [f"{i}\t{p.a}\t{p.b}\t{p.score}\tNEUTRAL" for i, p in enumerate(sick)]
    _write_lines(downstream / "SICK/SICK_trial.txt", [header, *rows])
    return stsb, sick


def write_senteval(downstream, sentences, number=24):
    """Write all sets as SentEval has them, small."""
    write_senteval_dev(downstream, sentences, number)
    for year in SEVEN[:5]:
        for i, subset in enumerate(SUBSETS[year]):
            pairs = make_pairs(sentences, number, seed=int(year[3:]) + i)
            folder = downstream / "STS" / f"{year}-en-test"
            _write_lines(folder / f"STS.input.{subset}.txt", [f"{p.a}\t{p.b}" for p in pairs])
            _write_lines(folder / f"STS.gs.{subset}.txt", [str(p.score) for p in pairs])
    stsb, sick = downstream / DEV_FILES["stsb"], downstream / DEV_FILES["sickr"]
    for other in ("sts-train.csv", "sts-test.csv"):
        stsb.with_name(other).write_bytes(stsb.read_bytes())
    for other in ("SICK_train.txt", "SICK_test_annotated.txt"):
        sick.with_name(other).write_bytes(sick.read_bytes())
    return downstream


def _write_lines(path, lines):
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
