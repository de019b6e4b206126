"""One event's course through the partial matches of its key, and the course of time.

An event is offered to every open option of every partial match.  It may be taken (a longer partial match),
passed over (the option stays open) or end the option; taken and passed over both happen where contiguity
is ANY.  Then it is tried as a first event.  Before all that, time advances: what ran out is ended first, so
a match that would be complete exactly when its time is over is none.

Order: matches that become complete together come out by their events, compared one by one, earlier events
first; then by the steps that took them, in the order of the pattern.  Nothing depends on how input is cut
into batches or watermarks: deadlines are worked off one by one.

Between two events a :class:`Run` holds what is partial, and what is complete and waits: plain tuples of
numbers, which is also how it is stored.
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock.core.clock import Clock
from penstock.core.copying import Copier, copied
from penstock.core.errors import ConfigError
from penstock.operators.cep.automaton import ACCEPT, Automaton, Option
from penstock.operators.cep.buffer import NO_LINK, Buffer, Path, Shelf
from penstock.operators.cep.conditions import ConditionContext
from penstock.operators.cep.parts import Contiguity
from penstock.operators.cep.skip import AfterMatchSkipStrategy

Partial = tuple[int, int, int, int, tuple[int, ...], bool]
"""Last link, first event, its time, time of the last event taken, options still open, and whether no event
has come since the last one taken.  One partial match is one way events were taken, with all ways to go on."""

StoredRun = tuple[int, int, tuple[Partial, ...], tuple[int, ...]]
"""Next event, next link, partial matches by first event, links of complete ones that wait."""

NOTHING: StoredRun = (0, 0, (), ())


class Run:
    """The matching of one key, for the length of one call. ``load`` makes it that of another key."""

    __slots__ = ("_own", "buffer", "changed", "held", "next_event", "partials")

    def __init__(self, shelf: Shelf, own: Copier = copied) -> None:
        self._own = own
        self.buffer = Buffer(shelf)
        self.next_event = 0
        self.partials: list[Partial] = []
        self.held: list[int] = []
        self.changed = False

    def load(self, stored: StoredRun) -> None:
        """Take over what is stored for the key the shelf has turned to."""
        self.next_event, next_link, partials, held = stored
        self.partials, self.held = [*partials], [*held]
        self.buffer.turn_to(next_link)
        self.changed = False

    def stored(self) -> StoredRun | None:
        """What to store; ``None`` for nothing."""
        if not self.partials and not self.held:
            return None
        return self.next_event, self.buffer.next_link, tuple(self.partials), tuple(self.held)

    def give_up_before(self, event: int) -> None:
        """Forget all that began before ``event``."""
        gone = [partial[0] for partial in self.partials if partial[1] < event]
        self.partials = [partial for partial in self.partials if partial[1] >= event]
        waiting = [(link, self.buffer.path(link)[0][0]) for link in self.held]
        gone += [link for link, first in waiting if first < event]
        self.held = [link for link, first in waiting if first >= event]
        for link in gone:
            self.buffer.release(link)

    def match(self, path: Path, steps: tuple[str, ...], event: int, value: Any) -> dict[str, list[Any]]:
        """The events of a path by step; ``value`` is that of ``event``, which need not be in the buffer.

        They are the match's own: other matches may hold the same events.
        """
        found: dict[str, list[Any]] = {}
        for number, step in zip(*path, strict=True):
            taken = value if number == event else self.buffer.value(number)
            found.setdefault(steps[step], []).append(self._own(taken))
        return found


Match = dict[str, list[Any]]
_NONE = -1


class Listener(Protocol):
    """Who is told of matches, each at its time."""

    def matched(self, match: Match, time: int) -> None:
        """A match was found."""
        ...

    def timed_out(self, match: Match, time: int) -> None:
        """Time ended a partial match."""
        ...


class Matcher(ConditionContext):
    """Runs an automaton. ``reports_timeouts`` says whether anybody wants to hear of partial matches."""

    def __init__(
        self,
        automaton: Automaton,
        skip: AfterMatchSkipStrategy,
        listener: Listener,
        clock: Clock,
        reports_timeouts: bool,
    ) -> None:
        self._automaton = automaton
        self._options = automaton.options
        self._judges, self._iterative = automaton.judges, automaton.iterative
        self._skip = skip
        self._skips = skip.is_skip_strategy()
        self._listener = listener
        self._clock = clock
        self._reports = reports_timeouts
        self._has_gaps = automaton.has_gaps
        self._done: list[tuple[Path, Match]] = []
        self._known: dict[int, Any] = {}
        """Answers of conditions about the event."""
        self._known_here: dict[int, Any] = {}
        """The same, of those that depend on the partial match."""
        self._link = NO_LINK
        self._run: Run
        self._value: Any = None
        self._time = 0

    # --- what conditions see ----------------------------------------------------------------

    def get_events_for_pattern(self, name: str) -> list[Any]:
        steps = self._automaton.steps
        if name not in steps:
            raise ConfigError(f"get_events_for_pattern({name!r}): the pattern's steps are {', '.join(steps)}")
        step, buffer = steps.index(name), self._run.buffer
        events, taken_for = buffer.path(self._link)
        return [buffer.value(e) for e, taken in zip(events, taken_for, strict=True) if taken == step]

    def timestamp(self) -> int:
        return self._time

    def current_processing_time(self) -> int:
        return self._clock.now_ms()

    def _holds(self, condition: int) -> Any:
        memory = self._known_here if self._iterative[condition] else self._known
        answer = memory.get(condition)
        if answer is None:
            answer = memory[condition] = bool(self._judges[condition](self._value, self))
        return answer

    def _any_holds(self, conditions: tuple[int, ...]) -> bool:
        return any(self._holds(condition) for condition in conditions)

    # --- an event ---------------------------------------------------------------------------

    def feed(self, run: Run, value: Any, time: int) -> None:
        """The next event of the key. Time must have advanced to it already."""
        self._run, self._value, self._time = run, value, time
        self._known.clear()
        partials, run.partials = run.partials, []
        event = run.next_event
        for partial in partials:
            self._offer(run, partial, event)
        self._begin(run, event)
        if self._done or run.held:
            self._settle(run, time)

    def _offer(self, run: Run, partial: Partial, event: int) -> None:
        link, first, first_time, last_time, arms, fresh = partial
        self._link = link
        self._known_here.clear()
        open_: list[int] = []
        taken: dict[int, list[int]] = {}
        complete = False
        for arm in arms:
            option = self._options[arm]
            terms = option.terms
            if (terms.barred and self._any_holds(terms.barred)) or (
                fresh and terms.first and self._any_holds(terms.first)
            ):
                continue
            if option.step == ACCEPT:
                complete |= not terms.between
                stays = bool(terms.between)
            else:
                stays = self._try(option, taken)
            if stays and not (terms.between and self._any_holds(terms.between)):
                open_.append(arm)
        if complete:
            self._complete(run, link, _NONE, _NONE)
        if open_ and not fresh and len(open_) == len(arms):
            run.partials.append(partial)
        else:
            run.changed = True
            if open_:
                run.partials.append((link, first, first_time, last_time, tuple(open_), False))
        for step, targets in taken.items():
            self._take(run, link, step, targets, (event, first, first_time))
        if not open_:
            run.buffer.release(link)

    def _try(self, option: Option, taken: dict[int, list[int]]) -> bool:
        """Take the event if it fits; whether the event may also be passed over."""
        fits = self._holds(option.condition)
        if fits:
            targets = taken.setdefault(option.step, [])
            if option.target not in targets:
                targets.append(option.target)
        if option.contiguity is Contiguity.RELAXED:
            return not fits
        return option.contiguity is Contiguity.ANY

    def _begin(self, run: Run, event: int) -> None:
        """Try the event as the first of a match."""
        self._link = NO_LINK
        self._known_here.clear()
        taken: dict[int, list[int]] = {}
        for number in self._automaton.start:
            option = self._options[number]
            if not (option.terms.barred and self._any_holds(option.terms.barred)):
                self._try(option, taken)
        for step, targets in taken.items():
            self._take(run, NO_LINK, step, targets, (event, event, self._time))

    def _take(
        self, run: Run, before: int, step: int, targets: list[int], events: tuple[int, int, int]
    ) -> None:
        """The event becomes part of a match: complete, or longer, or both."""
        event, first, first_time = events
        states = self._automaton.states
        run.next_event = event + 1
        run.changed = True
        if any(states[target].final for target in targets):
            self._complete(run, before, step, event)
        arms = states[targets[0]].options
        for target in targets[1:]:
            arms += states[target].options
        if arms:
            link = run.buffer.add(before, step, event, self._value, self._time)
            run.partials.append((link, first, first_time, self._time, arms, True))

    # --- matches ----------------------------------------------------------------------------

    def _complete(self, run: Run, link: int, step: int, event: int) -> None:
        """A match: all up to ``link``, and the event if there is one."""
        if self._skips:
            if event == _NONE:
                run.buffer.hold(link)
            else:
                link = run.buffer.add(link, step, event, self._value, self._time)
            run.held.append(link)
            run.changed = True
            return
        events, steps = run.buffer.path(link)
        path = (events, steps) if event == _NONE else ((*events, event), (*steps, step))
        self._done.append((path, run.match(path, self._automaton.steps, event, self._value)))

    def _settle(self, run: Run, time: int) -> None:
        """Hand over what is complete, as the skip strategy says."""
        done, self._done = self._done, []
        if len(done) > 1:
            done.sort(key=lambda found: found[0])
        for _, match in done:
            self._listener.matched(match, time)
        while run.held:
            path, link = min((run.buffer.path(link), link) for link in run.held)
            if run.partials and run.partials[0][1] < path[0][0]:
                return
            steps = self._automaton.steps
            match = run.match(path, steps, _NONE, None)
            wanted = self._skip.first_wanted(path[0], tuple(steps[step] for step in path[1]))
            run.held.remove(link)
            run.buffer.release(link)
            run.give_up_before(wanted)
            run.changed = True
            self._listener.matched(match, time)

    # --- time -------------------------------------------------------------------------------

    def next_deadline(self, run: Run) -> int | None:
        """When time next ends something, if ever."""
        span = self._automaton.span_ms
        if not self._has_gaps:
            # Partial matches are in the order of their first events.
            return None if span is None or not run.partials else run.partials[0][2] + span
        found = [deadline for p in run.partials if (deadline := self._deadline(p)) is not None]
        return min(found, default=None)

    def _deadline(self, partial: Partial) -> int | None:
        _, _, first_time, last_time, arms, _ = partial
        gaps = (self._options[arm].gap_ms for arm in arms)
        ends = [last_time + gap for gap in gaps if gap is not None]
        if self._automaton.span_ms is not None:
            ends.append(first_time + self._automaton.span_ms)
        return min(ends, default=None)

    def advance(self, run: Run, now: int) -> None:
        """Time is ``now``: end what ran out up to then, in order."""
        self._run = run
        while (due := self.next_deadline(run)) is not None and due <= now:
            self._expire(run, due)

    def _expire(self, run: Run, due: int) -> None:
        run.changed = True
        ended: list[tuple[Path, int]] = []
        partials, run.partials = run.partials, []
        for partial in partials:
            link, first, first_time, last_time, arms, fresh = partial
            open_ = tuple(arm for arm in arms if not self._is_over(partial, arm, due))
            over = [self._options[arm] for arm in arms if arm not in open_]
            complete = any(option.step == ACCEPT and option.terms.between for option in over)
            if complete:
                self._complete(run, link, _NONE, _NONE)
            if open_:
                run.partials.append((link, first, first_time, last_time, open_, fresh))
            elif complete or not self._reports:
                run.buffer.release(link)
            else:
                ended.append((run.buffer.path(link), link))
        self._settle(run, due)
        for path, link in sorted(ended):
            self._listener.timed_out(run.match(path, self._automaton.steps, _NONE, None), due)
            run.buffer.release(link)

    def _is_over(self, partial: Partial, arm: int, due: int) -> bool:
        span, gap = self._automaton.span_ms, self._options[arm].gap_ms
        return (span is not None and partial[2] + span <= due) or (
            gap is not None and partial[3] + gap <= due
        )
