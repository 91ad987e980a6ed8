"""CSV, TSV, JSONL and Parquet files, gz or not, read into numbered rows."""

import csv
import gzip
import hashlib
import io
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from model.errors import DataError

# Values are Any: a JSON or Parquet cell may hold anything until model.data.rows has looked at it.
Row = tuple[int, dict[str, Any]]
ENDINGS = ("csv", "tsv", "jsonl", "parquet")


def ending(path: Path) -> str | None:
    """csv, tsv, jsonl or parquet, whatever gz follows; None for any other file."""
    suffixes = [suffix.lstrip(".").lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == "gz":
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in ENDINGS else None


def read_rows(path: Path) -> tuple[list[Row], str]:
    """All rows of a file, numbered as an editor shows them, and the file's sha256.

    Raises:
        DataError: unreadable, empty, not UTF-8, or a row that is not what its ending says.
    """
    kind = ending(path)
    if kind is None:
        raise DataError(
            f"{path} ends in none of {', '.join('.' + name for name in ENDINGS)} (or these with "
            ".gz): rename or convert it"
        )
    try:
        stored = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    content = _gunzip(path, stored) if path.suffix.lower() == ".gz" else stored
    readers = {"csv": _csv_rows, "tsv": _tsv_rows, "jsonl": _jsonl_rows, "parquet": _parquet_rows}
    rows = list(readers[kind](path, content))
    if not rows:
        raise DataError(f"{path} has no rows")
    return rows, hashlib.sha256(stored).hexdigest()


def _gunzip(path: Path, stored: bytes) -> bytes:
    try:
        return gzip.decompress(stored)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file: {error}") from None


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8; "
            "convert the file to UTF-8 first"
        ) from None


def _csv_rows(path: Path, content: bytes) -> Iterator[Row]:
    return _separated_rows(path, content, ",")


def _tsv_rows(path: Path, content: bytes) -> Iterator[Row]:
    return _separated_rows(path, content, "\t")


def _separated_rows(path: Path, content: bytes, separator: str) -> Iterator[Row]:
    text = _decode(path, content)
    # The library's limit of 131,072 characters a field is shorter than some documents.
    csv.field_size_limit(sys.maxsize)
    # strict: a stray quote would otherwise swallow the rows after it without a word.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] | None = None
    try:
        for cells in reader:
            if header is None:
                header = cells
            elif len(cells) == len(header):
                yield reader.line_num, dict(zip(header, cells, strict=True))
            elif cells:
                raise DataError(
                    f"{path}, line {reader.line_num}: {len(cells)} columns where the first line "
                    f"has {len(header)}; put quotes around texts with separators in them"
                )
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num}: {error}; a text with quotes in it must be quoted "
            'whole, and its quotes written twice ("")'
        ) from None


def _jsonl_rows(path: Path, content: bytes) -> Iterator[Row]:
    # Not splitlines: it also cuts at characters that JSON allows inside a string.
    for number, line in enumerate(_decode(path, content).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise DataError(f'{path}, line {number}: not an object like {{"text": ...}}')
        yield number, row


def _parquet_rows(path: Path, content: bytes) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(pyarrow.BufferReader(content))
        rows = table.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} is not a Parquet file: {error}") from None
    return iter(enumerate(rows, 1))
