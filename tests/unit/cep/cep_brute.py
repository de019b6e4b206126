"""Matches by their definition: write down every way through the pattern, try all events, check the rules.

Nothing here is clever or fast.  A :class:`Spec` describes a pattern for tests; ``to_pattern`` writes it with
the public interface, ``Brute`` says what must come out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.cep import AfterMatchSkipStrategy, Pattern, WithinType

Event = tuple[str, int]
"""A letter and a number."""


@dataclass(frozen=True, eq=False)
class Spec:
    """A step, a not or a group. ``link`` is next, followed_by or followed_by_any; ``inner`` the same."""

    name: str
    letters: str = ""
    link: str = "followed_by"
    negated: bool = False
    body: tuple[Spec, ...] = ()
    least: int = 1
    most: int | None = 1
    inner: str = "followed_by"
    optional: bool = False
    greedy: bool = False
    until: str = ""
    gap: int | None = None
    rising: bool = False
    """The number must not be below the largest among the events taken so far for this step."""

    def fits(self, event: Event, taken: tuple[tuple[str, Event], ...]) -> bool:
        if event[0] not in self.letters or (self.until and event[0] in self.until):
            return False
        mine = [other[1] for name, other in taken if name == self.name]
        return not (self.rising and mine and event[1] < max(mine))


def to_pattern(
    specs: tuple[Spec, ...], skip: AfterMatchSkipStrategy | None = None, span: int | None = None
) -> Pattern:
    """The pattern as a user would write it."""
    pattern: Pattern | None = None
    for spec in specs:
        inside: Any = to_pattern(spec.body) if spec.body else spec.name
        if pattern is None:
            pattern = Pattern.begin(inside, skip)
        elif spec.negated:
            method = "not_next" if spec.link == "next" else "not_followed_by"
            pattern = getattr(pattern, method)(spec.name)
        else:
            pattern = getattr(pattern, spec.link)(inside)
        pattern = _with_details(pattern, spec)
    assert pattern is not None
    return pattern if span is None else pattern.within(span)


def _with_details(pattern: Pattern, spec: Spec) -> Pattern:
    if not spec.body:
        pattern = pattern.where(lambda event: event[0] in spec.letters)
    if spec.rising:
        pattern = pattern.where(lambda event, ctx: _rising(event, ctx.get_events_for_pattern(spec.name)))
    if spec.most is None:
        pattern = pattern.times_or_more(spec.least)
    elif spec.most != 1:
        pattern = pattern.times(spec.least, spec.most)
    if spec.most != 1 and spec.inner == "next":
        pattern = pattern.consecutive()
    if spec.most != 1 and spec.inner == "followed_by_any":
        pattern = pattern.allow_combinations()
    if spec.greedy:
        pattern = pattern.greedy()
    if spec.optional:
        pattern = pattern.optional()
    if spec.until:
        pattern = pattern.until(lambda event: event[0] in spec.until)
    if spec.gap is not None:
        pattern = pattern.within(spec.gap, WithinType.PREVIOUS_AND_CURRENT)
    return pattern


def _rising(event: Event, earlier: list[Event]) -> bool:
    return all(event[1] >= other[1] for other in earlier)


# --- ways through the pattern: lists of (what, spec, link) ---------------------------------------

Token = tuple[str, Spec, str]
Way = tuple[Token, ...]


def ways(specs: tuple[Spec, ...], limit: int) -> set[Way]:
    """All of them, cut off after ``limit`` events."""
    return {_cut(way, limit) for way in _sequence(specs, limit, None)}


def _sequence(specs: tuple[Spec, ...], limit: int, head: str | None) -> Iterator[Way]:
    links = [head or specs[0].link, *(spec.link for spec in specs[1:])]
    found: set[Way] = {()}
    for spec, link in zip(specs, links, strict=True):
        found = _joined(found, set(_one(spec, limit, link)), limit)
    yield from found


def _joined(before: set[Way], after: set[Way], limit: int) -> set[Way]:
    return {way for way in before if _is_cut(way)} | {
        _cut(a + b, limit) for a in before if not _is_cut(a) for b in after
    }


def _is_cut(way: Way) -> bool:
    return bool(way) and way[-1][0] == "cut"


def _one(spec: Spec, limit: int, link: str) -> Iterator[Way]:
    if spec.negated:
        yield (("not", spec, spec.link),)
        return
    more = (("greedy", spec, ""),) if spec.greedy else ()
    if spec.optional:
        yield more
    found: set[Way] = {()}
    for count in range(1, (spec.most or max(limit, spec.least)) + 1):
        tokens: Way = (("until", spec, ""),) if count > 1 and spec.until else ()
        this_link = spec.inner if count > 1 else link
        rounds: set[Way] = {(("take", spec, this_link),)}
        if spec.body:
            rounds = set(_sequence(spec.body, limit, this_link))
        found = _joined(found, {tokens + one for one in rounds}, limit)
        if count >= spec.least:
            yield from (way if count == spec.most or _is_cut(way) else way + more for way in found)


def _cut(way: Way, limit: int) -> Way:
    if _is_cut(way):
        return way
    takes = 0
    for place, token in enumerate(way):
        takes += token[0] == "take"
        if takes == limit:
            return way if place == len(way) - 1 else (*way[: place + 1], ("cut", token[1], ""))
    return way


# --- what comes out -------------------------------------------------------------------------------

Moment = tuple[int, int, int]
"""Time, 0 for a deadline or 1 for an event, number of the event."""
Content = tuple[tuple[int, ...], tuple[str, ...]]
NEVER: Moment = (10**9, 0, 0)


@dataclass
class _Ends:
    """When the ways to go on with a partial match end."""

    last: Moment = (-1, 0, 0)
    by_time: bool = False
    completed: set[Moment] = field(default_factory=set)


class Brute:
    """All matches of ``specs`` in ``events`` (sorted by time)."""

    def __init__(self, specs: tuple[Spec, ...], events: list[Event], times: list[int], span: int | None):
        self.events, self.times, self.span = events, times, span
        self.complete: dict[Moment, set[Content]] = defaultdict(set)
        self.partials: dict[Content, _Ends] = defaultdict(_Ends)
        self.ways = ways(specs, len(events) + 1)
        for way in self.ways:
            self._follow(way, 0, (), ())

    def _follow(self, way: Way, place: int, indices: tuple[int, ...], names: tuple[str, ...]) -> None:
        """All ways to place the rest of ``way``, its first events being placed."""
        rules: list[Token] = []
        while place < len(way) and way[place][0] != "take":
            rules.append(way[place])
            place += 1
        if rules and rules[-1][0] == "cut":
            return
        if place == len(way):
            if indices:
                self._end(rules, indices, names)
            return
        _, spec, link = way[place]
        taken = self._taken(indices, names)
        start = indices[-1] + 1 if indices else 0
        death = NEVER
        due = self._due(indices, spec.gap)
        for number in range(start, len(self.events)):
            if due is not None and self.times[number] >= due:
                break
            event = self.events[number]
            if indices and self._forbidden(rules, event, number == start, taken):
                death = (self.times[number], 1, number)
                break
            greedy = [s for what, s, _ in rules if what == "greedy"]
            if not indices and any(s.fits(event, ()) for s in greedy):
                continue
            fits = spec.fits(event, taken)
            if fits:
                self._follow(way, place + 1, (*indices, number), (*names, spec.name))
            passed = [s for what, s, how in rules if what == "not" and how != "next"]
            stuck = link == "next" or (link == "followed_by" and fits)
            if indices and (stuck or any(s.fits(event, taken) for s in passed)):
                death = (self.times[number], 1, number)
                break
        if indices:
            self._note((indices, names), death, due)

    def _end(self, rules: list[Token], indices: tuple[int, ...], names: tuple[str, ...]) -> None:
        """The way is through, but for what must not follow."""
        nots = [(spec, link) for what, spec, link in rules if what == "not"]
        last = indices[-1]
        content = (indices, names)
        if not nots:
            self.complete[(self.times[last], 1, last)].add(content)
            return
        lasting = [spec for spec, link in nots if link != "next"]
        due = self._due(indices, nots[-1][0].gap)
        taken = self._taken(indices, names)
        for number in range(last + 1, len(self.events)):
            if due is not None and self.times[number] >= due:
                break
            event = self.events[number]
            moment = (self.times[number], 1, number)
            first = number == last + 1
            if first and any(spec.fits(event, taken) for spec, link in nots if link == "next"):
                self._note(content, moment, None)
                return
            if not lasting:
                self.complete[moment].add(content)
            if not lasting or any(spec.fits(event, taken) for spec in lasting):
                self._note(content, moment, None)
                return
        if lasting:
            assert due is not None
            self.complete[(due, 0, 0)].add(content)
            self.partials[content].completed.add((due, 0, 0))
        self._note(content, NEVER, due)

    def _forbidden(self, rules: list[Token], event: Event, first: bool, taken: Any) -> bool:
        """Whether an event after the last one taken ends this way, be it taken or not."""
        for what, spec, link in rules:
            if what == "greedy" and spec.fits(event, taken):
                return True
            if what == "until" and event[0] in spec.until:
                return True
            if what == "not" and link == "next" and first and spec.fits(event, taken):
                return True
        return False

    def _taken(self, indices: tuple[int, ...], names: tuple[str, ...]) -> tuple[tuple[str, Event], ...]:
        return tuple((name, self.events[i]) for i, name in zip(indices, names, strict=True))

    def _due(self, indices: tuple[int, ...], gap: int | None) -> int | None:
        if not indices:
            return None
        due = [] if self.span is None else [self.times[indices[0]] + self.span]
        if gap is not None:
            due.append(self.times[indices[-1]] + gap)
        return min(due, default=None)

    def _note(self, content: Content, death: Moment, due: int | None) -> None:
        by_time = death == NEVER and due is not None
        moment = (due, 0, 0) if by_time and due is not None else death
        ends = self.partials[content]
        if moment > ends.last:
            ends.last, ends.by_time = moment, by_time

    # --- with a skip strategy ---------------------------------------------------------------

    def outcome(self, skip: AfterMatchSkipStrategy) -> tuple[list[Any], list[Any]]:
        """Matches and timed-out partial matches, each with its time, in order."""
        timeouts: dict[Moment, list[Content]] = defaultdict(list)
        for content, ends in self.partials.items():
            if ends.by_time and ends.last not in ends.completed:
                timeouts[ends.last].append(content)
        deaths = {ends.last for ends in self.partials.values()}
        wanted, held = 0, set[Content]()
        matches: list[Any] = []
        ended: list[Any] = []
        for moment in sorted({*self.complete, *deaths, *timeouts}):
            if moment == NEVER:
                break
            ended += [(self._shown(c), moment[0]) for c in sorted(timeouts[moment]) if c[0][0] >= wanted]
            held |= {c for c in self.complete[moment] if c[0][0] >= wanted}
            while held:
                best = min(held)
                if skip.is_skip_strategy() and self._is_open_before(best[0][0], wanted, moment):
                    break
                held.remove(best)
                matches.append((self._shown(best), moment[0]))
                if skip.is_skip_strategy():
                    wanted = max(wanted, self._first_wanted(skip, best))
                    held = {c for c in held if c[0][0] >= wanted}
        return matches, ended

    def _is_open_before(self, first: int, wanted: int, moment: Moment) -> bool:
        return any(
            wanted <= indices[0] < first and self._born(indices) <= moment < ends.last
            for (indices, _), ends in self.partials.items()
        )

    def _born(self, indices: tuple[int, ...]) -> Moment:
        return (self.times[indices[-1]], 1, indices[-1])

    @staticmethod
    def _first_wanted(skip: AfterMatchSkipStrategy, content: Content) -> int:
        indices, names = content
        kind = skip.to.name
        if kind == "NEXT":
            return indices[0] + 1
        if kind == "PAST_LAST":
            return indices[-1] + 1
        mine = [i for i, name in zip(indices, names, strict=True) if name == skip.pattern_name]
        return indices[0] if not mine else mine[0] if kind == "FIRST_OF" else mine[-1]

    def _shown(self, content: Content) -> tuple[tuple[str, Event], ...]:
        return self._taken(*content)
