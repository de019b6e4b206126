"""Lines of text, one record each, without their line ends (``\\n`` or ``\\r\\n``).

The charset must encode the newline as one byte, which leaves out UTF-16 and UTF-32.
"""

from __future__ import annotations

from penstock.connectors.files.formats import FileFormat
from penstock.connectors.files.lines import LineFormat, Lines
from penstock.core.errors import ConfigError
from penstock.formats.bad_records import DecodeError


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
