"""Lookup join: each record meets the rows that another system has for its key.

Equal questions that are under way at the same time are asked once.  A cache, if wanted, keeps answers for
a while; it is not part of snapshots.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.core.copying import copied
from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.operators.async_io.functions import AsyncFunction
from penstock.operators.functions import Function
from penstock.operators.join.functions import JoinKind, pair_call
from penstock.operators.outflow import as_results
from penstock.operators.runtime_context import RuntimeContext


class LookupFunction(Function):
    """Finds rows by key. Open connections in ``open``; ``lookup`` runs many at once on an event loop."""

    @abstractmethod
    async def lookup(self, key: Any) -> Any:
        """The rows for ``key``: a list, a single row, or ``None``."""


@dataclass(frozen=True, slots=True)
class LookupCache:
    """Keeps the answers for up to ``max_keys`` keys, each for ``ttl``, missing rows included."""

    max_keys: int
    ttl: DurationLike


class LookupJoin(AsyncFunction[Any, Any]):
    """Asks ``lookup`` about the key of each record and joins the record with what it answers.

    ``lookup`` is a :class:`LookupFunction`, an ``async`` function of the key, or a plain function, which
    may block: it runs in threads.
    """

    def __init__(
        self, lookup: Any, key: Callable[[Any], Any], function: Any, how: JoinKind, cache: LookupCache | None
    ) -> None:
        self._user = (lookup, function)
        self._key = key
        self._pair = pair_call(function)
        self._nobody = [None] if how.keeps_left else []
        self._ask = _asking(lookup)
        self._max_keys = cache.max_keys if cache is not None else 0
        self._ttl_s = to_millis(cache.ttl) / 1000 if cache is not None else 0.0
        self._known: OrderedDict[Any, tuple[float, list[Any]]] = OrderedDict()
        self._asked: dict[Any, asyncio.Future[list[Any]]] = {}

    def open(self, runtime_context: RuntimeContext) -> None:
        for user in self._user:
            if isinstance(user, Function):
                user.open(runtime_context)

    def close(self) -> None:
        for user in self._user:
            if isinstance(user, Function):
                user.close()

    async def async_invoke(self, value: Any) -> list[Any]:
        results: list[Any] = []
        for row in await self._rows(self._key(value)) or self._nobody:
            # Other records meet the same row, now or out of the cache.
            made = self._pair(copied(value), copied(row))
            if made is not None:
                results.extend(as_results(made))
        return results

    async def _rows(self, key: Any) -> list[Any]:
        now = asyncio.get_running_loop().time()
        known = self._known.get(key)
        if known is not None and known[0] > now:
            self._known.move_to_end(key)
            return known[1]
        under_way = self._asked.get(key)
        if under_way is not None:
            return await asyncio.shield(under_way)
        question = self._asked[key] = asyncio.ensure_future(self._find(key))
        question.add_done_callback(lambda _: self._asked.pop(key, None))
        return await asyncio.shield(question)

    async def _find(self, key: Any) -> list[Any]:
        found = await self._ask(key)
        rows: list[Any] = found if isinstance(found, list) else [] if found is None else [found]
        if self._max_keys:
            self._known[key] = (asyncio.get_running_loop().time() + self._ttl_s, rows)
            self._known.move_to_end(key)
            if len(self._known) > self._max_keys:
                self._known.popitem(last=False)
        return rows


def _asking(lookup: Any) -> Callable[[Any], Any]:
    if isinstance(lookup, LookupFunction):
        return lookup.lookup
    if isinstance(lookup, type) or not callable(lookup):
        raise ConfigError(
            "a lookup join takes a LookupFunction, an async function of the key or a plain one, not "
            f"{lookup!r}"
        )
    call: Callable[[Any], Any] = lookup
    if inspect.iscoroutinefunction(call):
        return call

    async def in_thread(key: Any) -> Any:
        return await asyncio.to_thread(call, key)

    return in_thread
