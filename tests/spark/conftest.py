"""All tests on Spark start their JVMs in the same quick way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from class_archive import quick_options


@pytest.fixture(scope="session")
def java_options() -> str:
    """See :mod:`class_archive`."""
    return quick_options()


@pytest.fixture(scope="module", autouse=True)
def quick_java(java_options: str) -> Iterator[None]:
    """For everything that a test starts; servers that are no part of Spark get the same and do not mind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", java_options)
        yield
