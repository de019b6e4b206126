"""Whoever waits for slots hears it, and what to do if they do not come.  No Spark is started."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.core.config import Configuration
from penstock.core.errors import ClusterError, ConfigError
from penstock.spark import slots
from penstock.spark.slots import WaitingForSlots, check_slots, slots_to_begin_with
from penstock.spark.terms import slot_profile
from tests.patience import PATIENCE_S


class Heard(logging.Handler):
    """Log lines, and a way to wait for one."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.there = threading.Event()
        self._wanted = wanted

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if self._wanted in self.lines[-1]:
            self.there.set()


@pytest.fixture
def heard(request: pytest.FixtureRequest) -> Any:
    handler = Heard(request.param)
    logging.getLogger("penstock").addHandler(handler)
    yield handler
    logging.getLogger("penstock").removeHandler(handler)


@pytest.mark.parametrize("heard", ["1 of 2 are there"], indirect=True)
def test_a_line_of_progress_while_slots_start(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_TELL_EVERY_S", 0.01)
    waiting = WaitingForSlots(2, 30)
    waiting.registered(1)
    waiting.registered(1)
    assert heard.there.wait(PATIENCE_S) and "penstock.slots.timeout" in heard.lines[-1]
    waiting.registered(0)
    thread = next((one for one in threading.enumerate() if one.name == "penstock-waiting"), None)
    if thread is not None:
        thread.join(PATIENCE_S)
    assert waiting._settled.is_set()


class Growing:
    """A clock that a look moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 6
        return self.now


class Context:
    master = "spark://somewhere:7077"


class Session:
    sparkContext = Context()


@pytest.mark.parametrize("heard", ["1 of 3 are there"], indirect=True)
def test_executors_that_do_not_come_in_time(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "available_slots", lambda spark, profile: 1)
    monkeypatch.setattr(slots, "check_alive", lambda spark: None)
    with pytest.raises(ClusterError) as raised:
        check_slots(Session(), 3, 60, Growing(), lambda: False)  # type: ignore[arg-type]
    assert "60 s (penstock.slots.timeout)" in str(raised.value) and "needs 3 slots" in str(raised.value)
    assert heard.there.is_set()


@pytest.mark.parametrize("master", ["local", "local[1]"])
def test_slots_that_never_come_are_not_waited_for(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "available_slots", lambda spark, profile: 1)
    monkeypatch.setattr(slots, "check_alive", lambda spark: None)
    session = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    clock = Growing()
    with pytest.raises(ClusterError, match=r"needs 3 slots .*master=local\[3\]"):
        check_slots(session, 3, 60, clock, lambda: False)  # type: ignore[arg-type]
    assert clock.now < 60


@pytest.mark.parametrize(
    ("master", "least", "needed"),
    [
        ("spark://head:7077", None, 4),
        ("spark://head:7077", 1, 1),
        ("yarn", 3, 3),
        ("yarn", 9, 4),
        ("local-cluster[2,1,1024]", 1, 1),
        ("local[2]", 1, 4),
        ("local", 1, 4),
    ],
)
def test_a_job_that_goes_on_with_fewer_slots_starts_with_fewer(
    master: str, least: int | None, needed: int
) -> None:
    """But not where there never will be more: that is said at once."""
    session = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    assert slots_to_begin_with(session, 4, least) == needed  # type: ignore[arg-type]


def terms(master: str, **settings: str) -> None:
    session = SimpleNamespace(sparkContext=SimpleNamespace(master=master, applicationId="app"))
    config = Configuration.from_dict({f"penstock.slots.{key}": text for key, text in settings.items()})
    assert slot_profile(session, config) is None  # type: ignore[arg-type]


def test_what_a_slot_takes_that_spark_cannot_count() -> None:
    terms("local[4]")
    terms("yarn")
    for wanted in ({"cpus": "2"}, {"resources": "gpu:1"}):
        for master in ("local[4]", "local"):
            with pytest.raises(ClusterError) as raised:
                terms(master, **wanted)
            assert "penstock.slots.cpus" in str(raised.value)
            assert f"Spark's {master} does not know" in str(raised.value)
    for wrong in ("gpu:0", "gpu:-1", "gpu:1.5", "gpu:nan", "gpu:inf", "gpu:many"):
        with pytest.raises(ConfigError, match=f"{wrong} will not do: it is a whole number, or a share"):
            terms("yarn", cpus="1", resources=wrong)
    with pytest.raises(ConfigError, match="at least 1"):
        terms("yarn", cpus="0")
