"""How people write a place in the past: a time, offsets, or a snapshot."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import dataclass
from pathlib import Path

import click

from penstock.core.ids import EventTime
from penstock.replay.replayed import Offsets

EARLIEST = "earliest"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class PastPlace:
    """One of the three; all ``None`` is the beginning."""

    time: EventTime | None = None
    offsets: Offsets | None = None
    snapshot: str | None = None


def read_time(text: str, option: str) -> EventTime:
    """Milliseconds, or a time of the calendar; without a zone it is UTC."""
    if re.fullmatch(r"-?[0-9]+", text):
        return EventTime(int(text))
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{option} takes a time such as 2026-01-31T12:00, not {text!r}") from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    return EventTime((aware - _EPOCH) // dt.timedelta(milliseconds=1))


def read_place(text: str, option: str) -> PastPlace:
    """``earliest``; a time; ``SPLIT=OFFSET,...`` or a JSON file of them; or the path of a snapshot."""
    if text == EARLIEST:
        return PastPlace()
    path = Path(text)
    try:
        is_file, is_directory = path.is_file(), path.is_dir()
    except OSError:  # offsets of many splits are longer than any name
        is_file = is_directory = False
    if is_file:
        return PastPlace(offsets=_offsets_in(path, option))
    if is_directory or "://" in text:
        return PastPlace(snapshot=text)
    if "=" in text:
        return PastPlace(offsets=_offsets(text, option))
    try:
        return PastPlace(time=read_time(text, option))
    except click.UsageError as error:
        raise click.UsageError(f"{error.message}; nor is there a snapshot of that name") from None


def _offsets(text: str, option: str) -> Offsets:
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(split and offset.isdigit() for split, _, offset in pairs):
        raise click.UsageError(f"{option} takes offsets such as clicks-0=120,clicks-1=98, not {text!r}")
    return {split.strip(): int(offset) for split, _, offset in pairs}


def _offsets_in(path: Path, option: str) -> Offsets:
    try:
        found = json.loads(path.read_text())
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(offset, int) for offset in found.values()):
        raise click.UsageError(f'{option}: {path} must hold offsets by split, such as {{"clicks-0": 120}}')
    return found
