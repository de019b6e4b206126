"""Bytes to :class:`~penstock.snapshot.manifest.Manifest`, trusting nothing.

Pure.  Whatever the bytes are, the outcome is a manifest that hangs together, a
:class:`~penstock.core.errors.FormatVersionError` (a newer Penstock wrote it) or a
:class:`~penstock.core.errors.CorruptSnapshotError`; never another exception.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from penstock.core.errors import CorruptSnapshotError, FormatVersionError
from penstock.core.handles import (
    Blob,
    ChannelHandle,
    Committable,
    KeyedHandle,
    KeyedPiece,
    NativeHandle,
    OperatorSnapshot,
    digest,
)
from penstock.core.ids import Epoch, Generation, OperatorId, SubtaskIndex, VertexId, WallMs
from penstock.core.key_kinds import Kind
from penstock.core.signals import SnapshotKind
from penstock.snapshot.manifest import FORMAT_VERSION, Manifest, OperatorEntry, Origin, SubtaskEntry
from penstock.snapshot.paths import problem_with
from penstock.snapshot.signing import FIELD
from penstock.snapshot.strict_json import (
    Malformed,
    array,
    boolean,
    check_sum,
    checksum,
    data,
    fields,
    integer,
    optional_text,
    parse,
    text,
)

MAX_PARALLELISM = 32768
_DEEPEST_KEY = 20
_SINCE = {"channels": 2, "origin": 2, "key_kinds": 4}
"""Fields that older formats lack."""


def from_json(raw: bytes, name: str = "the manifest") -> Manifest:
    """The manifest in ``raw``; ``name`` is what errors call it."""
    try:
        document = parse(raw)
        _check_version(document, name)
        document.pop(FIELD, None)  # looked at by those who have a key
        check_sum(document)
        return _manifest(document)
    except Malformed as error:
        raise CorruptSnapshotError(
            f"{name} is not a readable snapshot manifest ({error}); restore from another snapshot, "
            f"or bring the file back from a copy"
        ) from error


def _check_version(document: dict[str, Any], name: str) -> None:
    version = integer(document.get("format_version"), "format_version", low=1)
    if version > FORMAT_VERSION:
        writer = document.get("penstock_version")
        shown = f"Penstock {writer[:40]}" if isinstance(writer, str) else "a newer Penstock"
        raise FormatVersionError(
            f"{name} has snapshot format {version} and was written by {shown}; this Penstock reads "
            f"formats up to {FORMAT_VERSION}. Restore with {shown} or later"
        )


def _manifest(document: dict[str, Any]) -> Manifest:
    version = document["format_version"]
    known = (field.name for field in dataclasses.fields(Manifest))
    fields(document, "manifest", *(name for name in known if version >= _SINCE.get(name, 1)))
    values = document
    operators = tuple(_operator(value, version) for value in array(values["operators"], "operators"))
    _unique([entry.operator_id for entry in operators], "operators")
    return Manifest(
        job_id=text(values["job_id"], "job_id"),
        job_name=text(values["job_name"], "job_name"),
        epoch=Epoch(integer(values["epoch"], "epoch")),
        generation=Generation(integer(values["generation"], "generation")),
        kind=_kind(values["kind"]),
        created_ms=WallMs(integer(values["created_ms"], "created_ms")),
        operators=operators,
        enumerators=_enumerators(values["enumerators"]),
        committables=tuple(_committable(value) for value in array(values["committables"], "committables")),
        penstock_version=text(values["penstock_version"], "penstock_version"),
        spark_version=optional_text(values["spark_version"], "spark_version"),
        format_version=version,
        channels=tuple(_channel(value) for value in array(values.get("channels", []), "channels")),
        origin=_origin(values.get("origin")),
    )


def _origin(value: Any) -> Origin | None:
    if value is None:
        return None
    location, promised = fields(value, "origin", "location", "checksum")
    return Origin(text(location, "location"), checksum(promised, "checksum"))


def _kind(value: Any) -> SnapshotKind:
    try:
        return SnapshotKind(text(value, "kind"))
    except Malformed:
        raise
    except ValueError:
        raise Malformed("kind: neither checkpoint nor savepoint") from None


_OPERATOR = (
    "operator_id",
    "uid",
    "name",
    "vertex",
    "parallelism",
    "max_parallelism",
    "subtasks",
    "key_kinds",
)


def _operator(value: Any, version: int) -> OperatorEntry:
    known = (name for name in _OPERATOR if version >= _SINCE.get(name, 1))
    operator_id, uid, name, vertex, parallelism, maximum, subtasks, *since = fields(value, "operator", *known)
    kinds = tuple(_key_kind(item, 0) for found in since for item in array(found, "key_kinds"))
    identity = OperatorId(text(operator_id, "operator_id"))
    limit = integer(maximum, "max_parallelism", 1, MAX_PARALLELISM)
    width = integer(parallelism, "parallelism", 1, limit)
    entries = tuple(_subtask(item, identity, width, limit) for item in array(subtasks, "subtasks"))
    _unique([entry.index for entry in entries], "subtasks")
    return OperatorEntry(
        identity,
        optional_text(uid, "uid"),
        text(name, "name"),
        VertexId(text(vertex, "vertex")),
        width,
        limit,
        entries,
        kinds,
    )


def _key_kind(value: Any, depth: int) -> Kind:
    """A word, or a list of a word and the kinds of the parts."""
    if not isinstance(value, list):
        return text(value, "key_kinds")
    if not value or depth > _DEEPEST_KEY:
        raise Malformed("key_kinds: a word and the kinds of parts were expected, not too deep")
    return text(value[0], "key_kinds"), *(_key_kind(part, depth + 1) for part in value[1:])


def _subtask(value: Any, operator_id: OperatorId, parallelism: int, max_parallelism: int) -> SubtaskEntry:
    index, finished, keyed, lists = fields(value, "subtask", "index", "finished", "keyed", "lists")
    state = OperatorSnapshot(
        operator_id,
        tuple(_keyed(item, max_parallelism) for item in array(keyed, "keyed")),
        None if lists is None else _blob(lists),
    )
    position = integer(index, "subtask index", 0, parallelism - 1)
    return SubtaskEntry(SubtaskIndex(position), state, boolean(finished, "finished"))


def _keyed(value: Any, max_parallelism: int) -> KeyedPiece:
    if isinstance(value, dict) and "files" in value:
        backend, files, groups, pickled = fields(
            value, "keyed state", "backend", "files", "key_groups", "pickled"
        )
        return NativeHandle(
            text(backend, "backend"),
            tuple((name, _blob(blob)) for name, blob in _named_files(files)),
            _groups(groups, max_parallelism),
            boolean(pickled, "pickled"),
        )
    blob, groups, pickled = fields(value, "keyed state", "blob", "key_groups", "pickled")
    return KeyedHandle(_blob(blob), _groups(groups, max_parallelism), boolean(pickled, "pickled"))


def _groups(value: Any, max_parallelism: int) -> tuple[int, int]:
    bounds = array(value, "key_groups")
    if len(bounds) != 2:
        raise Malformed("key_groups: a first and a last group were expected")
    first = integer(bounds[0], "key_groups", 0, max_parallelism - 1)
    return first, integer(bounds[1], "key_groups", first, max_parallelism - 1)


def _named_files(value: Any) -> list[tuple[str, Any]]:
    """Files of a backend; a name is one part of a path, so that nothing is written elsewhere."""
    if not isinstance(value, dict):
        raise Malformed("files: an object was expected")
    for name in value:
        problem = "it has several parts" if "/" in name else problem_with(name)
        if problem is not None:
            raise Malformed(f"the name of a backend's file cannot be used: {problem}")
    return sorted(value.items())


def _channel(value: Any) -> ChannelHandle:
    edge, sender, receiver, blob = fields(value, "channel", "edge", "sender", "receiver", "blob")
    return ChannelHandle(
        text(edge, "edge"),
        SubtaskIndex(integer(sender, "sender", 0, MAX_PARALLELISM - 1)),
        SubtaskIndex(integer(receiver, "receiver", 0, MAX_PARALLELISM - 1)),
        _blob(blob),
    )


def _blob(value: Any) -> Blob:
    if isinstance(value, dict) and "inline" in value:
        return _inline_blob(value)
    length, promised, path, offset = fields(value, "blob", "length", "checksum", "path", "offset")
    where = text(path, "path")
    problem = problem_with(where)
    if problem is not None:
        raise Malformed(f"the path of a blob cannot be used: {problem}")
    return Blob(integer(length, "length"), checksum(promised, "checksum"), where, integer(offset, "offset"))


def _inline_blob(value: Any) -> Blob:
    length, promised, inline = fields(value, "blob", "length", "checksum", "inline")
    content = data(inline, "inline")
    blob = Blob(integer(length, "length"), checksum(promised, "checksum"), inline=content)
    if len(content) != blob.length or digest(content) != blob.checksum:
        raise Malformed("the bytes of an inline blob differ from its length and checksum")
    return blob


def _enumerators(value: Any) -> dict[OperatorId, Blob]:
    if not isinstance(value, dict):
        raise Malformed("enumerators: an object was expected")
    return {OperatorId(text(name, "enumerators")): _blob(blob) for name, blob in value.items()}


def _committable(value: Any) -> Committable:
    operator_id, epoch, index, payload = fields(
        value, "committable", "operator_id", "epoch", "subtask_index", "payload"
    )
    return Committable(
        OperatorId(text(operator_id, "operator_id")),
        Epoch(integer(epoch, "epoch")),
        SubtaskIndex(integer(index, "subtask_index")),
        data(payload, "payload"),
    )


def _unique(values: list[Any], where: str) -> None:
    if len(set(values)) != len(values):
        raise Malformed(f"{where}: an entry is given twice")
