"""``penstock debug``: one key's state from a snapshot, and what the records after it do to it, one by one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from penstock.cli.output import console, moment
from penstock.cli.past import PastPlace, own_checkpoints, read_place, substituted
from penstock.cli.program_options import check_program, non_restored_option, settings_of, settings_option
from penstock.cli.run import ProgramError, as_program, execute
from penstock.connectors.source import Source
from penstock.core.errors import ConfigError, GraphError, JobFailedError
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.graph.nodes import JobSpec, Node
from penstock.replay.debugger import Cause, StateView, Step, watched
from penstock.replay.replayed import Piece, ReplayedSource, refuse_uncut, replayed
from penstock.replay.substitute import Nowhere
from penstock.testing.local import local_cluster

_SLOTS = 64
_SHOWN = 300


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("snapshot")
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--key", required=True, help="The key, as text.")
@click.option("--operator", metavar="UID", help="The keyed step, by uid or name, if there are several.")
@click.option(
    "--until", "end", metavar="TIME|OFFSETS", help="Where to end [default: where the input ends now]."
)
@click.option("--steps", default=20, show_default=True, type=click.IntRange(1), help="Most records shown.")
@settings_option
@non_restored_option
@click.pass_context
def debug(
    ctx: click.Context,
    snapshot: str,
    script: Path,
    args: tuple[str, ...],
    key: str,
    operator: str | None,
    end: str | None,
    steps: int,
    settings: tuple[str, ...],
    allow_non_restored_state: bool,
) -> None:
    """Step through what SCRIPT does to one key, from SNAPSHOT on.

    Runs in this process, without Spark, at parallelism 1: a breakpoint() in the program works. Nothing is
    written anywhere. SNAPSHOT is a savepoint, a checkpoint, or "earliest" for no state at all.
    """
    check_program(script)
    begin = _snapshot(snapshot)
    stop = read_place(end, "--until") if end else PastPlace()
    if stop.snapshot is not None:
        raise click.UsageError("--until takes a time or offsets, not a snapshot")
    overrides = settings_of(
        settings,
        parallelism=1,
        snapshot=begin.snapshot,
        allow_non_restored_state=allow_non_restored_state,
    )
    piece = Piece(end_ms=stop.time, ends=stop.offsets, from_first=begin == PastPlace())
    show, sources = _Shown(key, steps), _Sources(piece)
    with (
        local_cluster(_SLOTS) as local,
        substituted(overrides, sources.cut, _nowhere) as launcher,
        own_checkpoints(overrides) as own,
        as_program(script, args, own),
    ):
        launcher.change = lambda spec: _with_watched(sources.checked(spec), operator, key, show)
        show.stop = lambda: local.jobs[-1].cancel()
        try:
            execute(script, bool(ctx.find_root().params.get("debug")))
            for job in local.jobs:
                job.result().result()
        except (ProgramError, JobFailedError):
            if not show.is_done:
                raise
    show.summary()


def _snapshot(text: str) -> PastPlace:
    """A place that is a snapshot, or the very beginning."""
    with suppress(click.UsageError):
        place = read_place(text, "SNAPSHOT")
        if place.time is None and place.offsets is None:
            return place
    raise ConfigError(
        f"there is no snapshot at {text!r}; give the path of a savepoint or checkpoint, or 'earliest'"
    )


def _nowhere(name: str) -> Nowhere:
    return Nowhere()


class _Sources:
    """The same piece of every source; offsets may be of any of them."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._parts: list[ReplayedSource] = []

    def cut(self, name: str, source: Source, strategy: WatermarkStrategy) -> Source:
        made, parts = replayed(source, strategy, self._piece, alone=False)
        self._parts += parts
        return made

    def checked(self, spec: JobSpec) -> JobSpec:
        refuse_uncut(spec.nodes, self._piece, self._parts)
        return spec


def _with_watched(spec: JobSpec, wanted: str | None, key: str, show: _Shown) -> JobSpec:
    node = _keyed_step(spec, wanted)
    show.begin(node)
    nodes = tuple(watched(node, key, show, show.restored) if other is node else other for other in spec.nodes)
    return replace(spec, nodes=nodes)


def _keyed_step(spec: JobSpec, wanted: str | None) -> Node:
    keyed = [node for node in spec.nodes if node.keyed]
    found = [node for node in keyed if wanted in (None, node.uid, node.name)]
    if len(found) != 1:
        names = ", ".join(repr(node.uid or node.name) for node in keyed) or "none"
        problem = "there is no such keyed step" if wanted else "say which keyed step to watch"
        raise GraphError(f"{problem}: give one of them as --operator: {names}")
    if found[0].in_columns:
        raise GraphError(
            f"step {found[0].name!r} takes many keys at once, in columns, so there is no stepping through it "
            "record by record; look into its state with penstock state query"
        )
    return found[0]


class _Shown:
    """Prints steps as they happen, and ends the job after so many."""

    def __init__(self, key: str, most: int) -> None:
        self._key = key
        self._most = most
        self._count = 0
        self._restored: StateView = {}
        self._out = console()
        self.stop: Callable[[], object] = lambda: None

    @property
    def is_done(self) -> bool:
        """Whether enough was shown."""
        return self._count >= self._most

    def begin(self, node: Node) -> None:
        """The job is about to start."""
        self._say(f"key {self._key} in step {node.uid or node.name}")

    def restored(self, state: StateView) -> None:
        """What a subtask has of the key at the start; only one of them has anything."""
        self._restored |= state

    def __call__(self, step: Step) -> None:
        if self.is_done:
            return
        if not self._count:
            self._state("state in the snapshot", self._restored)
        self._count += 1
        self._say("")
        self._say(_headline(self._count, step))
        changed = {name: text for name, text in step.after.items() if step.before.get(name) != text}
        for name in step.before.keys() - step.after.keys():
            changed[name] = "gone"
        for name in sorted(changed):
            self._say(f"    {_named(name)}: {step.before.get(name, 'not there')} -> {changed[name]}")
        if not changed:
            self._say("    state as before")
        for tag, record in step.outputs:
            self._say(f"    out{'' if tag is None else f' to {tag}'}: {record}")
        if self.is_done:
            self.stop()

    def summary(self) -> None:
        """The last line."""
        if not self._count:
            self._state("state in the snapshot", self._restored)
        self._say("")
        if not self._count:
            self._say(f"no record of key {self._key} came, and no timer of it was due")
        elif self.is_done:
            self._say(f"stopped after {self._count} steps; --steps shows more")
        else:
            self._say(f"the input ended after {self._count} steps")

    def _state(self, title: str, state: StateView) -> None:
        self._say(f"{title}:" if state else f"{title}: none")
        for name, text in state.items():
            self._say(f"    {_named(name)}: {text}")

    def _say(self, text: str) -> None:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ... ({len(text)} characters)"
        self._out.print(shown)


def _headline(number: int, step: Step) -> str:
    if step.cause is Cause.CLOCK and step.time is not None:
        return f"{number}. the clock reached {moment(step.time)}"
    if step.cause is Cause.EVENT_TIME:
        when = "the input ended" if step.time is None else f"event time reached {moment(step.time)}"
        return f"{number}. {when}"
    when = "" if step.time is None else f" at {moment(step.time)}"
    side = f" (input {step.input_index + 1})" if step.input_index else ""
    return f"{number}. record{side}{when}: {step.record}"


def _named(name: str) -> str:
    """Times in timers' names as times of the calendar."""
    kind, _, time = name.rpartition(" ")
    return (
        f"{kind} for {moment(int(time))}" if kind.endswith("timer") and time.lstrip("-").isdigit() else name
    )
