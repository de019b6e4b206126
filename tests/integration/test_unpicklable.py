"""What cannot be pickled is named: the step, the variable or field, its type, and what to do."""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from typing import Any

import pytest
from local_jobs import environment

from penstock.common import Types
from penstock.core.errors import GraphError, JobFailedError, SnapshotError
from penstock.core.pickling import culprit
from penstock.datastream import KeyedProcessFunction, MapFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.state.rocks.values import encode
from penstock.testing.local import local_cluster


class Locked:
    def __init__(self) -> None:
        self.name = "x"
        self.lock = threading.Lock()


class Slotted:
    __slots__ = ("inner",)

    def __init__(self) -> None:
        self.inner = [1, {"deep": Locked()}]


class Writes(MapFunction):
    def __init__(self, file: Any) -> None:
        self.file = file

    def map(self, value: Any) -> Any:
        return self.file.write(str(value))


class Keeps(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        self.seen = context.get_state(ValueStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, context: Any) -> Any:
        self.seen.update(Locked())
        yield value


def closing_over(thing: Any) -> Any:
    return lambda value: (thing, value)


def loops() -> Any:
    made: list[Any] = [threading.Lock()]
    made.insert(0, made)
    return made


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Locked(), "field 'lock' of a Locked is a lock"),
        (Slotted(), "field 'lock' of a Locked is a lock"),
        ((1, threading.Lock()), "element 1 of a tuple is a lock"),
        ({"a": threading.Lock()}, "entry 'a' of a dict is a lock"),
        (
            closing_over(threading.Lock()),
            "variable 'thing' of function 'closing_over.<locals>.<lambda>' is a lock",
        ),
        (functools.partial(closing_over, Locked()), "field 'lock' of a Locked is a lock"),
        (Writes(number for number in [1]).map, "field 'file' of a Writes is a generator"),
        (threading.Lock(), "it is a lock"),
        (loops(), "element 1 of a list is a lock"),
    ],
)
def test_the_innermost_part_is_named(value: Any, words: str) -> None:
    assert culprit(value) == words


def test_an_open_file_in_a_closure_or_a_function_object(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        for function in (lambda value: file.write(str(value)), Writes(file)):
            env = environment(None)
            env.from_collection([1]).map(function).name("writer").print()
            with local_cluster(), pytest.raises(GraphError) as raised:
                env.execute("job")
            told = str(raised.value)
            assert "step 'writer' cannot be sent to the slots" in told and "'file' of" in told
            assert "is a TextIOWrapper" in told and "open() instead" in told


def test_state_that_is_stored_at_once_is_named_at_once() -> None:
    with pytest.raises(SnapshotError) as raised:
        encode(Locked())
    assert "field 'lock' of a Locked is a lock" in str(raised.value)
    assert "a value of keyed state cannot be stored" in str(raised.value)


def test_state_that_cannot_be_stored_names_step_state_and_field(tmp_path: Path) -> None:
    env = environment(
        tmp_path / "chk", execution__checkpointing__interval="10 ms", restart_strategy__type="none"
    ).set_parallelism(1)
    numbers = env.from_collection([1, 2])
    numbers.key_by(lambda v: v).process(Keeps()).name("keeper").print()
    with local_cluster(), pytest.raises(JobFailedError) as raised:
        env.execute("job")
    told = str(raised.value)
    assert "step 'keeper" in told and "state 'seen' cannot be stored" in told
    assert "field 'lock' of a Locked is a lock" in told and "open()" in told
    assert "#0" not in told
