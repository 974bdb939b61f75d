"""Run the paper on causal language models: gemma-3-270m and SmolLM2 by method ``prompteol``.

E1 and E2 as in the paper, ``max(0.05·l_r, l_cl)`` on pairs in [0.5, 0.8], with the last weights: nothing is
chosen but, on STS-B dev, the settings. Each run is a process of its own, several at a time; what is finished
is not done again. Needs the development data (``../shared``, or RANKENCODER_SHARED), and the backbones in the
folders ``gemma`` and ``smollm2`` of ``--work`` (`gguf_backbone.py` makes them)::

    python benchmarks/causal.py --plan
    python benchmarks/causal.py gemma smollm2 --lanes 3          # three seeds each
    python benchmarks/causal.py gemma-1m gemma-100k --lanes 2
    python benchmarks/causal.py 'gemma-lr*' 'gemma-drop*'        # E1 alone, on STS-B dev

Results are ``results/causal/NAME-SEED.json``. The similarities of all pairs, for intervals, are
``WORK/pairs/NAME-SEED.npz``, by system and set.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import shutil
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from encoder_profile import draw_references, profile
from experiment_job import Run, untrained_encoder, write_result
from jobs import STS, Job, add_arguments, corpus_file, run_all

SENTENCES = 131_072
COMMON: dict[str, Any] = {
    "method": "prompteol",
    "dev": [],
    "batch_size": 512,
    "learning_rate": 2e-5,
    "reference_size": 10_000,
    "logging_steps": 1,
    "form": "exact",
    "workers": 3,
    "compile": True,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "lr1e-5": {"learning_rate": 1e-5},
    "lr5e-5": {"learning_rate": 5e-5},
    "lr1e-4": {"learning_rate": 1e-4},
    "drop0": {"options": {"dropout_rate": 0.0}},
    "drop0.2": {"options": {"dropout_rate": 0.2}},
    "b256": {"batch_size": 256},
    "t0.03": {"options": {"temperature": 0.03}},
    "t0.1": {"options": {"temperature": 0.1}},
    "one-prompt": {"options": {"second": 'This sentence : "{text}" means in one word:"'}},
    "thought": {
        "options": {"second": 'After thinking step by step , this sentence : "{text}" means in one word:"'}
    },
}
"""E1 with one setting changed, on half of the sentences, scored on STS-B dev."""

SECONDS = {"both": 170, "second": 110, "first": 70, "untrained": 40, "1m": 700}
"""Seconds that a job may take by itself on one H200 (an estimate)."""


def make_jobs(seed: int) -> list[Job]:
    """Return the jobs of a seed; of variants, and a million sentences, there is one seed."""
    jobs = [_job(name, seed, "both", {"backbone": name}) for name in ("gemma", "smollm2")]
    for name in ("gemma", "smollm2"):
        more = {"base_encoder": [f"{name}-{seed}/base"], "reference_size": 100_000}
        jobs.append(_job(f"{name}-100k", seed, "second", {"backbone": name, **more}, [f"{name}-{seed}"]))
    if seed == 1:
        jobs += [_job(f"{n}-untrained", seed, "untrained", {"backbone": n}) for n in ("gemma", "smollm2")]
        jobs.append(_job("gemma-1m", seed, "1m", {"backbone": "gemma"}))
        jobs[-1].about["sentences"] = 1_000_000
        for name, settings in VARIANTS.items():
            own = {"backbone": "gemma", "only_base": True, **settings}
            jobs.append(_job(f"gemma-{name}", seed, "first", own))
            jobs[-1].about |= {"sets": ["STS-B dev"], "sentences": SENTENCES // 2}
    return jobs


def best_variant(output: Path) -> dict[str, Any]:
    """Return what the variant of E1 that scores highest on STS-B dev changes."""
    found = {}
    for name, settings in VARIANTS.items():
        file = output / f"gemma-{name}-1.json"
        if file.exists():
            told = json.loads(file.read_text(encoding="utf-8"))
            found[name] = told["scores"]["E1 cosine"]["STS-B dev"], settings
    return max(found.values(), key=lambda item: item[0])[1]


def _job(name: str, seed: int, kind: str, settings: dict[str, Any], needs: list[str] | None = None) -> Job:
    about = {"kind": kind, "sentences": SENTENCES, "lane_seconds": SECONDS[kind], "sets": None}
    about["family"] = f"{settings['backbone']} {'untrained' if kind == 'untrained' else 'prompteol'}"
    return Job(name, seed, {**COMMON, **settings}, needs or [], "", about)


def run_job(told: dict[str, Any]) -> None:
    """Train, score and describe, and write what came out."""
    run = Run(told)
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    began = time.perf_counter()
    settings = told["settings"]
    if run.about["kind"] == "untrained":
        first, second = untrained_encoder(run), None
    else:
        from rankencoder.training import execution

        vars(execution)["unlabeled_evaluator"] = lambda _: None  # the last weights
        run.train()
        run.result["losses"] = final_losses(run.folder)
        given = settings.get("base_encoder")
        first = run.work / given[0] if given else run.folder / "base"
        second = None if settings.get("only_base") else run.folder / "encoder"
    with run.timed("measure"):
        measure(run, {"E1": first, **({"E2": second} if second else {})})
    for folder in ("vectors", "rankencoder", "encoder"):
        shutil.rmtree(run.folder / folder, ignore_errors=True)
    run.seconds["all"] = round(time.perf_counter() - began, 1)
    write_result(Path(told["result"]), {**run.result, "seconds": run.seconds}, run.work)


def final_losses(folder: Path) -> dict[str, dict[str, Any]]:
    """Return means over the last tenth of each stage's steps, and how often the rank loss was the larger."""
    from rankencoder.training.run_outputs import rank_share

    history = json.loads((folder / "rankencoder-run.json").read_text(encoding="utf-8"))["history"]
    found = {}
    for stage in (1, 2):
        entries = [entry for entry in history if entry["stage"] == stage and "contrastive" in entry]
        last = entries[-max(1, len(entries) // 10) :]
        names = ("contrastive", "weighted_rank", "pairs", "positive_cosine", "negative_cosine")
        if entries:
            means = {name: fmean(e[name] for e in last) for name in names if name in last[0]}
            share = {"rank_larger": rank_share(entries)} if stage == 2 else {}
            found[f"stage {stage}"] = {**means, **share, "steps": len(entries)}
    return found


def measure(run: Run, encoders: dict[str, Path]) -> None:
    """Score encoders by cosine, ranks, Eq. 7 and centered −¼, overall and by group (Table 5)."""
    import torch
    from pair_groups import similar_pairs

    from rankencoder.encoders import Encoder
    from rankencoder.evaluation.pairwise import encode_pairs
    from rankencoder.evaluation.sts_data import SEVEN, read_sts
    from rankencoder.evaluation.vector_cache import CachedEncoder
    from rankencoder.forms import fit_form

    sets = read_sts(STS, run.about["sets"] or (*SEVEN, "STS-B dev"))
    references = draw_references(run.corpus, run.told["settings"]["reference_size"])
    texts = sorted({text for pair_set in sets for text in pair_set.sentences} | {*references})
    pairs: dict[str, dict[str, np.ndarray]] = {pair_set.name: {} for pair_set in sets}
    run.result |= {"references": len(references), "scores": {}, "profiles": {}}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for role, folder in encoders.items():
        encoder = CachedEncoder(Encoder(folder, batch_size=256), run.folder / "vectors")
        torch.set_float32_matmul_precision("high")  # of the encoder alone: ranks are finer than that
        encoder(texts)
        torch.set_float32_matmul_precision("highest")
        run.result["profiles"][role] = profile(encoder, sets, references)
        reference = encoder(references)
        ranks = fit_form("exact", reference).to(device)
        centered = fit_form("linear", reference, power=-0.25, center=True).to(device)
        for pair_set in sets:
            found = similarities(encode_pairs(encoder, pair_set.pairs), ranks, centered)
            pairs[pair_set.name] |= {f"{role} {kind}": values for kind, values in found.items()}
    for system in next(iter(pairs.values())):
        run.result["scores"][system] = scores({s.name: (s.gold, pairs[s.name][system]) for s in sets})
    groups = {s.name: similar_pairs(s, pairs[s.name]) for s in sets if s.name.startswith("STS-B")}
    run.result["similar-pairs"] = groups
    file = run.work / "pairs" / f"{run.told['name']}-{run.told['seed']}.npz"
    file.parent.mkdir(exist_ok=True)
    kept: Any = {
        f"{system}|{name}": v.astype("<f4") for name, of in pairs.items() for system, v in of.items()
    }
    np.savez_compressed(file, **kept)


def similarities(encoded: Any, ranks: Any, centered: Any) -> dict[str, np.ndarray]:
    """Return the similarities of pairs that the paper compares, and that by a form of its own."""
    from rankencoder.blend import blend
    from rankencoder.evaluation.pairwise import pair_similarities

    cosine, by_rank = pair_similarities(None, encoded), pair_similarities(ranks, encoded)
    linear = pair_similarities(centered, encoded)
    return {
        "cosine": cosine,
        "ranks": by_rank,
        "blend 0.1": blend(by_rank, cosine, 0.1),  # Eq. 7
        "centered -0.25": linear,
    }


def scores(sets: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """Return Spearman's correlation ×100 by set, and the average of the seven."""
    from sts_curves import with_average

    from rankencoder.evaluation.statistics import spearman

    found = {name: [100 * spearman(gold, values)] for name, (gold, values) in sets.items()}
    return {name: values[0] for name, values in with_average(found).items()}


def selected(options: argparse.Namespace) -> list[Job]:
    """Return the jobs that are asked for, those that others need first."""
    patterns = options.names or ["*"]
    every = [job for seed in options.seeds for job in make_jobs(seed)]
    return [job for job in every if any(fnmatch.fnmatch(job.name, pattern) for pattern in patterns)]


def main() -> None:
    """Run one job, or all that are asked for, or say what they are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, work=Path("experiments-work"), output=Path("results/causal"))
    parser.set_defaults(sentences=0)
    parser.add_argument("names", nargs="*", help="jobs of these names, * matching anything; by default all")
    parser.add_argument("--set", default="{}", help="settings of all jobs, as JSON, for a try")
    parser.add_argument("--plan", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--best", action="store_true", help="print the settings of the best variant, as JSON")
    options = parser.parse_args()
    if options.best:
        print(json.dumps(best_variant(options.output)))
        return
    if options.job:
        run_job(json.loads(options.job))
        return
    jobs = selected(options)
    work, output = options.work.resolve(), options.output.resolve()
    for job in jobs:
        job.settings |= json.loads(options.set)
        job.about["sentences"] = options.sentences or job.about["sentences"]
        if options.steps:
            job.settings["max_steps"] = options.steps
        if options.plan:
            state = "done" if (output / f"{job.key}.json").exists() else f"{job.about['lane_seconds']} s"
            print(f"{job.key}  {state}  {json.dumps(job.settings)}")
            continue
        corpus = corpus_file(work, job.about["sentences"])
        job.about |= {"work": str(work), "corpus": str(corpus)}
    if not options.plan:
        until = time.perf_counter() + 60 * options.minutes
        run_all(jobs, __file__, work, output, options.lanes, until)


if __name__ == "__main__":
    main()
