"""The public test kit: run programs without Spark, simulate them with faults, check connectors."""

from penstock.testing.harness import Harness, PendingTimer
from penstock.testing.items import EndOfInput, ProcessingTimeTo, Record, WatermarkTo
from penstock.testing.local import local_cluster
from penstock.testing.sim.connectors import SimSink, SimSource
from penstock.testing.sim.faults import Faults
from penstock.testing.sim.limits import Limits
from penstock.testing.sim.process import SimScript
from penstock.testing.sim.run import SimulationFailed
from penstock.testing.sim.simulation import Report, simulate
from penstock.testing.verify import VerificationFailed, verify

__all__ = [
    "EndOfInput",
    "Faults",
    "Harness",
    "Limits",
    "PendingTimer",
    "ProcessingTimeTo",
    "Record",
    "Report",
    "SimScript",
    "SimSink",
    "SimSource",
    "SimulationFailed",
    "VerificationFailed",
    "WatermarkTo",
    "local_cluster",
    "simulate",
    "verify",
]
