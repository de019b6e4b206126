"""A browser for the length of the run, and a server with a job of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.console.fake_rest import FakeRest

if TYPE_CHECKING:
    from tests.console.browser import Browser


@pytest.fixture
def rest() -> Iterator[FakeRest]:
    """Answers for a job that does not exist."""
    with FakeRest() as fake:
        yield fake


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from tests.console.browser import chromium, why_not

    if reason := why_not():
        pytest.skip(reason)
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(_chromium: Browser) -> Iterator[Browser]:
    """Wide, at no page; a test that leaves a complaint of the page behind fails."""
    _chromium.size(1280, 900)
    yield _chromium
    complaints = _chromium.complaints()
    _chromium.leave()
    assert not complaints, "\n".join(complaints)
