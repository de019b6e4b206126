"""The examples in the docstrings of public classes run, and every class that programs use has one.

An example is a piece of a session (``>>>``), in which all that ``penstock.common``, ``penstock.datastream``
with its ``window`` and ``state``, and ``penstock.columns`` offer is imported already, and ``env`` is a new
environment.  Jobs run in this process, with one subtask for each step, so that their order is certain.
"""

from __future__ import annotations

import asyncio
import doctest
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.datastream import StreamExecutionEnvironment
from penstock.testing import local_cluster
from tests.unit.test_public_names import NAMES

MODULES = [f"penstock.{name}" for name in ("common", "datastream", "columns")]
BELOW = [f"penstock.datastream.{name}" for name in ("window", "state", "functions")]
ALSO_THERE = [*MODULES, *BELOW, "penstock.datastream.connectors.number_seq", "penstock.cep"]

NO_EXAMPLE = """
    AssignerWithPeriodicWatermarksWrapper CustomCheckpointStorage CustomStateBackend
    SourceFunction SinkFunction TimeCharacteristic
    InputDependencyConstraint ExecutionMode
    Window WindowAssigner MergingWindowAssigner
""".split()
"""Names that ported programs bring along, and bases that only writers of windows need."""


def classes(modules: list[str]) -> Iterator[type]:
    found = {
        kind
        for module in modules
        for name in NAMES[module]
        if inspect.isclass(kind := getattr(importlib.import_module(module), name))
    }
    return iter(sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__)))


def documented(kind: type) -> Iterator[tuple[str, str]]:
    """The class and what it defines itself, by name, with their docstrings."""
    if kind.__doc__:
        yield kind.__qualname__, kind.__doc__
    for name, value in vars(kind).items():
        inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if (
            (inspect.isfunction(inner) or inspect.isclass(inner))
            and inner.__doc__
            and not name.startswith("_")
        ):
            yield f"{kind.__qualname__}.{name}", inner.__doc__


def session() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__", "asyncio": asyncio}
    for module in ALSO_THERE:
        found = importlib.import_module(module)
        names.update({name: getattr(found, name) for name in found.__all__})
    names["env"] = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    return names


def run(name: str, text: str) -> None:
    example = doctest.DocTestParser().get_doctest(text, session(), name, name, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    with local_cluster(slots=1):
        runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


EXAMPLES = [
    (name, text) for kind in classes([*MODULES, *BELOW]) for name, text in documented(kind) if ">>>" in text
]
EXAMPLES += [
    (module, doc) for module in MODULES if ">>>" in (doc := importlib.import_module(module).__doc__ or "")
]


@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_the_example_runs(name: str, text: str) -> None:
    run(name, text)


def test_an_example_that_is_wrong_is_found() -> None:
    with pytest.raises(AssertionError, match="Expected"):
        run("wrong", ">>> list(env.from_collection([1]).execute_and_collect())\n[2]")


def test_every_class_that_programs_use_has_an_example() -> None:
    lacking = [kind.__name__ for kind in classes(MODULES) if not any(">>>" in t for _, t in documented(kind))]
    assert sorted(lacking) == sorted(NO_EXAMPLE)
