"""Programs with other ends than their own: what must stay as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.rewired import rewired
from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.collection import CollectionSource
from penstock.connectors.log import Log, LogSource, Text
from penstock.connectors.source import Source
from penstock.core import options
from penstock.datastream import StreamExecutionEnvironment
from penstock.graph.bounded import runs_in_batch
from penstock.graph.job import JobSpec
from penstock.travel.forking import BoundedSource, Until
from penstock.travel.nowhere import Nowhere

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
def test_a_program_runs_in_the_mode_it_would_run_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endless: bool
) -> None:
    """Sources that were made to end do not make a BATCH job: it would not look at the snapshot."""
    Log(tmp_path).create_topic("t", partitions=1)
    source: Source = LogSource(tmp_path, "t", Text()) if endless else CollectionSource([1])
    config = Configuration().set_string(options.RUNTIME_MODE.key, "AUTOMATIC")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.from_source(source, UNTIMED, "numbers").print()
    monkeypatch.setattr(StreamExecutionEnvironment, "launcher", Catcher())
    with (
        rewired({}, lambda _, source, how: BoundedSource(source, how, Until()), lambda _: Nowhere()),
        pytest.raises(Caught) as caught,
    ):
        env.execute("automatic")
    spec = caught.value.spec
    assert all(node.source is None or node.source.bounded for node in spec.nodes)
    assert runs_in_batch(spec.configuration.get(options.RUNTIME_MODE), spec.nodes) is not endless
