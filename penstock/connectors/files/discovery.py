"""Which files a source reads: directories, single files and globs, without what is hidden.

Names with a leading ``.`` or ``_`` are left alone, below the given paths at any depth: that is where
writers, ours and others', keep what is not finished.  A directory is hidden with all that is in it.  As in
Spark, ``_day=3`` is a partition all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

from penstock.connectors.files.formats import FileFormat, FileRange
from penstock.connectors.source import Split, SplitEnumerator
from penstock.core.errors import ConnectorError
from penstock.core.packed import Names
from penstock.storage.contract import FoundFile, MissingFileError
from penstock.storage.places import storage_of

_WILD = re.compile(r"[*?\[]")


class FileEnumeratorProvider(Enum):
    """Whether large files are divided."""

    SPLITTABLE = "splittable"
    NON_SPLITTABLE = "not splittable"

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Large files are divided, where their format allows. The default."""
        return FileEnumeratorProvider.SPLITTABLE

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Every file is read by one subtask, from its start to its end."""
        return FileEnumeratorProvider.NON_SPLITTABLE


class FileSplitAssignerProvider(Enum):
    """How files are dealt to subtasks. Nothing to choose here; the name is for ported programs."""

    LOCALITY_AWARE = "locality aware"

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Accepted; Spark's executors read files of shared storage, which are equally near to all."""
        return FileSplitAssignerProvider.LOCALITY_AWARE


class FileEnumerator(SplitEnumerator):
    """Lists files, in the order of their names, and divides large ones.

    Its state is the paths that it has seen, so how they were divided may change between runs.
    """

    def __init__(self, paths: list[str], file_format: FileFormat, split_bytes: int, must_match: bool) -> None:
        self._paths = paths
        self._format = file_format
        self._split_bytes = split_bytes
        self._must_match = must_match
        self._seen = Names()

    def discover(self) -> Iterable[Split]:
        fresh: list[Split] = []
        for pattern in self._paths:
            found = find_files(pattern)
            if self._must_match and not found and _WILD.search(pattern):
                raise ConnectorError(f"no file matches {pattern!r}. Check the spelling of the pattern.")
            for file in found:
                if self._seen.add(file.path):
                    fresh += self._divide(file)
        return fresh

    def _divide(self, file: FoundFile) -> list[Split]:
        count = file.size // self._split_bytes
        if count < 2 or not self._format.can_split(file.path):
            return [Split(file.path, FileRange(file.path))]
        edges = [file.size * part // count for part in range(count)]
        ends = [*edges[1:], None]
        return [
            Split(f"{file.path}@{start}", FileRange(file.path, start, end))
            for start, end in zip(edges, ends, strict=True)
        ]

    def snapshot(self) -> Any:
        return self._seen.packed()

    def restore(self, state: Any) -> None:
        self._seen = Names.restored(state)


def find_files(pattern: str) -> list[FoundFile]:
    """The files that a path or glob stands for, in the order of their names, hidden ones left out.

    ``*`` and ``?`` stand for parts of one name, ``**`` for any number of names, ``[...]`` for characters.
    What matches may be a directory: then all files below it.
    """
    base = root_of(pattern)
    storage = storage_of(base)
    if base == pattern or storage.exists(pattern):
        return [file for file in storage.find(pattern) if not _is_hidden(file.path.removeprefix(pattern))]
    if not storage.exists(base):
        raise MissingFileError(base)
    matcher = _regex(pattern.removeprefix(base))
    found = ((file, file.path.removeprefix(base)) for file in storage.find(base))
    return [file for file, name in found if matcher.match(name) and not _is_hidden(name)]


def root_of(pattern: str) -> str:
    """The directory below which all matches of a glob are; the path itself if it has no wildcard."""
    wild = _WILD.search(pattern)
    if wild is None:
        return pattern
    base = pattern[: pattern.rindex("/", 0, wild.start())]
    return pattern[: wild.start()] if base.endswith(("/", ":")) or not base else base


def _is_hidden(relative: str) -> bool:
    return any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) for part in relative.split("/")
    )


def _regex(glob: str) -> re.Pattern[str]:
    text = ""
    for token in re.findall(r"\*\*/?|\*|\?|\[[^\]]+\]|[^*?\[]+|\[", glob.rstrip("/")):
        if token.startswith("**"):
            text += "(?:.*/)?" if token == "**/" else ".*"
        elif token in ("*", "?"):
            text += "[^/]*" if token == "*" else "[^/]"
        elif len(token) > 1 and token[0] == "[":
            inside = token[1:-1].replace("\\", r"\\")
            text += f"[{'^' + inside[1:] if inside[0] == '!' else inside}]"
        else:
            text += re.escape(token)
    return re.compile(text + r"(?=/|$)")
