"""Files of lines: where they begin and end, a block at a time, for every format made of them.

The position is the byte offset of the next line.  A line ends with ``\\n``; the last one need not.  Lines
are found with NumPy and handed to the format many at a time, so no Python runs per line here.  Where values
may hold newlines inside quotes, a line is a whole record: it ends at a newline with an even number of
quotes before it.

Files whose name ends in ``.gz`` or ``.bz2`` are unpacked on the way; offsets then count unpacked bytes,
and going on in the middle unpacks everything before it.

The plainest format: each line is a record, without its end (``\\n`` or ``\\r\\n``).  The charset must encode
the newline as one byte, which leaves out UTF-16 and UTF-32.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import re
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from io import SEEK_END
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.connectors.files.formats import FileFormat, FileRange
from penstock.connectors.files.unreadable import shrunk
from penstock.connectors.source import EndOfSplit, SplitReader
from penstock.core.batch import Batch, concat
from penstock.core.errors import ConfigError, ConnectorError, PositionGoneError
from penstock.formats.bad_records import BadRecords, DecodeError, Diverted, ErrorPolicy, salvage
from penstock.storage.places import storage_of

_BLOCK_BYTES = 1 << 20
_PACKED = (".gz", ".bz2")
_ROW_NUMBER = re.compile(r"Row #\d+: | in row \d+$")
"""Arrow counts from wherever it began to read; the byte offset says more."""

Ends = npt.NDArray[np.int64]


class Lines(NamedTuple):
    """Consecutive lines, with their line ends."""

    data: bytes
    ends: Ends
    """Where each line ends in ``data``, its line end included."""

    def slice(self, start: int, stop: int) -> Lines:
        """Some of them."""
        low = int(self.ends[start - 1]) if start else 0
        return Lines(self.data[low : int(self.ends[stop - 1])], self.ends[start:stop] - low)

    def starts(self) -> Ends:
        """Where each line begins in ``data``."""
        return np.concatenate((np.zeros(1, np.int64), self.ends[:-1]))


class LineFormat(FileFormat):
    """A format whose records are lines."""

    @abstractmethod
    def decode(self, lines: Lines, header: bytes) -> list[Any] | pa.RecordBatch:
        """The records of these lines; raises ``DecodeError`` with the index of the first bad one."""

    def enclosing_quote(self) -> str | None:
        """The quote between two of which newlines belong to the value; such files are not split."""
        return None

    def has_header(self) -> bool:
        """Whether a file's first line is not a record."""
        return False

    def check_header(self, path: str, header: bytes) -> None:
        """Look at a file's first line when it is opened; raise a clear error if it cannot be right."""

    def can_split(self, path: str) -> bool:
        return self.enclosing_quote() is None and not path.endswith(_PACKED)

    def open(self, path: str, position: Any | None) -> SplitReader:
        bad = BadRecords(ErrorPolicy(), path, path, f"{path!r}, byte")
        return self.open_range(FileRange(path), position, bad)

    def open_range(self, part: FileRange, position: Any | None, bad: BadRecords) -> SplitReader:
        return LineReader(self, part, position, bad)


