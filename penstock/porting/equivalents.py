"""What Penstock has under a name of PyFlink: the modules themselves are asked, so it is never old.

Where there is no equivalent, the longest beginning of PyFlink's name says what to do.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

FROM, TO = "pyflink", "penstock"
_FIREHOSE = "there is no Firehose sink: write to a stream that Firehose reads"
_WRITE_ONE = (
    "there is no such connector: write a source or a sink, see docs/guides/writing-sources-and-sinks.md"
)
_JAVA = "there is no Java behind Penstock: do it in Python, or leave it out if it only reached for a setting"
_BY_BEGINNING = {
    "pyflink.table.catalog": "there are no catalogs: names are given by CREATE TABLE, see docs/guides/sql.md",
    "pyflink.table": "not there: DataFrames and SQL have a way to it, see docs/guides/sql.md",
    "pyflink.ml": "not there: call your model in a function, see docs/guides/columns.md",
    "pyflink.dataset": "gone from Flink 2, too: use a DataStream in BATCH mode, see docs/guides/batch.md",
    "pyflink.java_gateway": _JAVA,
    "pyflink.util.java_utils": _JAVA,
    "pyflink.util.exceptions": "errors of Java do not come here; catch penstock.core.errors.PenstockError",
    "pyflink.fn_execution": "inside of PyFlink's worker: nothing here has it",
    "pyflink.serializers": "inside of PyFlink's worker: nothing here has it",
    "pyflink.testing": "test with penstock.testing, see docs/guides/testing.md",
    "pyflink.shell": "not there: use any Python shell",
    "pyflink.find_flink_home": "not needed: there is no Flink to find",
    "pyflink.pyflink_gateway_server": _JAVA,
    "pyflink.datastream.connectors.kinesis.KinesisFirehoseSink": _FIREHOSE,
    "pyflink.datastream.connectors.elasticsearch": _WRITE_ONE,
    "pyflink.datastream.connectors.cassandra": _WRITE_ONE,
    "pyflink.datastream.connectors.pulsar": _WRITE_ONE,
    "pyflink.datastream.connectors.rabbitmq": _WRITE_ONE,
    "pyflink.datastream.connectors.dynamic_kafka": "use a KafkaSource per cluster and union them",
}
JAVA_ATTRIBUTE = re.compile(r"_?j_\w+|_?get_java_\w+|_jvm")
"""Attributes that hand out a Java object. Nothing of Penstock has them."""
JAVA_BY_NAME = {
    "SourceFunction": "a Java class cannot be a source: use a connector of penstock.datastream.connectors",
    "SinkFunction": "a Java class cannot be a sink: use a connector of penstock.datastream.connectors",
    "CustomStateBackend": "a Java class cannot hold state: use EmbeddedRocksDBStateBackend",
    "CustomCheckpointStorage": "a Java class cannot store checkpoints: use FileSystemCheckpointStorage",
    "CustomPartitioner": "a Java class cannot partition: write a Partitioner in Python",
}
"""Classes that PyFlink gives the name of a Java class, and what to do instead."""
NOT_NEEDED = {
    "add_jars": "not needed: connectors are Python; jars are not loaded, also if they hold code of your own",
    "add_classpaths": "not needed: connectors are Python; nothing is loaded",
}
"""Calls that are taken and do nothing."""
JAVA = _JAVA


class Absent(Exception):
    """There is nothing under this name; ``args[0]`` is PyFlink's name of the first part that is missing."""


def renamed(name: str) -> str:
    """``pyflink.common`` is ``penstock.common``."""
    return TO + name.removeprefix(FROM)


def is_pyflink(name: str | None) -> bool:
    """Whether a dotted name begins with PyFlink's package."""
    return name is not None and name.split(".")[0] == FROM


@cache
def module(name: str) -> Any:
    """The module that stands where ``name`` stands in PyFlink. Raises :class:`Absent`."""
    try:
        return importlib.import_module(renamed(name))
    except ImportError:
        parent = name.rpartition(".")[0]
        if parent:
            module(parent)  # names the outermost that is missing
        raise Absent(name) from None


def member(owner: Any, name: str, dotted: str) -> Any:
    """What ``owner.name`` is, a submodule included; ``dotted`` is its name in PyFlink."""
    try:
        return inspect.getattr_static(owner, name)
    except AttributeError:
        pass
    try:
        return getattr(owner, name)
    except AttributeError:
        if inspect.ismodule(owner) and hasattr(owner, "__path__"):
            return module(f"{FROM}{owner.__name__.removeprefix(TO)}.{name}")
    raise Absent(dotted)


def follow(start: Any, dotted: str, attributes: Sequence[str]) -> Any:
    """Go down from ``start`` from modules and classes to their members; of objects only a run would tell."""
    reached = start
    for name in attributes:
        if not (inspect.ismodule(reached) or inspect.isclass(reached)):
            return None
        dotted = f"{dotted}.{name}"
        reached = member(reached, name, dotted)
        if isinstance(reached, staticmethod | classmethod | property):
            return None
    return reached


def refuses(function: Any) -> bool:
    """Whether ``function`` is there to be imported only: a call always raises."""
    return inspect.isfunction(function) and function.__annotations__.get("return") in ("NoReturn", NoReturn)


def advice(dotted: str) -> str:
    """What to do about ``dotted``, a name of PyFlink that is not there."""
    for end in range(dotted.count(".") + 1, 1, -1):
        beginning = ".".join(dotted.split(".")[:end])
        if beginning in _BY_BEGINNING:
            return _BY_BEGINNING[beginning]
    return (
        elsewhere(dotted) or "there is nothing under this name: see docs/guides/pyflink.md for what differs"
    )


def has_a_home(dotted: str) -> bool:
    """Whether ``dotted``, of a module that is not there, is to be imported from another one."""
    return "import it from there" in advice(dotted)


def elsewhere(dotted: str) -> str | None:
    """Where Penstock has the last name of ``dotted``, or what is spelled alike in the same place."""
    owner, _, name = dotted.rpartition(".")
    if name in _homes():
        return f"it is in {_homes()[name]}: import it from there"
    try:
        near = difflib.get_close_matches(name, [n for n in dir(module(owner)) if n[0] != "_"], 1, 0.8)
    except Absent:
        return None
    return f"did you mean {near[0]}?" if near else None


@cache
def _homes() -> dict[str, str]:
    """Public names of the packages that programs import from, to the first module that lists them."""
    homes: dict[str, str] = {}
    for package in ("common", "datastream", "table"):
        top = module(f"{FROM}.{package}")
        inner = [found.name for found in pkgutil.walk_packages(top.__path__, f"{TO}.{package}.")]
        for name in (top.__name__, *(name for name in inner if "._" not in name)):
            found: Any = module(FROM + name.removeprefix(TO))
            for public in getattr(found, "__all__", ()):
                homes.setdefault(public, name)
    return homes
