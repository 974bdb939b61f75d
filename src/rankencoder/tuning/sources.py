"""What can be tuned, and on what: models and scored pairs in all the shapes that they come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError
from rankencoder.io.corpus import check_sentences
from rankencoder.io.pairs import ScoredPair, read_scored_pairs, to_score, told_at
from rankencoder.io.storage import RUN
from rankencoder.persistence import CONFIG

if TYPE_CHECKING:
    from rankencoder.encoders import EncoderLike
    from rankencoder.model import RankEncoder

    Pairs = str | Path | Iterable[ScoredPair]
    Dev = Pairs | Sequence[Pairs] | Mapping[str, Pairs]


def read_dev(dev: Dev) -> dict[str, list[ScoredPair]]:
    """Return the scored pairs of one or several sets by name: files by their path, others by number.

    :raises InputError: If a file or pair is not usable, or a set is given twice.
    """
    found: dict[str, list[ScoredPair]] = {}
    for name, one in _named(dev):
        if name in found:
            raise InputError(f"{name} is given twice: each set of pairs counts once")
        is_file = isinstance(one, (str, Path))
        found[name] = read_scored_pairs(one) if is_file else [_checked(name, pair) for pair in one]
    return found


def _named(dev: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(dev, Mapping):
        yield from dev.items()
        return
    given = [dev] if isinstance(dev, (str, Path)) else list(dev)
    if given and isinstance(given[0], ScoredPair):
        given = [given]
    for number, one in enumerate(given, start=1):
        yield (str(one) if isinstance(one, (str, Path)) else f"set {number}"), one


def _checked(name: str, pair: Any) -> ScoredPair:
    with told_at(name):
        try:
            a, b, score = pair
        except (TypeError, ValueError):
            got = str(pair)[:80]
            raise InputError(f"expected pairs (sentence, sentence, score), got {got!r}") from None
        check_sentences([a, b])
        return ScoredPair(a, b, to_score(score))


def open_model(
    model: RankEncoder | EncoderLike,
    corpus: Any,
    *,
    size: int,
    device: str | None,
    batch_size: int,
    progress: bool,
) -> RankEncoder:
    """Return the RankEncoder to tune: given, saved, trained, or made of an encoder and a corpus.

    :raises InputError: If there is none, an encoder comes without a corpus, or a RankEncoder with one.
    """
    folder = check_source(model, corpus)
    from rankencoder.encoders import Encoder
    from rankencoder.model import RankEncoder
    from rankencoder.reference import Reference

    if folder is not None:
        return RankEncoder.load(folder, device=device, batch_size=batch_size)
    if isinstance(model, RankEncoder):
        return model
    encoder = Encoder(model, device=device, batch_size=batch_size)
    reference = Reference.build(encoder, corpus, size=size, progress=progress)
    return RankEncoder(encoder, reference, progress=False)


def check_source(model: RankEncoder | EncoderLike, corpus: Any) -> Path | None:
    """Make sure that there is one reference corpus, and no more, before anything is loaded.

    :return: The folder of a saved RankEncoder.
    :raises InputError: If an encoder comes without a corpus, or a RankEncoder with one.
    """
    folder, is_ranked = None, False
    if isinstance(model, (str, Path)):
        folder = _saved(Path(model))
    else:
        from rankencoder.model import RankEncoder

        is_ranked = isinstance(model, RankEncoder)
    if folder is None and not is_ranked:
        if corpus is None:
            what = model if isinstance(model, (str, Path)) else type(model).__name__
            raise InputError(f"{what} is no RankEncoder: for a plain encoder, give a corpus of sentences too")
    elif corpus is not None:
        raise InputError("a RankEncoder has its own reference corpus: leave the corpus out")
    return folder


def _saved(folder: Path) -> Path | None:
    """Return the folder of a saved RankEncoder, be it a training's."""
    if not (folder / RUN).exists():
        return folder if (folder / CONFIG).exists() else None
    inside = folder / "rankencoder"
    if not (inside / CONFIG).exists():
        raise InputError(
            f"the training in {folder} has no RankEncoder (not finished, or of the base only): give "
            f"{folder / 'base'} and a corpus"
        )
    return inside
