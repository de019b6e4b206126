"""``penstock ui`` before a driver that hangs: the others, and the list, are as quick as ever."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from penstock.coordinator.asking import Answer
from penstock.rest import ui_app
from penstock.rest.upstream import Upstream
from tests.patience import PATIENCE_S

CALLS = 60
"""More than there are turns, and than there are threads."""


class _Hung(Upstream):
    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.go_on = threading.Event()
        self.asked = 0

    def ask(self, *_: Any, **__: Any) -> Answer:
        self.asked += 1
        self.go_on.wait(PATIENCE_S)
        return Answer(200, "application/json", b"{}")


def _request(key: str) -> Any:
    async def body() -> bytes:
        return b""

    return SimpleNamespace(
        method="GET",
        path_params={"key": key, "path": "plan"},
        scope={"path": f"/jobs/{key}/plan", "query_string": b""},
        query_params={},
        body=body,
    )


def test_a_driver_that_hangs_keeps_nobody_from_the_others() -> None:
    hung, well = _Hung(), _Hung()
    well.go_on.set()
    jobs: Any = SimpleNamespace(find={"hung": hung, "well": well}.__getitem__, lines=lambda: [])
    views = ui_app._Ui(jobs, None, False)  # type: ignore[arg-type]

    async def ask_all() -> list[int]:
        waiting = [asyncio.create_task(views.of_job(_request("hung"))) for _ in range(CALLS)]
        while not hung.asked:
            await asyncio.sleep(0.01)
        try:
            async with asyncio.timeout(PATIENCE_S):
                answers = [await views.list_all(_request("")), await views.of_job(_request("well"))]
            assert hung.asked < CALLS
        finally:
            hung.go_on.set()
        return [answer.status_code for answer in [*answers, *await asyncio.gather(*waiting)]]

    assert asyncio.run(ask_all()) == [200] * (2 + CALLS)
