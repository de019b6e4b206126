"""Tests of single parts start no Spark, not even by accident: it is slow, and others would lean on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.datastream.job import Program, run_as


class NoSpark:
    """Stands where jobs go without a ``local_cluster``."""

    def default_parallelism(self) -> int:
        raise AssertionError("this would start Spark: use local_cluster, or move the test to tests/spark")

    def launch(self, spec: object) -> object:
        raise AssertionError("this would start Spark: use local_cluster, or move the test to tests/spark")


@pytest.fixture(autouse=True, scope="session")
def no_spark() -> Iterator[None]:
    with run_as(Program(NoSpark())):
        yield
