"""The public names, pinned: adding one is a decision, removing one breaks programs.

Every public class and method also has a docstring (its own or inherited) and full annotations.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMES: dict[str, list[str]] = {
    module: names.split() for module, names in json.loads((HERE / "public_names.json").read_text()).items()
}
"""Every public module, and what it has for users."""

DOCUMENTED = [
    f"penstock.{name}" for name in ("common", "datastream", "columns", "dataframe", "cep", "state_processor")
]
"""Where every class and method says what it does and takes."""

CONTRACTS = ["penstock.state.backend", "penstock.state.keyed", "penstock.snapshot.recovery"]
CONTRACTS += ["penstock.snapshot.manifest", "penstock.state.heap.backend"]
CONTRACTS += [
    "penstock.operators.window.window_state",
    "penstock.operators.window.operator",
    "penstock.cli.main",
]
"""Modules of the engine that pages and examples about the engine itself show."""


@pytest.mark.parametrize("module", NAMES)
def test_the_public_names_are_these(module: str) -> None:
    found = importlib.import_module(module)
    assert sorted(found.__all__) == sorted(NAMES[module])
    missing = [name for name in NAMES[module] if not hasattr(found, name)]
    assert not missing, f"{module} promises names it does not have: {missing}"


def test_every_module_with_public_names_is_pinned() -> None:
    packages = ["penstock.common", "penstock.datastream", "penstock.datastream.connectors"]
    packages += ["penstock.datastream.formats", "penstock.metrics"]
    below = [
        f"{package}.{found.name}"
        for package in packages
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__)
        if not found.name.startswith("_")
    ]
    named = {name for name in below if hasattr(importlib.import_module(name), "__all__")}
    assert named <= set(NAMES), f"pin in public_names.json: {sorted(named - set(NAMES))}"
    assert len(named) > 50


def test_pages_and_examples_import_what_is_public() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
    pages += sorted((ROOT / "examples").rglob("*.py"))
    shown = re.compile(r"^\s*(?:from|import) (penstock[\w.]*)", re.MULTILINE)
    found = {(page.name, name) for page in pages for name in shown.findall(page.read_text(encoding="utf-8"))}
    wrong = sorted(f"{page}: {name}" for page, name in found if name not in (*NAMES, *CONTRACTS))
    assert len(found) > 50 and not wrong, wrong


def public_classes() -> Iterator[type]:
    for module in DOCUMENTED:
        for name in NAMES[module]:
            value = getattr(importlib.import_module(module), name)
            if inspect.isclass(value):
                yield value


def public_methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions behind a class's public methods, properties and constructors, inherited ones too."""
    for owner in kind.__mro__:
        if not owner.__module__.startswith("penstock."):
            continue
        for name, value in vars(owner).items():
            if name.startswith("_") and name != "__init__":
                continue
            if isinstance(value, property):
                value = value.fget
            elif isinstance(value, staticmethod | classmethod):
                value = value.__func__
            if inspect.isfunction(value):
                yield name, value


@pytest.mark.parametrize("kind", list(public_classes()), ids=lambda kind: kind.__name__)
def test_public_classes_are_documented(kind: type) -> None:
    assert inspect.getdoc(kind), f"{kind.__name__} has no docstring"
    silent = [
        name
        for name, function in public_methods(kind)
        if name != "__init__"
        and not function.__doc__
        and not any(getattr(getattr(base, name, None), "__doc__", None) for base in kind.__mro__[:-1])
    ]
    assert not silent, f"{kind.__name__}: no docstring on {', '.join(silent)}"


@pytest.mark.parametrize("kind", list(public_classes()), ids=lambda kind: kind.__name__)
def test_public_methods_are_annotated(kind: type) -> None:
    bare = []
    for name, function in public_methods(kind):
        parameters = list(inspect.signature(function).parameters.values())
        for parameter in parameters:
            if parameter.name not in ("self", "cls") and parameter.annotation is inspect.Parameter.empty:
                bare.append(f"{name}({parameter.name})")
        if inspect.signature(function).return_annotation is inspect.Signature.empty:
            bare.append(f"{name} -> ?")
    assert not bare, f"{kind.__name__}: not annotated: {', '.join(bare)}"
