"""Files of sentences, on a disk or at any address that fsspec knows: listed, opened, cut into slices."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from rankencoder.errors import InputError
from rankencoder.io.storage import import_pyarrow

Place = str | Path  # or an address such as s3://bucket/corpus.parquet
TABLES = (".jsonl", ".ndjson", ".csv", ".tsv")
_COMPRESSED: dict[str, Any] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda file: io.BufferedReader(import_pyarrow()[0].input_stream(file, compression="zstd")),
}
_OFFICE = "export it as .csv or .txt first"
_IMAGE = "run OCR first, e.g. tesseract"
_FOREIGN = {  # first bytes of files that hold no plain text: what they are, what to do
    b"%PDF-": ("a PDF", "extract its text first, e.g. with pdftotext"),
    b"PK\x03\x04": ("a ZIP archive, as Word and Excel write them", _OFFICE),
    b"\xd0\xcf\x11\xe0": ("an Office document", _OFFICE),
    b"{\\rtf": ("a rich text document", _OFFICE),
    b"SQLite format": ("an SQLite database", _OFFICE),
    b"\x89PNG": ("a PNG image, not text", _IMAGE),
    b"\xff\xd8\xff": ("a JPEG image, not text", _IMAGE),
    b"GIF8": ("a GIF image, not text", _IMAGE),
    b"\xff\xfe": ("UTF-16 text", "convert it first, e.g. with iconv -f utf-16 -t utf-8"),
    b"\xfe\xff": ("UTF-16 text", "convert it first, e.g. with iconv -f utf-16 -t utf-8"),
    b"\x1f\x8b": ("compressed with gzip", "end its name with .gz"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "end its name with .zst"),
}
_SUFFIXES = (".txt", *TABLES, ".parquet")
_SLICE_BYTES = 32 * 2**20
_SLICE_ROWS = 131_072


class Sentence(NamedTuple):
    """A sentence (None if the line is too long), where it came from, and what else its row holds.

    :param types: The Arrow types of its columns, where the file has them.
    """

    text: str | None
    source: str
    line: int
    columns: dict[str, Any] | None = None
    types: dict[str, Any] | None = None

    @property
    def place(self) -> str:
        """Return "file, line 3"."""
        return f"{self.source}, line {self.line}"


class Slice(NamedTuple):
    """A part of a file that can be read by itself.

    :param start: Its first byte (the lines that begin in it are read) or, of Parquet, its first row group.
    :param end: The end of both, None being that of the file.
    :param before: How many lines, or rows, come before it.
    """

    path: Place
    start: int = 0
    end: int | None = None
    before: int = 0


def is_address(place: Any) -> bool:
    """Return whether something is to be found by fsspec, such as ``s3://bucket/corpus.txt``."""
    return isinstance(place, str) and "://" in place


def file_system(place: Place) -> tuple[Any, str]:
    """Return fsspec's file system of a place, and the path in it."""
    import fsspec

    if not is_address(place):
        return fsspec.filesystem("file"), str(Path(place).absolute())
    try:
        return fsspec.core.url_to_fs(place)  # type: ignore[no-any-return]
    except (ImportError, ValueError) as error:
        raise InputError(f"cannot reach {place}: {error}") from error


def whereabouts(place: Place) -> PurePosixPath:
    """Return where a place is, the same for all of its names: to see which lies in which."""
    fs, path = file_system(place)
    protocol = fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
    if protocol not in ("file", "local"):
        return PurePosixPath(f"/{protocol}:", path.strip("/"))
    return PurePosixPath(Path(path).resolve().as_posix())


def list_files(place: Place) -> list[Place]:
    """Return the file at a place, or the files of sentences in a folder there, in order."""
    fs, path = file_system(place)
    found: list[Place]
    with _errors_of(place):
        if not fs.exists(path):
            matching = sorted(fs.glob(path)) if set("*?[") & set(str(place)) else []
            if not matching:
                raise FileNotFoundError
            return [fs.unstrip_protocol(file) if is_address(place) else Path(file) for file in matching]
        if not fs.isdir(path):
            return [place]
        if is_address(place):
            found = [fs.unstrip_protocol(file) for file in fs.find(path)]
        else:
            found = [file for file in Path(place).rglob("*") if file.is_file()]
    files = [file for file in found if bare_suffix(file) in _SUFFIXES]
    if not files:
        raise InputError(f"{place} holds no file to read sentences from (looked for {', '.join(_SUFFIXES)})")
    return sorted(files)


def fingerprint(place: Place) -> list[Any]:
    """Return what changes when a file does: its name, its size, and its time or version."""
    fs, path = file_system(place)
    with _errors_of(place):
        found = fs.info(path)
    names = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")
    return [str(place), found.get("size"), next((str(found[n]) for n in names if n in found), None)]


def bare_suffix(path: Place) -> str:
    """Return the suffix that tells a file's format, in lower case, that of its compression aside."""
    name = PurePosixPath(path)
    name = name.with_suffix("") if name.suffix in _COMPRESSED else name
    return name.suffix.lower()


