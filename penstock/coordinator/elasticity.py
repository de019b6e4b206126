"""A job goes on with the slots that there are, and takes back what it lacks when there are more.  Pure.

As Flink's adaptive scheduler.  While the slots of an attempt are waited for, the cluster is asked again and
again how many it has room for; if that has been too few for a while, and the same number throughout, the
attempt is given up for one that fits.  While a job runs on fewer slots than it wants, the same is asked; if
there has been room for more for a while, the job is rescaled in place (``rescaling.py``).

What a job wants is the parallelism that it was started with, or that somebody asked for since; what it gets
because slots are gone does not change that.  An attempt that is a phase of a rescale is left alone: it turns
back by itself.
"""

from __future__ import annotations

from penstock.coordinator.elastic_settings import ElasticSettings
from penstock.coordinator.events import Instruction, LayOut, LookForSlots, Regain, Rescaled
from penstock.coordinator.phases import JobPhase
from penstock.coordinator.rescaling import Rescaling
from penstock.core.clock import later
from penstock.core.elastic_options import LEAST_SLOTS
from penstock.core.ids import Generation, MonoMs

_LOOK_MS = 100, 1000
"""Time between two looks, at least and at most."""
_MOST_DOUBLINGS = 6


class Elasticity:
    """Watches the slots of one job."""

    def __init__(self, settings: ElasticSettings | None) -> None:
        self._settings = settings or ElasticSettings()
        self._look_ms = min(max(self._settings.smaller_ms, _LOOK_MS[0]), _LOOK_MS[1])
        self._is_on = settings is not None
        self._starting = False
        self._due: MonoMs | None = None
        """When to look; ``None`` while nothing is to be decided."""
        self._room: int | None = None
        self._since = MonoMs(0)
        """Since when there has been as much room as there is, or the job was last told to take it."""
        self._settled = False
        """Whether nothing more is to be decided before the room changes."""

    def entered(self, phase: JobPhase, rescaling: Rescaling, now: MonoMs) -> None:
        """The job is in another phase: what was seen in the one before does not count."""
        self._starting = phase is JobPhase.STARTING and not rescaling.is_open
        watches = self._starting or (phase is JobPhase.RUNNING and rescaling.lacks > 0)
        self._due = now if self._is_on and watches else None
        self._room, self._settled = None, False

    def next_wake(self) -> MonoMs | None:
        """When :meth:`look` is due."""
        return self._due

    def look(self, generation: Generation, now: MonoMs) -> list[Instruction]:
        """Ask how many slots there is room for, if it is time."""
        if self._due is None or now < self._due:
            return []
        self._due = later(now, self._look_ms)
        return [LookForSlots(generation)]

    def found(
        self, generation: Generation, room: int, rescaling: Rescaling, now: MonoMs
    ) -> list[Instruction]:
        """There is room for so many slots: what is to be done."""
        if self._due is None:
            return []
        if room != self._room:
            self._room, self._since, self._settled = room, now, False
        if self._settled:
            return []
        if self._starting:
            return self._smaller(generation, room, rescaling, now)
        return self._larger(generation, room, rescaling, now)

    def refused(self) -> None:
        """What was wanted cannot be had."""
        self._settled = True

    def _smaller(
        self, generation: Generation, room: int, rescaling: Rescaling, now: MonoMs
    ) -> list[Instruction]:
        plan, least = rescaling.layout.plan, self._settings.least
        if room >= plan.slots or not self._is_stable(self._settings.smaller_ms, now):
            return []
        self._settled = True
        seconds = (now - self._since) / 1000
        why = f"there has been room for {room} of {plan.slots} slots for {seconds:g} s"
        if room < least:
            return [Rescaled(f"the job waits for slots: {why}, and {LEAST_SLOTS.key} is {least}")]
        return [LayOut(generation, min(plan.parallelism, room), room, why)]

    def _larger(
        self, generation: Generation, room: int, rescaling: Rescaling, now: MonoMs
    ) -> list[Instruction]:
        parallelism, wanted = rescaling.layout.plan.parallelism, rescaling.wanted
        wait_ms = self._settings.larger_ms << min(rescaling.in_vain, _MOST_DOUBLINGS)
        if min(room, wanted) <= parallelism or not self._is_stable(wait_ms, now):
            return []
        for_long = f"there has been room for {room} slots for {(now - self._since) / 1000:g} s"
        self._since = now
        text = f"the job wants {wanted} slots again and has {parallelism}: {for_long}"
        return [Rescaled(text), Regain(generation, min(room, wanted))]

    def _is_stable(self, for_ms: int, now: MonoMs) -> bool:
        """Whether the room has been the same for so long; if not, it is looked at again just then."""
        stable = later(self._since, for_ms)
        if now < stable and self._due is not None:
            self._due = min(self._due, stable)
        return now >= stable
