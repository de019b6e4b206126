"""PyFlink's ``common.input_dependency_constraint``: kept for ported imports."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """When a task of a batch job could start in old Flink versions; has no effect here."""

    ANY = 0
    ALL = 1
