"""Programs with other sources and sinks than their own: what must stay as it is."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.past import substituted
from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.builtin.collection import CollectionSource
from penstock.connectors.log import Log, LogSource, Text
from penstock.connectors.source import Source
from penstock.core import options
from penstock.core.errors import GraphError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.job import Program, run_as
from penstock.graph.bounded import runs_in_batch
from penstock.graph.nodes import JobSpec
from penstock.replay.forking import BoundedSource, Until
from penstock.replay.substitute import Nowhere, refuse_stamped_later

UNTIMED = WatermarkStrategy.no_watermarks()


class Caught(Exception):
    """Instead of a job that runs."""

    def __init__(self, spec: JobSpec) -> None:
        super().__init__("caught")
        self.spec = spec


class Catcher:
    def default_parallelism(self) -> int:
        return 1

    def launch(self, spec: JobSpec) -> Any:
        raise Caught(spec)


@pytest.mark.parametrize("endless", [True, False])
def test_a_program_runs_in_the_mode_it_would_run_in(tmp_path: Path, endless: bool) -> None:
    """Sources that were made to end do not make a BATCH job: it would not look at the snapshot."""
    Log(tmp_path).create_topic("t", partitions=1)
    source: Source = LogSource(tmp_path, "t", Text()) if endless else CollectionSource([1])
    config = Configuration().set_string(options.RUNTIME_MODE.key, "AUTOMATIC")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.from_source(source, UNTIMED, "numbers").print()
    with (
        run_as(Program(Catcher())),
        substituted({}, lambda _, source, how: BoundedSource(source, how, Until()), lambda _: Nowhere()),
        pytest.raises(Caught) as caught,
    ):
        env.execute("automatic")
    spec = caught.value.spec
    assert all(node.source is None or node.source.bounded for node in spec.nodes)
    assert runs_in_batch(spec.configuration.get(options.RUNTIME_MODE), spec.nodes) is not endless


class Feeding(Nowhere):
    feeds_program = True


def test_a_program_that_goes_on_with_its_results_is_not_run_without_them() -> None:
    """It could write nothing in the place of its real results."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).sink_to(Feeding()).name("To DataFrame")
    with (
        run_as(Program(Catcher())),
        substituted({}, lambda _, source, how: source, lambda _: Nowhere()),
        pytest.raises(GraphError, match="what step 'To DataFrame' gives back"),
    ):
        env.execute("feeding")


TIMED = WatermarkStrategy.for_monotonous_timestamps()
BY_VALUE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)


@pytest.mark.parametrize(
    ("at_source", "later", "held", "refused"),
    [
        (BY_VALUE, BY_VALUE, True, False),
        (UNTIMED, BY_VALUE, False, True),
        (UNTIMED, TIMED, False, False),
        (UNTIMED, TIMED, True, True),
    ],
)
def test_event_time_that_is_made_behind_the_source_is_refused_where_it_matters(
    at_source: WatermarkStrategy,
    later: WatermarkStrategy,
    held: bool,
    refused: bool,
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_source(CollectionSource([1]), at_source, "numbers")
    env.from_collection([2]).assign_timestamps_and_watermarks(BY_VALUE).print()
    stream.map(lambda value: value).assign_timestamps_and_watermarks(later).print()
    with run_as(Program(Catcher())), pytest.raises(Caught) as caught:
        env.execute("stamped")
    nodes = caught.value.spec.nodes
    with pytest.raises(GraphError, match="only behind it") if refused else nullcontext():
        refuse_stamped_later(nodes, nodes[0], held)


def test_people_find_the_real_job_by_its_name() -> None:
    """It may be running on this machine, and is to be stopped, while this one runs."""
    for new_sink, name in ((lambda _: Nowhere(), "clicks-aside"), (None, "clicks")):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([1]).print()
        with (
            run_as(Program(Catcher())),
            substituted({}, lambda _, source, how: source, new_sink),
            pytest.raises(Caught) as caught,
        ):
            env.execute("clicks")
        assert caught.value.spec.name == name
