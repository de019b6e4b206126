"""The simulator and the in-process cluster run the driver that production runs: only its ports are theirs."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import penstock.testing
from penstock.coordinator.driver import JobDriver
from penstock.coordinator.ports import Cluster, Lane, Storage
from penstock.testing.local import LocalCluster
from penstock.testing.sim.driver_ports import AuditedStorage, SimLane

ENGINE = "penstock.coordinator."


def is_port(kind: type) -> bool:
    """Whether a class only says what there is to implement."""
    return inspect.isabstract(kind) or bool(getattr(kind, "_is_protocol", False))


def meddling(kind: type) -> list[str]:
    """What of the driver's own a class changes: all that it does with one of its classes but a port."""
    bases = [base for base in kind.__mro__[1:] if base.__module__.startswith(ENGINE)]
    found = [
        f"{kind.__qualname__} is a {base.__qualname__}, which is no port"
        for base in bases
        if not is_port(base)
    ]
    for base in bases:
        names = {name for name in vars(base) if name.startswith("_") and not name.startswith("__")}
        own = names & set(vars(kind)) - {"_abc_impl", "_is_protocol", "_is_runtime_protocol"}
        found += [f"{kind.__qualname__} overrides {base.__qualname__}.{name}" for name in sorted(own)]
    return found


def classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(penstock.testing.__path__, "penstock.testing."):
        found: Any = vars(import_module(module.name)).values()
        yield from (kind for kind in found if inspect.isclass(kind) and kind.__module__ == module.name)


def test_the_testing_kit_implements_ports_and_changes_nothing_else() -> None:
    kinds = list(classes())
    assert {LocalCluster, SimLane, AuditedStorage} <= set(kinds)
    assert [line for kind in kinds for line in meddling(kind)] == []


def test_what_is_no_port_would_be_found() -> None:
    class Quiet(JobDriver):
        def _end(self, instruction: Any) -> None: ...

    no_port, overrides = meddling(Quiet)
    assert no_port.endswith("is a JobDriver, which is no port") and overrides.endswith("JobDriver._end")
    assert all(map(is_port, (Cluster, Lane, Storage)))
