"""State of a job, as its newest snapshot has it: names and sizes, and one key at a time.

Reading runs on a thread of the server, one look at a time, and never on a thread of the job.  What was
pickled is loaded: the snapshot is the job's own, so its driver trusts it as much as its tasks do.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.core.discreet import HIDDEN, harmless, shown
from penstock.core.errors import SnapshotError, coded
from penstock.core.secret_fields import secret_fields
from penstock.rest.json_answer import JsonAnswer
from penstock.rest.look import Refused
from penstock.rest.plane import Plane
from penstock.snapshot.recovery import Found, latest_valid
from penstock.snapshot.storage import MemoryStore
from penstock.snapshot.store import open_store
from penstock.state_processor.lookup import Limits, NotThere, TooMuch, listed, rows_of_key
from penstock.storage.contract import first_line

_ALL = "/jobs/{jobid}/penstock/state"
_ONE = f"{_ALL}/{{operatorid}}/{{statename}}"
PATHS = (_ALL, _ONE)
"""All calls that are answered here."""
MOST_BYTES = 32 << 20
MOST_ROWS = 100
_MOST_STATES = 1000
_LONGEST = 2000
_LONGEST_KEY = 1000
_TIME_S = 10.0


class States:
    """Looks, one at a time."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._one = threading.Lock()
        self._known: tuple[str, list[dict[str, Any]]] = ("", [])
        """The states of the snapshot that was looked at last, and where that is."""
        settings = plane.running.job.plan.settings
        self._secret = secret_fields(settings.secret_fields)

    def all(self) -> dict[str, Any]:
        """Every state of the newest snapshot; none, and why, where there is no snapshot."""
        with self._looking():
            found = self._newest()
            if isinstance(found, str):
                return {"snapshot": None, "note": found, "states": [], "truncated": False}
            states = self._listed(found)
        return {
            "snapshot": _snapshot(found),
            "note": None,
            "states": states[:_MOST_STATES],
            "truncated": len(states) > _MOST_STATES,
        }

    def _listed(self, found: Found) -> list[dict[str, Any]]:
        """Read once for each snapshot, however many look."""
        where = str(found.location)
        if where != self._known[0]:
            rows = listed(found.manifest, open_store(found.location.root, create=False), self._limits())
            self._known = where, list(itertools.islice(rows, _MOST_STATES + 1))
        return self._known[1]

    def one(self, operator: str, state: str, key: str) -> dict[str, Any]:
        """What a state holds for one key."""
        with self._looking():
            found = self._newest()
            if isinstance(found, str):
                raise Refused(404, found)
            store = open_store(found.location.root, create=False)
            rows = list(rows_of_key(found.manifest, store, operator, state, key, self._limits()))
        return {
            "snapshot": _snapshot(found),
            "operator": operator,
            "state": state,
            "key": key,
            "rows": [self._shown(state, row) for row in rows],
            "truncated": len(rows) >= MOST_ROWS,
        }

    def _shown(self, state: str, row: dict[str, Any]) -> dict[str, str]:
        """Its parts as text; values of a state, or a map's key, that is called like a secret are not told."""
        hides = self._secret.hides
        secret = hides(state) or hides(row.get("namespace"))
        return {
            name: HIDDEN if hides(name) or (secret and name == "value") else self._text(part)
            for name, part in row.items()
        }

    def _text(self, part: Any) -> str:
        try:
            return harmless(self._secret.text(part, _LONGEST))
        except Exception as error:  # what a user's class says of itself
            return f"(a {type(part).__name__} that cannot be shown: {type(error).__name__})"

    def _newest(self) -> Found | str:
        job = self._plane.running.job
        if job.plan.settings.batch:
            return "a job in BATCH mode takes no snapshots"
        if isinstance(job.store, MemoryStore):
            return "checkpoints are in the driver's memory; with execution.checkpointing.dir they can be read"
        found = latest_valid(job.repository.root, verify=False, signing=job.repository.signing)
        return "no checkpoint of the job is complete yet" if found is None else found

    def _limits(self) -> Limits:
        clock = self._plane.clock
        until = clock.monotonic() + _TIME_S
        return Limits(MOST_BYTES, MOST_ROWS, lambda: clock.monotonic() > until)

    @contextmanager
    def _looking(self) -> Any:
        if not self._one.acquire(blocking=False):
            raise Refused(429, "another look at the state is under way; ask again in a moment")
        try:
            yield
        except TooMuch as error:
            raise Refused(413, coded(error)) from None
        except NotThere as error:
            raise Refused(404, coded(error)) from None
        except (SnapshotError, OSError) as error:
            reason = "perhaps a newer checkpoint took its place: ask again"
            raise Refused(503, f"the snapshot cannot be read, {reason}: {coded(error)}") from None
        except Exception as error:  # whatever a user's class raises when it is loaded
            if isinstance(error, Refused):
                raise
            why = shown(f"{type(error).__name__}: {first_line(error)}")
            raise Refused(422, f"the state cannot be loaded by the driver: {why}") from None
        finally:
            self._one.release()


def _snapshot(found: Found) -> dict[str, Any]:
    manifest = found.manifest
    return {"id": int(manifest.epoch), "path": str(found.location), "created": int(manifest.created_ms)}


def routes(plane: Plane) -> list[Route]:
    """The calls."""
    states = States(plane)
    return [
        Route(_ALL, partial(_all, plane, states), methods=["GET"]),
        Route(_ONE.replace("{statename}", "{statename:path}"), partial(_one, plane, states), methods=["GET"]),
    ]


async def _all(plane: Plane, states: States, request: Request) -> Response:
    plane.look().check_job(request.path_params["jobid"])
    return JsonAnswer(await _aside(states.all))


async def _one(plane: Plane, states: States, request: Request) -> Response:
    places, key = request.path_params, request.query_params.get("key")
    plane.look().check_job(places["jobid"])
    if key is None:
        raise Refused(400, 'say which key: ?key=7, ?key=ann, or as JSON, ?key=["ann",7]')
    if len(key) > _LONGEST_KEY:
        raise Refused(400, f"a key may have {_LONGEST_KEY} characters here")
    return JsonAnswer(await _aside(partial(states.one, places["operatorid"], places["statename"], key)))


async def _aside(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """On a thread of the server; whoever goes away leaves it to its deadline."""
    return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
