"""A crowd gets slower answers; a few clients never notice."""

from __future__ import annotations

import asyncio

import pytest

from penstock.core.clock import ManualClock
from penstock.rest.share import SHARE, Share


class Thread:
    """A thread that computes ``cost`` seconds for each answer, on a clock that sleeping moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: float) -> None:
        self.used = 0.0
        self.cost = cost
        self.clock = ManualClock()
        self.share = Share(self.clock, lambda: self.used)
        self.answers = 0
        self._pause = asyncio.sleep
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    async def _sleep(self, seconds: float) -> None:
        self.clock.advance(seconds * 1000)
        await self._pause(0)

    async def answer(self) -> None:
        await self.share.turn()
        self.used += self.cost
        self.clock.advance(self.cost * 1000)
        self.answers += 1


def test_a_crowd_is_held_to_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = Thread(monkeypatch, 0.001)

    async def crowd() -> None:
        await asyncio.gather(*(thread.answer() for _ in range(20_000)))

    asyncio.run(crowd())
    assert thread.answers == 20_000 and thread.used == pytest.approx(20.0)
    assert thread.used - 2.0 <= SHARE * thread.now + 0.001, "but for what was saved"
    assert thread.now < thread.used / SHARE + 1.0, "and no longer than that"


def test_a_few_clients_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = Thread(monkeypatch, 0.001)

    async def looks() -> None:
        for _ in range(100):  # twenty calls every three seconds, for five minutes
            before = thread.now
            for _ in range(20):
                await thread.answer()
            assert thread.now - before == pytest.approx(20 * thread.cost)
            thread.clock.advance(3000)

    asyncio.run(looks())


def test_one_that_was_cancelled_leaves_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = Thread(monkeypatch, 10.0)

    async def crowd() -> None:
        await thread.answer()
        waiting = [asyncio.create_task(thread.answer()) for _ in range(3)]
        waiting[1].cancel()
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(done[1], asyncio.CancelledError)

    asyncio.run(crowd())
    assert thread.answers == 3


def test_behind_the_job_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = Thread(monkeypatch, 10.0)

    async def crowd() -> None:
        await thread.answer()
        thread.share.end()
        before = thread.now
        await asyncio.gather(*(thread.answer() for _ in range(3)))
        assert thread.now - before == pytest.approx(30.0), "what the answers cost themselves"

    asyncio.run(crowd())
    assert thread.answers == 4


def test_a_flood_of_calls_does_not_shut_the_page_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking and refusing calls costs, too; what that has cost in all is never made up for."""
    thread = Thread(monkeypatch, 0.001)

    async def look() -> None:
        await thread.answer()
        for _ in range(60):
            thread.used += 1.0
            thread.clock.advance(1000)
            thread.share.owed_s()
        before = thread.now
        await thread.answer()
        assert 10 < thread.now - before < 20

    asyncio.run(look())


def test_strangers_wait_for_all_who_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = Thread(monkeypatch, 0.5)
    order: list[str] = []

    async def asks(name: str, known: bool) -> None:
        await thread.share.turn(known)
        thread.used += thread.cost
        thread.clock.advance(thread.cost * 1000)
        order.append(name)

    async def crowd() -> None:
        for _ in range(6):
            await asks("first", True)
        strangers = [asks(f"stranger {n}", False) for n in range(3)]
        await asyncio.gather(*strangers, *(asks(f"known {n}", True) for n in range(3)))

    asyncio.run(crowd())
    assert order[6:] == [*(f"known {n}" for n in range(3)), *(f"stranger {n}" for n in range(3))]


def test_a_flood_of_strangers_leaves_something_for_who_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = Thread(monkeypatch, 0.001)

    async def flood() -> None:
        for _ in range(10_000):
            await thread.share.turn(known=False)
            thread.used += thread.cost
            thread.clock.advance(thread.cost * 1000)
        before = thread.now
        for _ in range(400):
            await thread.answer()
        assert thread.now - before == pytest.approx(400 * thread.cost)

    asyncio.run(flood())
    assert thread.used - 2.0 <= SHARE * thread.now + 0.001


def test_behind_the_job_strangers_do_not_wait_either(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = Thread(monkeypatch, 10.0)

    async def crowd() -> None:
        await thread.answer()
        thread.share.end()
        async with thread.share._line:
            before = thread.now
            await thread.share.turn(known=False)
            assert thread.now == before

    asyncio.run(crowd())
