"""Job identity, status, clients, metrics, and the names the package exports."""

from concurrent.futures import Future

import pytest

import penstock.common as common
from penstock.common import (
    CompletableFuture,
    InputDependencyConstraint,
    JobClient,
    JobExecutionResult,
    JobID,
    JobStatus,
)
from penstock.common.io import InputFormat
from penstock.core.errors import ConfigError, JobFailedError
from penstock.metrics import Counter, Distribution, Meter, Metric, MetricGroup


def test_job_ids():
    assert JobID.of_name("word count") == JobID.of_name("word count") != JobID.of_name("other")
    assert str(JobID.of_name("a")) == "ca978112ca1bbdcafac231b39a23dc4d"
    with pytest.raises(ConfigError, match="32 digits"):
        JobID("xyz")


def test_statuses_that_end_a_job():
    assert {s for s in JobStatus if s.is_globally_terminal_state()} == {
        JobStatus.FAILED,
        JobStatus.CANCELED,
        JobStatus.FINISHED,
    }
    assert {s for s in JobStatus if s.is_terminal_state()} - {JobStatus.SUSPENDED} == {
        s for s in JobStatus if s.is_globally_terminal_state()
    }


class Handle:
    """A job that obeys at once."""

    def __init__(self):
        self.job_id = JobID.of_name("j")
        self.ended = Future()
        self.calls = []

    def status(self):
        return JobStatus.FINISHED if self.ended.done() else JobStatus.RUNNING

    def _done(self, value):
        future = Future()
        future.set_result(value)
        return future

    def cancel(self):
        return self._done(None)

    def result(self):
        return self.ended

    def trigger_savepoint(self, directory):
        self.calls.append(directory)
        return self._done("sp-1")

    def stop_with_savepoint(self, drain, directory):
        self.calls.append((drain, directory))
        return self._done("sp-2")


def test_job_client():
    handle = Handle()
    client = JobClient(handle)
    assert client.get_job_id() == handle.job_id
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert client.trigger_savepoint("dir").result() == "sp-1"
    assert client.stop_with_savepoint(True).result() == "sp-2"
    assert handle.calls == ["dir", (True, None)]
    assert client.cancel().result() is None
    assert client.get_accumulators().result() == {}
    waiting = client.get_job_execution_result()
    assert not waiting.done()
    handle.ended.set_result(JobExecutionResult(handle.job_id, 12, {"n": 3}))
    result = waiting.result()
    assert (result.get_job_id(), result.get_net_runtime()) == (handle.job_id, 12)
    assert result.get_accumulator_result("n") == 3
    assert result.get_all_accumulator_results() == {"n": 3}
    assert result.get_accumulator_result("none") is None
    assert client.get_job_status().result() is JobStatus.FINISHED


def test_failed_and_cancelled_futures():
    failed = Future()
    failed.set_exception(JobFailedError("no"))
    future = CompletableFuture(failed)
    assert isinstance(future.exception(), JobFailedError)
    with pytest.raises(JobFailedError):
        future.result()
    pending = CompletableFuture(Future())
    assert pending.cancel() and pending.cancelled()
    with pytest.raises(TimeoutError):
        CompletableFuture(Future()).result(timeout=0)


def test_metrics_are_metrics():
    group = MetricGroup()
    assert isinstance(group.counter("c"), Counter) and isinstance(group.counter("c"), Metric)
    assert isinstance(group.meter("m"), Meter) and isinstance(group.meter("m"), Metric)
    assert isinstance(group.distribution("d"), Distribution) and isinstance(group.distribution("d"), Metric)


def test_exports():
    assert sorted(common.__all__) == common.__all__
    assert all(hasattr(common, name) for name in common.__all__)
    assert len(common.__all__) == 33
    assert InputDependencyConstraint.ANY.value == 0
    with pytest.raises(TypeError):
        InputFormat()
