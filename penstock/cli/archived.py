"""Jobs that have ended, for commands: found in the archive directories that are named or configured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.cli.settings_file import find_settings
from penstock.core.archive_options import ARCHIVE_DIR, ARCHIVES_SHOWN
from penstock.core.clock import SystemClock
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError
from penstock.core.job import normal_name
from penstock.rest.archive_reader import Archives
from penstock.storage.places import is_url, normalise, storage_of

_LATEST_MS = 253_402_300_799_999
"""The last millisecond that Python's calendar has."""


def archives_of(named: tuple[str, ...], configuration: Configuration | None = None) -> list[str]:
    """The directories that were named, or those of the settings; the latter need not be there yet."""
    for directory in named:
        place = normalise(directory)
        if not is_url(place) and not Path(place).is_dir():
            raise ConfigError(f"--archive: there is no directory {directory}")
        storage_of(place)
    return list(named) or _configured(_settings() if configuration is None else configuration)


def archived_events(job: str, directories: list[str]) -> list[dict[str, Any]] | None:
    """What happened to the newest archived run of a job, by its name or id; ``None`` if there is none."""
    archives, wanted = Archives(directories, SystemClock()), normal_name(job)
    found = [one for one in archives.jobs() if wanted in (one.line["name"], one.line["jid"])]
    newest = max(found, key=lambda one: int(one.line["end-time"]), default=None)
    opened = None if newest is None else archives.open(newest.key)
    if opened is None:
        return None
    text = opened.answers.get(f"/jobs/{opened.line['jid']}/events", "{}")
    try:
        events = json.loads(text)["events"]
        return [_event(one) for one in events]
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise ConfigError(f"the archive of job {job!r} is damaged: it has no list of events") from None


def _event(one: Any) -> dict[str, Any]:
    at = int(one["timestamp"])
    if not 0 <= at <= _LATEST_MS:
        raise ValueError(at)
    return {"timestamp": at, "kind": str(one["kind"]), "text": str(one["text"])}


def _settings() -> Configuration:
    found = find_settings(None)
    return Configuration.from_dict({} if found is None else found.settings)


def _configured(configuration: Configuration) -> list[str]:
    listed = (configuration.get(ARCHIVES_SHOWN) or "").split(",")
    named = [directory.strip() for directory in listed if directory.strip()]
    return named or [directory for directory in [configuration.get(ARCHIVE_DIR)] if directory]
