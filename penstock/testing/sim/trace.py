"""What a person needs to understand a failing seed: what is wrong, how to see it again, what happened."""

from __future__ import annotations

from collections import Counter

_SHOWN = 5
_LINES = 200


class SimulationFailed(AssertionError):
    """A seed whose run broke a promise; the message tells its story."""

    def __init__(self, job: str, seed: int, problem: str, story: list[tuple[float, str]]) -> None:
        self.job = job
        self.seed = seed
        self.problem = problem
        self.story = story
        super().__init__(
            f"job {job!r}, seed {seed}: {problem}\n"
            f"see it again: simulate(..., seeds=[{seed}]) with the same faults and slots\n{tell_story(story)}"
        )


def tell_story(story: list[tuple[float, str]]) -> str:
    """The events of a run, one a line, with virtual times; of a long run the end."""
    lines = [f"{time:9.1f} ms  {text}" for time, text in story[-_LINES:]]
    if len(story) > _LINES:
        lines.insert(0, f"({len(story) - _LINES} earlier events are left out)")
    return "\n".join(lines)


def difference(expected: dict[str, list[str]], found: dict[str, list[str]]) -> str | None:
    """How two outputs differ, ``None`` if they do not."""
    parts = []
    for name, rows in expected.items():
        wanted, got = Counter(rows), Counter(found.get(name, []))
        if wanted != got:
            lost, extra = list((wanted - got).elements()), list((got - wanted).elements())
            both = filter(None, (_some("lacks", lost), _some("has too many", extra)))
            parts.append(f"sink {name!r} {', '.join(both)}")
    return "; ".join(parts) or None


def _some(what: str, rows: list[str]) -> str:
    if not rows:
        return ""
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"{what} {len(rows)}: {', '.join(rows[:_SHOWN])}{more}"
