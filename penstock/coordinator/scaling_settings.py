"""Bounds and goals of the autoscaler, as the settings have them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core import autoscaler_options as options
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ScalingSettings:
    """Bounds and goals. Times in milliseconds, shares from 0 to 1."""

    least: int = 1
    most: int = 200
    target: float = 0.7
    low: float = 0.4
    high: float = 0.95
    window_ms: int = 60_000
    stabilization_ms: int = 60_000
    catch_up_ms: int = 300_000
    down_ms: int = 3_600_000


def scaling_settings(config: Configuration) -> ScalingSettings | None:
    """What the settings say; ``None`` if the job keeps its parallelism."""
    if not config.get(options.AUTOSCALER_ENABLED):
        return None
    settings = ScalingSettings(
        config.get(options.AUTOSCALER_LEAST),
        config.get(options.AUTOSCALER_MOST),
        config.get(options.AUTOSCALER_TARGET),
        config.get(options.AUTOSCALER_LOW),
        config.get(options.AUTOSCALER_HIGH),
        config.get(options.AUTOSCALER_WINDOW),
        config.get(options.AUTOSCALER_STABILIZATION),
        config.get(options.AUTOSCALER_CATCH_UP),
        config.get(options.AUTOSCALER_DOWN),
    )
    if settings.least > settings.most:
        raise ConfigError(
            f"{options.AUTOSCALER_LEAST.key} is {settings.least}, more than "
            f"{options.AUTOSCALER_MOST.key}, {settings.most}"
        )
    if not settings.low < settings.target < settings.high:
        raise ConfigError(
            f"{options.AUTOSCALER_LOW.key} ({settings.low}), {options.AUTOSCALER_TARGET.key} "
            f"({settings.target}) and {options.AUTOSCALER_HIGH.key} ({settings.high}) must grow in this "
            "order: else a job that was rescaled would be rescaled again at once"
        )
    return settings
