"""Where coroutines run: what is under way at the end is cancelled, on a thread and in virtual time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from penstock.core.clock import ManualClock
from penstock.operators.async_io.runners import Runner, SteppedRunner, ThreadRunner
from tests.patience import PATIENCE_S


@pytest.mark.parametrize("make", [lambda: ThreadRunner("ask"), lambda: SteppedRunner(ManualClock(0))])
def test_what_user_code_began_beside_its_request_is_cancelled_too(make: Callable[[], Runner]) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def question() -> None:
        begun.set()
        try:
            await asyncio.sleep(1000)
        finally:
            ended.set()

    async def request() -> None:
        await asyncio.shield(asyncio.ensure_future(question()))

    runner = make()
    runner.start([request()])
    assert begun.wait(PATIENCE_S)
    runner.close()
    assert ended.is_set()
