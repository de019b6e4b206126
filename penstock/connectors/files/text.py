"""Lines of text, one record each.

The position is the byte offset of the next line.  A line ends with ``\\n`` or ``\\r\\n``; the last line
need not.  Work is done a block at a time: split the bytes, join the lines a poll takes, decode them
together.  So the charset must encode the newline as one byte, which leaves out UTF-16 and UTF-32.
"""

from __future__ import annotations

from io import SEEK_END
from typing import Any, BinaryIO

from penstock.connectors.files.formats import FileFormat
from penstock.connectors.files.storage import shrunk, storage_of
from penstock.connectors.source import EndOfSplit, SplitReader
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError

_BLOCK_BYTES = 1 << 20


class StreamFormat(FileFormat):
    """A format of single records, such as lines of text."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Each line is a record."""
        return TextLineFormat(charset_name)


class TextLineFormat(StreamFormat):
    """Reads text line by line, without the line ends."""

    def __init__(self, charset_name: str = "UTF-8") -> None:
        try:
            newline = "\n".encode(charset_name)
        except LookupError:
            raise ConfigError(f"Python knows no charset {charset_name!r}; try UTF-8 or ISO-8859-1") from None
        if len(newline) != 1:
            raise ConfigError(
                f"charset {charset_name!r} cannot be read line by line, since its newline is "
                f"{len(newline)} bytes; convert the files to UTF-8 first"
            )
        self.charset_name = charset_name

    def open(self, path: str, position: Any | None) -> SplitReader:
        return TextLineReader(path, position or 0, self.charset_name)


class TextLineReader(SplitReader):
    """Reads one text file from a byte offset on."""

    def __init__(self, path: str, offset: int, charset: str) -> None:
        self._path = path
        self._charset = charset
        self._newline = "\n".encode(charset)
        self._offset = offset
        self._stream: BinaryIO = storage_of(path).open_read(path)
        self._stream.seek(0, SEEK_END)
        if offset > (size := self._stream.tell()):
            raise shrunk(path, "byte", offset, size)
        self._stream.seek(offset)
        self._lines: list[bytes] = []
        self._next_line = 0
        self._rest = b""
        """Bytes read behind the last complete line."""
        self._at_end = False

    def poll(self, max_rows: int) -> Batch | None:
        start = self._next_line
        if start >= len(self._lines):
            self._fill()
            start = 0
        stop = min(start + max_rows, len(self._lines))
        chunk = self._newline.join(self._lines[start:stop])
        batch = Batch(rows=self._decode(chunk))
        self._next_line = stop
        # The line that ends without a newline is always the last of the file.
        unterminated = self._at_end and stop == len(self._lines)
        self._offset += len(chunk) + (0 if unterminated else 1)
        return batch

    def _fill(self) -> None:
        """Read until there is at least one line; at the end of the file the rest is one."""
        self._lines, self._next_line = [], 0
        blocks = [self._rest]
        while not self._at_end:
            block = self._stream.read(_BLOCK_BYTES)
            self._at_end = not block
            blocks.append(block)
            if self._newline in block:
                *self._lines, self._rest = b"".join(blocks).split(self._newline)
                return
        self._rest = b""
        self._lines = [line for line in (b"".join(blocks),) if line]
        if not self._lines:
            raise EndOfSplit

    def _decode(self, chunk: bytes) -> list[str]:
        try:
            text = chunk.decode(self._charset)
        except UnicodeDecodeError as e:
            raise ConnectorError(
                f"{self._path!r} is not {self._charset} text at byte {self._offset + e.start}: {e.reason}. "
                "Give the file's own charset; compressed files must be unpacked first."
            ) from None
        if "\r" in text:
            text = text.replace("\r\n", "\n").removesuffix("\r")
        return text.split("\n")

    def position(self) -> int:
        return self._offset

    def close(self) -> None:
        self._stream.close()
