"""The public test kit: run programs without Spark, simulate them with faults, check connectors."""

from penstock.testing.local import local_cluster
from penstock.testing.sim.ends import SimSink, SimSource
from penstock.testing.sim.faults import Faults
from penstock.testing.sim.simulation import Report, simulate
from penstock.testing.sim.story import SimulationFailed

__all__ = ["Faults", "Report", "SimSink", "SimSource", "SimulationFailed", "local_cluster", "simulate"]