class LineReader(SplitReader):
    """Reads the lines that begin in one range of a file."""

    def __init__(
        self, line_format: LineFormat, part: FileRange, position: int | None, bad: BadRecords
    ) -> None:
        self._format = line_format
        self._part = part
        self._bad = bad
        self._stream = open_unpacked(part.path)
        self._at_end = False
        self._lines = Lines(b"", np.zeros(0, np.int64))
        self._base = 0
        """Offset of the first byte of ``_lines``."""
        self._used = 0
        """How many of ``_lines`` were handed out."""
        self._offset = 0
        self._rest = b""
        self._header = b""
        if line_format.has_header():
            self._header = self._first_line()
            line_format.check_header(part.path, self._header)
        if position is not None:
            self._go_to(position)
            self._check_line_start(position)
        elif part.start:
            self._go_to(part.start - 1)
            self._first_line()
        elif not self._header:
            self._go_to(0)

    def _go_to(self, offset: int) -> None:
        if not self._part.path.endswith(_PACKED):
            self._stream.seek(0, SEEK_END)
            if offset > (size := self._stream.tell()):
                raise shrunk(self._part.path, "byte", offset, size)
        with _readable(self._part.path):
            self._stream.seek(offset)
        if (reached := self._stream.tell()) < offset:
            raise shrunk(self._part.path, "byte", offset, reached)
        self._lines, self._rest = Lines(b"", np.zeros(0, np.int64)), b""
        self._base, self._offset, self._used, self._at_end = offset, offset, 0, False

    def _check_line_start(self, position: int) -> None:
        """A line ends right before the position, or the file was written anew with other lines."""
        if position == 0 or self._part.path.endswith(_PACKED):
            return
        self._stream.seek(position - 1)
        before, following = self._stream.read(1), self._stream.read(1)
        if before != b"\n" and following:
            raise PositionGoneError(
                f"{self._part.path!r} was read up to byte {position}, where a line began, and now none does: "
                "it was written anew or appended to meanwhile. Put the old file back, or start without the "
                "snapshot."
            )
        self._stream.seek(position)

    def _first_line(self) -> bytes:
        """Pass over the line, or the rest of one, that is next."""
        if not self._fill():
            return b""
        line = self._lines.slice(0, 1).data
        self._used = 1
        self._offset += len(line)
        return line

    def poll(self, max_rows: int) -> Batch | None:
        if self._used >= len(self._lines.ends) and not self._fill():
            raise EndOfSplit
        stop = min(self._used + max_rows, self._count_within())
        if stop <= self._used:
            raise EndOfSplit
        lines = self._lines.slice(self._used, stop)
        batch = self._decode(lines)
        self._used = stop
        self._offset += len(lines.data)
        return batch

    def _count_within(self) -> int:
        """How many of the lines at hand begin in the range."""
        if self._part.end is None:
            return len(self._lines.ends)
        return int(np.searchsorted(self._lines.starts(), self._part.end - self._base, "left"))

    def _fill(self) -> bool:
        """Read until there is at least one line; false if there is none any more."""
        self._base += len(self._lines.data)
        self._used = 0
        blocks = [self._rest]
        ends = np.zeros(0, np.int64)
        while not self._at_end and not len(ends):
            with _readable(self._part.path):
                block = self._stream.read(_BLOCK_BYTES)
            self._at_end = not block
            blocks.append(block)
            if b"\n" in block or self._at_end:
                blocks = [b"".join(blocks)]
                ends = _line_ends(blocks[0], self._format.enclosing_quote())
        data = b"".join(blocks)
        if self._at_end and len(data) > (int(ends[-1]) if len(ends) else 0):
            ends = np.append(ends, len(data))
        cut = int(ends[-1]) if len(ends) else 0
        self._lines, self._rest = Lines(data[:cut], ends), data[cut:]
        return bool(len(ends))

    def _decode(self, lines: Lines) -> Batch | None:
        def decode(start: int, stop: int) -> Batch:
            records = self._format.decode(lines.slice(start, stop), self._header)
            return Batch(rows=records) if isinstance(records, list) else Batch(columns=records)

        def on_bad(index: int, reason: str) -> None:
            one = lines.slice(index, index + 1).data
            offset = self._offset + int(lines.starts()[index])
            if self._bad.fails:
                reason = f"{reason}, in line {self._line_number(offset)}"
            self._bad.add(offset, one.rstrip(b"\r\n"), reason)

        found = [piece for _, _, piece in salvage(len(lines.ends), decode, on_bad) if len(piece)]
        return concat(found) if found else None

    def _line_number(self, offset: int) -> int:
        """The number of the line that begins at a byte. Reads the file once more, for an error only."""
        number, left = 1, offset
        with contextlib.closing(open_unpacked(self._part.path)) as stream:
            while left > 0 and (block := stream.read(min(left, _BLOCK_BYTES))):
                number, left = number + block.count(b"\n"), left - len(block)
        return number

    def position(self) -> int:
        return self._offset

    def take_diverted(self) -> list[Diverted]:
        return self._bad.take()

    def close(self) -> None:
        self._stream.close()


def open_unpacked(path: str) -> BinaryIO:
    """The file's bytes, unpacked if its name says that it is packed."""
    stream = storage_of(path).open_read(path)
    if path.endswith(".gz"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=stream))
    return cast(BinaryIO, bz2.BZ2File(stream)) if path.endswith(".bz2") else stream


@contextlib.contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        raise ConnectorError(
            f"{path!r} cannot be unpacked, it is damaged or cut off: {e}. A file must be complete before it "
            "appears: write it under a name with a leading dot and rename it."
        ) from e


def undecodable(lines: Lines, error_of: Callable[[Lines], Exception | None]) -> DecodeError:
    """The error for the first line that cannot be parsed, found by halving. There must be one.

    ``error_of`` tries some lines; it must find fault with all that have a bad one among them.
    """
    good, bad = 0, len(lines.ends)
    while bad - good > 1:
        middle = (good + bad) // 2
        if error_of(lines.slice(0, middle)) is None:
            good = middle
        else:
            bad = middle
    alone = error_of(lines.slice(good, good + 1))
    return DecodeError(good, _ROW_NUMBER.sub("", str(alone).split("\n", 1)[0]))


def _line_ends(data: bytes, quote: str | None) -> Ends:
    view = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(view == 10)
    if quote is not None and quote.encode() in data:
        quotes = np.flatnonzero(view == ord(quote))
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return (ends + 1).astype(np.int64)


class StreamFormat(FileFormat):
    """A format of single records, such as lines of text."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> TextLineFormat:
        """Each line is a record."""
        return TextLineFormat(charset_name)


class TextLineFormat(LineFormat, StreamFormat):
    """Reads text line by line, without the line ends."""

    def __init__(self, charset_name: str = "UTF-8") -> None:
        try:
            newline = "\n".encode(charset_name)
        except LookupError:
            raise ConfigError(f"Python knows no charset {charset_name!r}; try UTF-8 or ISO-8859-1") from None
        if newline != b"\n":
            raise ConfigError(
                f"charset {charset_name!r} cannot be read line by line, since its newline is "
                f"{len(newline)} bytes; convert the files to UTF-8 first"
            )
        self.charset_name = charset_name

    def decode(self, lines: Lines, header: bytes) -> list[str]:
        try:
            text = lines.data.decode(self.charset_name)
        except UnicodeDecodeError as e:
            line = int((lines.ends <= e.start).sum())
            raise DecodeError(
                line,
                f"this is not {self.charset_name} text ({e.reason}); give the file's own charset. Packed "
                "files are known by a name that ends in .gz or .bz2",
            ) from None
        if "\r" in text:
            text = text.replace("\r\n", "\n").removesuffix("\r")
        return text.removesuffix("\n").split("\n")
