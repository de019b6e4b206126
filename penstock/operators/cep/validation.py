"""What a whole pattern must fulfil, beyond what each call could see."""

from __future__ import annotations

from collections import Counter

from penstock.core.errors import ConfigError
from penstock.operators.cep.parts import Part, steps_of


def span_of(parts: tuple[Part, ...]) -> int | None:
    """The time from first to last event: the shortest that was given anywhere."""
    return min((part.span_ms for part in steps_of(parts) if part.span_ms is not None), default=None)


def check_pattern(parts: tuple[Part, ...], skip_to: str | None) -> None:
    """Raise ``ConfigError`` with the first thing that cannot be run."""
    _check_names(parts, skip_to)
    for group in [parts, *(part.body for part in steps_of(parts) if part.body)]:
        _check_sequence(group, whole=group is parts)
    _check_greedy(parts, last=True)
    for part in steps_of(parts):
        if part.negated and part.gap_ms is not None and part is not parts[-1]:
            raise ConfigError(
                f"within(..., PREVIOUS_AND_CURRENT) on {part.name!r} has no effect before the end of the "
                "pattern: give it to the step that follows"
            )


def _check_names(parts: tuple[Part, ...], skip_to: str | None) -> None:
    names = Counter(part.name for part in steps_of(parts) if not part.body)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ConfigError(f"the pattern has several steps called {twice[0]!r}; each needs its own name")
    taken = {part.name for part in steps_of(parts) if not part.body and not part.negated}
    if skip_to is not None and skip_to not in taken:
        raise ConfigError(
            f"the skip strategy goes to {skip_to!r}, but the pattern's steps are {', '.join(sorted(taken))}"
        )


def _check_sequence(parts: tuple[Part, ...], whole: bool) -> None:
    if not whole and all(part.may_be_absent for part in parts):
        raise ConfigError(
            f"all steps of the group ({', '.join(part.name for part in parts)}) may be absent; make the "
            "group optional and one of its steps not"
        )
    if not whole and parts[-1].negated:
        raise ConfigError(f"{parts[-1].name!r} stands at the end of a group: put it behind the group")
    for place, part in enumerate(parts):
        if part.negated and all(before.may_be_absent for before in parts[:place]):
            raise ConfigError(
                f"{part.name!r} must not happen after steps that may all be absent, so it is not said after "
                "what; make one of them mandatory, or use two patterns"
            )


def _check_greedy(parts: tuple[Part, ...], last: bool) -> None:
    for part in reversed(parts):
        if last and part.greedy:
            raise ConfigError(
                f"{part.name!r} is greedy and may be the last of a match: nothing would tell that it has had "
                "its most; leave greedy() out, or end the pattern with a step that is not optional"
            )
        if part.body:
            _check_greedy(part.body, last)
        last = last and part.may_be_absent
