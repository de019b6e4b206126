"""When a job goes on with fewer slots than it wants, as the settings have it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.config import Configuration
from penstock.core.elastic_options import (
    LEAST_SLOTS,
    SCHEDULER,
    STABLE_BEFORE_LARGER,
    STABLE_BEFORE_SMALLER,
)
from penstock.core.errors import ConfigError
from penstock.core.options import SLOTS_TIMEOUT


@dataclass(frozen=True, slots=True)
class ElasticSettings:
    """Bounds. Times in milliseconds."""

    least: int = 1
    smaller_ms: int = 10_000
    larger_ms: int = 60_000


def elastic_settings(config: Configuration) -> ElasticSettings | None:
    """What the settings say; ``None`` if the job waits for all its slots."""
    if config.get(SCHEDULER).upper() != "ADAPTIVE":
        return None
    smaller_ms, timeout_ms = config.get(STABLE_BEFORE_SMALLER), config.get(SLOTS_TIMEOUT)
    if smaller_ms >= timeout_ms:
        raise ConfigError(
            f"{STABLE_BEFORE_SMALLER.key} is {smaller_ms / 1000:g} s and must be less than "
            f"{SLOTS_TIMEOUT.key}, {timeout_ms / 1000:g} s: behind that the attempt has failed. "
            "Lower the one, or raise the other"
        )
    return ElasticSettings(config.get(LEAST_SLOTS), smaller_ms, config.get(STABLE_BEFORE_LARGER))
