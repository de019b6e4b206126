"""Where working state lives while the job runs."""

from __future__ import annotations


class StateBackend:
    """Base of the kinds."""


class HashMapStateBackend(StateBackend):
    """In the memory of the slots."""
