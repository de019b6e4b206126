"""Errors on their way through Spark: what was raised in a worker arrives on the driver, and runs nothing."""

from __future__ import annotations

import base64
import json
import os
import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from penstock.connectors.log.errors import CorruptLogError
from penstock.core.errors import ConfigError, ConnectorError, PenstockError, UserCodeError
from penstock.spark.batch.task import new_mark, packed, unpacked

MARK = new_mark()


def through_spark(error: Exception, mark: str = MARK) -> Exception:
    """Spark puts a worker's error into a page of its own."""
    raised = packed(error, mark)
    return RuntimeError(f"An exception was thrown from the worker:\nRuntimeError: {raised}\n\tat org.apache")


def quoted(cell: str) -> Exception:
    """What Spark says of a cell that is no number."""
    return RuntimeError(
        f'[CAST_INVALID_INPUT] The value \'{cell}\' of the type "STRING" cannot be cast to "INT" because '
        "it is malformed. SQLSTATE: 22018\n== DataFrame ==\n\tat org.apache.spark.sql.errors"
    )


class Planted:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


def test_an_error_arrives_as_it_was_raised() -> None:
    raised = UserCodeError("divide", "2", "0", "ZeroDivisionError: division by zero\n  in é")
    arrived = unpacked(through_spark(raised), MARK)
    assert isinstance(arrived, UserCodeError) and str(arrived) == str(raised)
    assert vars(arrived) == vars(raised)
    arrived = unpacked(through_spark(ConfigError("no")), MARK)
    assert type(arrived) is ConfigError and str(arrived) == "no"


def test_errors_of_other_classes_arrive_as_the_nearest_known_with_their_text() -> None:
    arrived = unpacked(through_spark(CorruptLogError("bad frame")), MARK)
    assert type(arrived) is ConnectorError and str(arrived) == "bad frame"
    arrived = unpacked(through_spark(ZeroDivisionError("by zero")), MARK)
    assert type(arrived) is PenstockError and str(arrived) == "ZeroDivisionError: by zero"


def test_an_error_that_has_no_text_of_its_own_arrives() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    arrived = unpacked(through_spark(Mute()), MARK)
    assert type(arrived) is PenstockError and "Mute" in str(arrived)


def test_errors_of_spark_itself_are_left_to_others() -> None:
    assert unpacked(RuntimeError("ExecutorLostFailure"), MARK) is None


@pytest.mark.parametrize("mark", [MARK, "", new_mark()])
@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_pickle_in_the_text_of_an_error_is_never_loaded(tmp_path: Path, dumps: Any, mark: str) -> None:
    """The attack: a CSV cell with a pickle behind the mark; even who guesses the mark gets nothing loaded."""
    proof = tmp_path / "ran"
    pickled = base64.b64encode(dumps(Planted(f"touch {proof}"))).decode()
    for cell in (f"PENSTOCK-FAILED {pickled}", f"PENSTOCK-FAILED {mark} {pickled}", packed_as(pickled, mark)):
        unpacked(quoted(cell), MARK)
    assert not proof.exists()
    assert os.system(f"touch {proof}") == 0 and proof.exists(), "the command would have left its proof"


def packed_as(payload: str, mark: str) -> str:
    """A payload exactly where an error's own stands."""
    text = str(packed(ConfigError("x"), mark))
    return text.rpartition(" ")[0] + " " + payload


def test_text_without_this_runs_mark_is_not_taken_for_an_error() -> None:
    """Who wrote the data cannot know the mark, so it cannot even choose what the job's error says."""
    forged = base64.b64encode(json.dumps(["UserCodeError", ["step", "0", None, "lies"]]).encode()).decode()
    for mark in ("", "0" * 32, new_mark()):
        assert unpacked(quoted(packed_as(forged, mark)), MARK) is None
    assert unpacked(through_spark(ConfigError("of another run"), new_mark()), MARK) is None


@pytest.mark.parametrize(
    "said",
    [b"{", b"\xff", b"[]", b'"x"', b'["os", ["x"]]', b'["UserCodeError", ["x"]]']
    + [b'["ConfigError", [{"a": 1}]]', b'["as_error", ["x"]]', b'["UserCodeError", [1, 2, 3, 4]]']
    + [b"[" * 100_000],
)
def test_words_that_are_no_error_of_ours_are_left_to_others(said: bytes) -> None:
    text = packed_as(base64.b64encode(said).decode(), MARK)
    assert unpacked(quoted(text), MARK) is None
    assert unpacked(quoted(packed_as("====", MARK)), MARK) is None
