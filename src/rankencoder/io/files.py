"""List, open and slice files of sentences, on disk or at any address that fsspec supports."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from glob import glob
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from rankencoder.errors import InputError
from rankencoder.io.storage import import_pyarrow

Place = str | Path  # a path, or an address such as s3://bucket/corpus.parquet
TABLES = (".jsonl", ".ndjson", ".csv", ".tsv")
COLUMNAR = (".parquet", ".arrow", ".feather")
_COMPRESSED: dict[str, Any] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda file: io.BufferedReader(import_pyarrow()[0].input_stream(file, compression="zstd")),
}
_OFFICE = "export it as .csv or .txt first"
_IMAGE = "run OCR first, e.g. tesseract"
_FOREIGN = {  # first bytes of files that are not plain text: what they are, what to do
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
_SUFFIXES = (".txt", *TABLES, *COLUMNAR)
_SLICE_BYTES = 32 * 2**20
_SLICE_ROWS = 131_072


class Sentence(NamedTuple):
    """A sentence (None if the line is too long), its place, and the other columns of its row.

    :param types: The Arrow types of the columns, where the file has types.
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
    """A part of a file that can be read on its own: the lines that begin between two bytes, or row groups.

    :param start: Its first byte or, in a Parquet file, its first row group.
    :param end: The end of that range; None for the end of the file.
    :param before: The number of lines, or rows, before it.
    """

    path: Place
    start: int = 0
    end: int | None = None
    before: int = 0


def is_address(place: Any) -> bool:
    """Return whether this is an address for fsspec, such as ``s3://bucket/corpus.txt``."""
    return isinstance(place, str) and "://" in place


def file_system(place: Place) -> tuple[Any, str]:
    """Return the fsspec file system of a place, and the path in it."""
    import fsspec

    if not is_address(place):
        return fsspec.filesystem("file"), str(Path(place).absolute())
    try:
        return fsspec.core.url_to_fs(place)  # type: ignore[no-any-return]
    except (ImportError, ValueError) as error:
        raise InputError(f"cannot reach {place}: {error}") from error


def check_apart(source: Place, target: Place) -> None:
    """Raise an error if a target is its input, lies in it or contains it."""
    places = []
    for fs, path in map(file_system, (source, target)):
        protocol = fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
        local = protocol in ("file", "local")
        places.append(Path(path).resolve() if local else Path(f"/{protocol}:", path.strip("/")))
    read, written = places
    if read == written or read in written.parents or written in read.parents:
        raise InputError(f"{target} overlaps with the input {source}: write it somewhere else")


def list_files(place: Place) -> list[Place]:
    """Return the file at a place, or the files of sentences in a folder, in order."""
    fs, path = file_system(place)
    found: list[Place]
    with _errors_of(place):
        if not fs.exists(path):
            if is_address(place):
                found = [fs.unstrip_protocol(file) for file in fs.glob(path)]
            else:
                found = list(map(Path, glob(str(place), recursive=True)))
            if not found:
                raise FileNotFoundError
            return sorted(found)
        if not fs.isdir(path):
            return [place]
        if is_address(place):
            found = [fs.unstrip_protocol(file) for file in fs.find(path)]
        else:
            found = [file for file in Path(place).rglob("*") if file.is_file()]
    files = [file for file in found if bare_suffix(file) in _SUFFIXES]
    if not files:
        raise InputError(f"no file of sentences in {place} (looked for {', '.join(_SUFFIXES)})")
    return sorted(files)


def fingerprint(place: Place) -> list[Any]:
    """Return a fingerprint of a file: its name, size, and time or version."""
    fs, path = file_system(place)
    with _errors_of(place):
        found = fs.info(path)
    names = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")
    return [str(place), found.get("size"), next((str(found[n]) for n in names if n in found), None)]


def bare_suffix(path: Place) -> str:
    """Return the suffix of a file's format, in lower case and without that of its compression."""
    name = PurePosixPath(path)
    name = name.with_suffix("") if name.suffix.lower() in _COMPRESSED else name
    return name.suffix.lower()


@contextmanager
def open_file(place: Place) -> Iterator[IO[bytes]]:
    """Open a file for reading; decompress it if its name says that it is compressed."""
    fs, path = file_system(place)
    with ExitStack() as stack:
        with _errors_of(place):
            # not by fsspec, which cannot open pipes
            opened = fs.open(path, "rb") if is_address(place) else open(path, "rb")  # noqa: SIM115
            file, suffix = stack.enter_context(opened), PurePosixPath(path).suffix.lower()
            if unpack := _COMPRESSED.get(suffix):
                file = stack.enter_context(unpack(file))
            elif hasattr(file, "peek"):
                head = file.peek(16)
                for first, (what, advice) in _FOREIGN.items():
                    if head.startswith(first):
                        raise InputError(f"{place} is {what}: {advice}")
        try:
            yield file
        except (EOFError, LZMAError, zlib.error, OSError) as error:
            if isinstance(error, OSError) and (error.errno is not None or suffix not in _COMPRESSED):
                raise  # an error of the disk or network
            raise InputError(f"{place} is not a complete {suffix} file: {error}") from error


