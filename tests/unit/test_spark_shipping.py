"""Which modules go to executors."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from penstock.spark.shipping import user_modules


@pytest.fixture
def imports_at_any_moment() -> Iterator[None]:
    """Modules appear while others look at them, as when a thread of another job imports something."""
    numbers = itertools.count()
    added: list[str] = []

    def add(phase: str, info: dict[str, int]) -> None:
        added.append(f"penstock_test_import_{next(numbers)}")
        sys.modules[added[-1]] = ModuleType(added[-1])

    threshold = gc.get_threshold()
    gc.callbacks.append(add)
    gc.set_threshold(10)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(add)
        for name in added:
            sys.modules.pop(name, None)
        assert added, "nothing was imported on the way"


def test_modules_may_be_imported_while_they_are_listed(imports_at_any_moment: None) -> None:
    found = user_modules()
    assert Path(__file__).resolve() in found
    assert not [path for path in found if path.name in ("pyarrow", "penstock")]
