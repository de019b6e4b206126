"""What a Spark master's name says of where tasks run. Pure."""

from __future__ import annotations


def is_in_driver(master: str) -> bool:
    """Whether the driver's JVM runs all tasks: there never are more slots than at first, nor are they counted
    by what they take.
    """
    return master == "local" or master.startswith("local[")


def is_here(master: str) -> bool:
    """Whether all executors are on this machine; those of ``local-cluster`` are processes of their own."""
    return master.startswith("local")