@contextmanager
def open_parquet(place: Place) -> Iterator[Any]:
    """Open a Parquet or Arrow file; read errors name it."""
    pa, pq = import_pyarrow()
    is_parquet = PurePosixPath(place).suffix.lower() == ".parquet"
    try:
        with open_file(place) as opened:
            yield pq.ParquetFile(opened) if is_parquet else _ArrowFile(pa.ipc.open_file(opened))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        kind = "Parquet" if is_parquet else "Arrow"
        raise InputError(f"{place} is not a readable {kind} file: {error}") from error


class _ArrowFile:
    """An Arrow file that reads like a `ParquetFile`; its record batches are the row groups."""

    def __init__(self, reader: Any) -> None:
        self.schema_arrow, self.num_row_groups = reader.schema, reader.num_record_batches
        self.metadata, self.row_group = self, reader.get_batch

    @property
    def num_rows(self) -> int:
        return sum(self.row_group(i).num_rows for i in range(self.num_row_groups))

    def iter_batches(
        self, batch_size: int, row_groups: list[int] | None = None, columns: list[str] | None = None
    ) -> Iterator[Any]:
        for i in range(self.num_row_groups) if row_groups is None else row_groups:
            batch = self.row_group(i).select(columns or self.schema_arrow.names)
            yield from (batch.slice(start, batch_size) for start in range(0, batch.num_rows, batch_size))


@contextmanager
def _errors_of(place: Place) -> Iterator[None]:
    """Turn the errors of a storage service into one line each."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"no such file or folder: {place}") from None
    except InputError:
        raise
    except Exception as error:  # each service has its own errors
        raise InputError(f"cannot read {place}: {error}") from error


def read_lines(part: Slice, longest: int) -> Iterator[Sentence]:
    """Yield the UTF-8 lines that begin in a slice of a file, plain or compressed. Only newlines end them.

    :param longest: A line of more bytes is yielded without its text, and never held in memory.
    """
    path, line, place, is_ascii = str(part.path), part.before, part.start, True
    with open_file(part.path) as file:
        if place:  # the line of the byte before the slice belongs to the previous slice
            file.seek(place - 1)
            place += _skip_line(file) - 1
            line += int(place > part.start)
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
                raise InputError(f"{path}, line {line}: a NUL byte, so this is not a UTF-8 text file")
            try:
                yield Sentence(raw.decode("utf-8"), path, line)
            except UnicodeDecodeError as error:
                what = f"not UTF-8 (byte {raw[error.start]:#04x} at column {error.start + 1})"
                advice = "convert the file, e.g. with iconv -f latin1 -t utf-8"
                if not is_ascii:
                    advice = "earlier lines are, so the file mixes encodings: fix this line"
                raise InputError(f"{path}, line {line}: {what}; {advice}") from error
            is_ascii = is_ascii and raw.isascii()


def _skip_line(file: IO[bytes]) -> int:
    """Read to the end of a line and return the number of bytes."""
    read = 0
    while rest := file.readline(2**20):
        read += len(rest)
        if rest.endswith(b"\n"):
            break
    return read


def cut(place: Place) -> list[Slice]:
    """Cut a file into slices: lines by bytes, Parquet by row groups.

    Compressed files and CSV cannot be read from the middle: they are one slice each.
    """
    suffix = PurePosixPath(place).suffix.lower()
    if suffix in _COMPRESSED or suffix in (".csv", ".tsv"):
        return [Slice(place)]
    slices, before, start, held = [], 0, 0, 0
    if suffix in COLUMNAR:
        with open_parquet(place) as file:
            for number in range(file.num_row_groups):
                held += file.metadata.row_group(number).num_rows
                if held >= _SLICE_ROWS or number == file.num_row_groups - 1:
                    slices.append(Slice(place, start, number + 1, before))
                    start, before, held = number + 1, before + held, 0
        return slices
    with open_file(place) as file:
        while found := file.read(_SLICE_BYTES):
            slices.append(Slice(place, start, start + len(found), before))
            before += found.count(b"\n")
            start += len(found)
    return slices


def file_name(label: str) -> str:
    """Turn a label into a file name.

    >>> file_name("sentence-transformers/all-MiniLM-L6-v2")
    'sentence-transformers-all-MiniLM-L6-v2'
    """
    return re.sub(r"[^\w.-]+", "-", label).strip("-.") or "model"
