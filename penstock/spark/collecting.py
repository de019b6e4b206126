"""How often Python looks for garbage in cycles while a slot or a task is at work."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (200_000, 20, 50)
"""Records die young and rarely in cycles: collecting as often as Python does by default costs more than
half of the time of a row function."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Within it garbage is looked for rarely, and not among what is there before."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