@contextmanager
def open_file(place: Place) -> Iterator[IO[bytes]]:
    """Open a file to be read, decompressed if its name says that it is compressed."""
    fs, path = file_system(place)
    with ExitStack() as stack:
        with _errors_of(place):
            # a pipe can be opened, but not by fsspec, which seeks its end
            opened = fs.open(path, "rb") if is_address(place) else open(path, "rb")  # noqa: SIM115
            file = stack.enter_context(opened)
            _check_kind(place, file)
            suffix = PurePosixPath(path).suffix
            if unpack := _COMPRESSED.get(suffix):
                file = stack.enter_context(unpack(file))
        try:
            yield file
        except (EOFError, LZMAError, zlib.error, OSError) as error:
            if isinstance(error, OSError) and (error.errno is not None or suffix not in _COMPRESSED):
                raise  # it is the disk or the network, not what is there
            raise InputError(f"{place} is not a whole {suffix} file: {error}") from error


def _check_kind(place: Place, file: Any) -> None:
    """Refuse a file that cannot be text, whatever its name says."""
    head = file.peek(16) if hasattr(file, "peek") else b""
    if PurePosixPath(place).suffix in _COMPRESSED:
        return
    for first, (what, advice) in _FOREIGN.items():
        if head.startswith(first):
            raise InputError(f"{place} is {what}: {advice}")


@contextmanager
def open_parquet(place: Place) -> Iterator[Any]:
    """Open a Parquet file, and let errors of reading it name it."""
    pa, pq = import_pyarrow()
    try:
        with open_file(place) as opened, pq.ParquetFile(opened) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{place} is not a readable Parquet file: {error}") from error


@contextmanager
def _errors_of(place: Place) -> Iterator[None]:
    """Turn the errors of a storage service into one line each."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"no such file or folder: {place}") from None
    except InputError:
        raise
    except Exception as error:  # each service has its own
        raise InputError(f"cannot read {place}: {error}") from error


def read_lines(part: Slice, longest: int) -> Iterator[Sentence]:
    """Yield the lines of UTF-8 that begin in a slice of a file, plain or compressed, split only at newlines.

    :param longest: A line of more bytes is yielded without its text, and never held in memory.
    """
    with open_file(part.path) as file:
        yield from _lines(file, part, longest)


def _lines(file: IO[bytes], part: Slice, longest: int) -> Iterator[Sentence]:
    path, line, place = str(part.path), part.before, part.start
    if place:  # the line that holds the byte before the slice belongs to the slice before
        file.seek(place - 1)
        place += _skip_line(file) - 1
        line += int(place > part.start)
    is_ascii = True
    while (part.end is None or place < part.end) and (raw := file.readline(longest + 2)):
        line += 1
        place += len(raw)
        if len(raw) > longest and not raw.endswith(b"\n"):
            place += _skip_line(file)
            yield Sentence(None, path, line)
            continue
        if line == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in raw:
            raise InputError(f"{path}, line {line}: holds a NUL byte, so this is not a UTF-8 text file")
        try:
            yield Sentence(raw.decode("utf-8"), path, line)
        except UnicodeDecodeError as error:
            what = f"not UTF-8 (byte {raw[error.start]:#04x} at column {error.start + 1})"
            advice = "convert the file, e.g. with iconv -f latin1 -t utf-8"
            if not is_ascii:
                advice = "lines before it are, so the file mixes encodings: fix this line"
            raise InputError(f"{path}, line {line}: {what}; {advice}") from error
        is_ascii = is_ascii and raw.isascii()


def _skip_line(file: IO[bytes]) -> int:
    """Read to the end of a line, and return how many bytes that were."""
    read = 0
    while rest := file.readline(2**20):
        read += len(rest)
        if rest.endswith(b"\n"):
            break
    return read


def cut(place: Place) -> list[Slice]:
    """Cut a file into slices that are read apart: lines by bytes, Parquet by row groups.

    Compressed files and tables with quotes cannot be entered in the middle: they are one slice each.
    """
    suffix = PurePosixPath(place).suffix.lower()
    if suffix == ".parquet":
        return _cut_rows(place)
    if suffix in _COMPRESSED or suffix in (".csv", ".tsv"):
        return [Slice(place)]
    slices, before, start = [], 0, 0
    with open_file(place) as file:
        while found := file.read(_SLICE_BYTES):
            slices.append(Slice(place, start, start + len(found), before))
            before += found.count(b"\n")
            start += len(found)
    return slices


def _cut_rows(place: Place) -> list[Slice]:
    with open_parquet(place) as file:
        rows = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    slices, start, before = [], 0, 0
    for number in range(len(rows)):
        held = sum(rows[start : number + 1])
        if held >= _SLICE_ROWS or number == len(rows) - 1:
            slices.append(Slice(place, start, number + 1, before))
            start, before = number + 1, before + held
    return slices


def file_name(label: str) -> str:
    """Return a label as the name of a file.

    >>> file_name("sentence-transformers/all-MiniLM-L6-v2")
    'sentence-transformers-all-MiniLM-L6-v2'
    """
    return re.sub(r"[^\w.-]+", "-", label).strip("-.") or "model"
