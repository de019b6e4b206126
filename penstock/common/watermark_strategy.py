"""PyFlink's ``common.watermark_strategy``, and what PyFlink lacks: generators written in Python."""

from __future__ import annotations

from penstock.common.time import Duration
from penstock.core.elsewhere import shown_in
from penstock.core.errors import ConfigError
from penstock.event_time.timestamp_assigners import TimestampAssigner
from penstock.event_time.watermark_generators import WatermarkGenerator, WatermarkOutput
from penstock.event_time.watermark_strategy import WatermarkStrategy

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "TimestampAssigner",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]

shown_in(__name__, ["TimestampAssigner", "WatermarkGenerator", "WatermarkOutput", "WatermarkStrategy"])

# PyFlink has these here, too, from its other modules.
__all__ += ["Duration"]


class AssignerWithPeriodicWatermarksWrapper:
    """PyFlink's wrapper of an old Java interface; there is no Java here, so it cannot be made."""

    def __init__(self, *_: object) -> None:
        raise ConfigError(
            "AssignerWithPeriodicWatermarksWrapper wraps a Java object; write a WatermarkGenerator in "
            "Python and pass it to WatermarkStrategy.for_generator"
        )
