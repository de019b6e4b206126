"""The basic sources and the collecting sink against the public suites."""

from __future__ import annotations

import queue

import numpy as np
import pyarrow as pa

from penstock.connectors.builtin.collection import CollectionSource
from penstock.connectors.builtin.datagen import DataGeneratorSource, NumberSequenceSource
from penstock.connectors.builtin.driver_output import CollectSink
from penstock.core.row import Row
from penstock.testing.conformance import SinkConformance, SourceConformance


class TestCollection(SourceConformance):
    def make_source(self, directory):
        return CollectionSource(list("penstock"), times=range(8))

    def expected(self):
        return list("penstock")


class TestNumberSequence(SourceConformance):
    parallelism = 3

    def make_source(self, directory):
        return NumberSequenceSource(-5, 15)

    def expected(self):
        return list(range(-5, 16))


class TestNumberColumns(SourceConformance):
    def make_source(self, directory):
        return NumberSequenceSource(1, 2, columns=True)

    def expected(self):
        return [Row(value=1), Row(value=2)]


class TestDataGenerator(SourceConformance):
    parallelism = 3

    def make_source(self, directory):
        return DataGeneratorSource(lambda i: i * i, count=10)

    def expected(self):
        return [i * i for k in range(3) for i in range(k, 10, 3)]


class TestRateLimitedColumns(SourceConformance):
    def make_source(self, directory):
        def generate(indices: np.ndarray) -> pa.RecordBatch:
            return pa.record_batch({"i": pa.array(indices)})

        return DataGeneratorSource(generate, count=30, rate_per_second=700, columns=True)

    def expected(self):
        return [Row(i=i) for k in range(2) for i in range(k, 30, 2)]


class TestCollectSink(SinkConformance):
    def make_sink(self, directory):
        self.queue: queue.SimpleQueue = queue.SimpleQueue()
        self.seen: list = []
        return CollectSink(self.queue)

    def visible(self, sink, directory):
        while not self.queue.empty():
            self.seen.append(self.queue.get())
        return self.seen
