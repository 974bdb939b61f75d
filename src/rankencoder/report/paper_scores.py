"""The figures that the RankEncoder paper publishes, to be seen next to one's own.

All are of BERT-base (`bert-base-uncased`), unsupervised; Spearman's correlation ×100 unless said otherwise.
"""

from __future__ import annotations

SOURCE = (
    "Seonwoo, Wang, Seo, Choudhary, Li, Li, Xu, Park, Oh: Ranking-Enhanced Unsupervised Sentence "
    "Representation Learning, ACL 2023"
)
NOT_COMPARABLE = (
    "The published figures are of BERT-base, another backbone, trained without labels: compare gains with "
    "gains, not scores with scores."
)

STS: dict[str, tuple[float, ...]] = {
    "ConSERT": (64.64, 78.49, 69.07, 79.72, 75.95, 73.97, 67.31, 72.74),
    "SimCSE": (68.40, 82.41, 74.38, 80.91, 78.56, 76.85, 72.23, 76.25),
    "DCLR": (70.81, 83.73, 75.11, 82.56, 78.44, 78.31, 71.59, 77.22),
    "ESimCSE": (73.40, 83.27, 77.25, 82.66, 78.81, 80.17, 72.30, 78.27),
    "DiffCSE": (72.28, 84.43, 76.47, 83.90, 80.54, 80.59, 71.23, 78.49),
    "PromptBERT": (71.56, 84.58, 76.98, 84.47, 80.60, 81.60, 69.87, 78.54),
    "SNCSE": (70.67, 84.79, 76.99, 83.69, 80.51, 81.35, 74.77, 78.97),
    "RankEncoder (of SNCSE)": (74.88, 85.59, 78.61, 83.50, 80.56, 81.55, 75.78, 80.07),
}
"""Main table: STS12 to STS16, STS-B, SICK-R, average."""

Spread = tuple[float, float]


def _spreads(text: str) -> tuple[Spread, ...]:
    pairs = (figure.split("±") for figure in text.split())
    return tuple((float(mean), float(spread)) for mean, spread in pairs)


STS_SEEDS: dict[str, tuple[Spread, ...]] = {
    "SimCSE": _spreads("68.1±3.3 81.4±1.6 73.8±2.4 81.8±1.4 78.3±0.6 77.3±2.3 71.0±0.4 76.0±1.5"),
    "SimCSE + RankEncoder": _spreads(
        "75.0±0.6 82.0±0.7 75.2±0.2 83.0±0.1 79.8±0.1 80.4±0.6 71.1±1.2 78.1±0.1"
    ),
    "PromptBERT": _spreads("72.1±0.2 84.6±0.3 76.8±0.1 84.2±0.3 80.4±0.3 81.8±0.3 69.5±0.2 78.5±0.0"),
    "PromptBERT + RankEncoder": _spreads(
        "74.2±0.3 85.2±0.2 77.7±0.2 84.4±0.3 80.7±0.5 82.1±0.4 71.2±0.2 79.4±0.2"
    ),
    "SNCSE": _spreads("70.2±0.5 84.1±0.5 77.1±0.4 83.2±0.5 80.7±0.1 80.7±0.6 75.0±0.1 78.7±0.3"),
    "SNCSE + RankEncoder": _spreads(
        "73.9±0.6 84.5±0.5 78.0±0.3 83.0±0.5 81.0±0.2 81.2±0.2 75.3±0.1 79.6±0.2"
    ),
}
"""Three seeds, mean and standard deviation, the same columns."""

BASES = ("SimCSE", "PromptBERT", "SNCSE")

SIMILAR_PAIRS: dict[str, tuple[float, float, float]] = {
    "E1: the base encoder": (44.59, 49.56, 48.19),
    "E1 ranks: RankEncoder without training": (46.73, 50.06, 49.44),
    "E2: retrained": (48.41, 50.75, 49.80),
    "E2 blend: retrained, weighted inference": (48.73, 50.93, 49.92),
}
"""Table 5: the similar pairs of STS-B (gold/5 of 0.67 to 1), by base encoder."""

SPACE: dict[str, tuple[Spread, Spread]] = {
    "SimCSE": ((-2.42, 0.21), (-3.23, 0.23)),
    "PromptBERT": ((-1.49, 0.11), (-3.31, 0.22)),
    "SNCSE": ((-2.21, 0.16), (-3.20, 0.21)),
}
"""Table 2: uniformity and alignment on STS-B, of the base vectors and of the rank vectors."""

TRANSFER: dict[str, tuple[float, ...]] = {
    "SimCSE": (81.18, 86.46, 94.45, 88.88, 85.50, 89.80, 74.43, 85.81),
    "SimCSE with MLM": (82.92, 87.23, 95.71, 88.73, 86.81, 87.01, 78.07, 86.64),
    "RankEncoder of SimCSE with MLM": (82.14, 87.31, 95.35, 89.05, 86.66, 91.00, 76.06, 86.80),
}
"""Table 3: accuracy in per cent on MR, CR, SUBJ, MPQA, SST-2, TREC, MRPC, average."""
