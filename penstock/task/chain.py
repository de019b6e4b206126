"""One subtask's chain of operators, from the plan: linked, handed what they run with, opened.

Streams, BATCH mode and tests build their operators here.  What differs between them is in a
:class:`ChainSetup`; the operators cannot tell.  An exception in a step becomes something a person can act on,
and what operators left over because the outputs were full goes on when there is room.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, PenstockError, TypeMismatchError, UserCodeError
from penstock.core.ids import Epoch, OperatorId, Subtask, SubtaskIndex
from penstock.core.metric_names import step_keys
from penstock.core.metrics import MetricGroup
from penstock.core.secret_fields import secret_fields
from penstock.graph.nodes import NodeId
from penstock.graph.plan import PlannedOperator, PlanSettings, Vertex
from penstock.operators.chain import FanOut, OnFailure, OperatorInput, typed_output
from penstock.operators.operator import Operator, OperatorContext, OperatorRuntime, Output, RuntimeInfo
from penstock.state.keyed import KeyedState
from penstock.state.operator_state import OperatorStateStore
from penstock.state.private import never_changes

_PACKAGE = str(Path(__file__).resolve().parents[1] / "_")[:-1]
"""The directory of the engine, with a separator at the end."""
_SHOWN = 300
_LOCATED = "_located"
"""Marks an error that says where it happened: steps of a chain call each other."""


def explain_failure(
    error: Exception, step: str, subtask: str, operator: Operator, secret: tuple[str, ...] = ()
) -> Exception:
    """An error that names step, subtask and record; engine frames are left out of the traceback.

    Of the record, fields whose names fit a pattern of ``secret`` are not told; nor are they where what was
    raised quotes the record, or a piece of it.
    """
    if isinstance(error, UserCodeError) or getattr(error, _LOCATED, False):
        return error
    if isinstance(error, PenstockError):
        wrong = isinstance(error, TypeMismatchError | ConfigError)
        record = _record_text(operator, secret) if wrong else None
        said = secret_fields(secret).written(str(error))
        shown = f" (the record is {record})" if record is not None and record not in said else ""
        located = error.retold(f"step {step!r}, subtask {subtask}: {said}{shown}")
        setattr(located, _LOCATED, True)
        return located
    return UserCodeError(step, subtask, _record_text(operator, secret), _trace(error, secret))


def _record_text(operator: Operator, secret: tuple[str, ...]) -> str | None:
    try:
        return secret_fields(secret).text(operator.current_record(), _SHOWN)
    except Exception:
        return None


def _trace(error: Exception, secret: tuple[str, ...]) -> str:
    """The traceback from the first frame outside the engine on; all of it if there is none."""
    summary = traceback.TracebackException.from_exception(error)
    frames = list(summary.stack)
    outside = [n for n, frame in enumerate(frames) if not frame.filename.startswith(_PACKAGE)]
    if outside:
        summary.stack = traceback.StackSummary.from_list(frames[outside[0] :])
    kinds = _kinds(error)
    return "".join(_message(piece, kinds, secret) for piece in summary.format())


def _message(piece: str, kinds: set[str], secret: tuple[str, ...]) -> str:
    """A piece of a traceback: what was raised is told without secrets; frames, and names of errors, stay."""
    if piece.lstrip(" |").startswith('File "'):
        return piece
    kind, mark, said = piece.partition(": ")
    if kind.strip(" |+-") not in kinds:  # a note, too, may begin with a name that is one of a field
        return secret_fields(secret).written(piece)
    return kind + mark + secret_fields(secret).written(said)


def _kinds(error: BaseException | None) -> set[str]:
    """The names of the classes of an error and of all that it is told with, as a traceback has them."""
    found: dict[int, str] = {}
    left = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in found:
            continue
        kind = type(one)
        own = kind.__module__ in ("builtins", "__main__")
        found[id(one)] = kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"
        left += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return set(found.values())


class SuspendedWork:
    """What the operators of one chain have left over."""

    def __init__(self, operators: Sequence[OperatorInput]) -> None:
        self._last_first = tuple(reversed(operators))

    def __bool__(self) -> bool:
        for operator in self._last_first:  # noqa: SIM110 - asked several times for each record that comes alone
            if operator.is_suspended:
                return True
        return False

    def resume(self, writable: Callable[[], bool]) -> bool:
        """Let operators go on while there is room, those at the end of the chain first; whether one did."""
        worked = False
        for operator in self._last_first:
            while operator.is_suspended:
                if not writable():
                    return worked
                operator.resume()
                worked = True
        return worked

    def drop(self) -> None:
        """The task ends here: generators of user code are closed before their functions are."""
        for operator in self._last_first:
            operator.drop()

    def waiting_bytes(self) -> int:
        """Records that wait for an operator to be done."""
        return sum(operator.waiting_bytes() for operator in self._last_first)


Chain = list[tuple[OperatorId, OperatorInput]]
"""Opened operators in the order of the plan; the first is the head."""


def _explained(step: str, subtask: Subtask, secret: tuple[str, ...]) -> OnFailure:
    where = f"{subtask.index}"
    return lambda error, operator: explain_failure(error, step, where, operator, secret)


@dataclass(frozen=True, slots=True)
class ChainSetup:
    """What the operators of one subtask are built with."""

    job_name: str
    vertex: Vertex
    index: SubtaskIndex
    settings: PlanSettings
    clock: Clock
    metrics: MetricGroup
    """Of the task; each operator gets a group of its own in it."""
    runtime: Callable[[PlannedOperator], OperatorRuntime]
    """How it is run; see :func:`runtime_of` for the part that the plan's settings say."""
    state: Callable[[PlannedOperator], tuple[KeyedState, OperatorStateStore]]
    """Its state: empty, or restored."""
    attempt: int = 0
    """How often the task was started before."""
    restored_epoch: Epoch | None = None
    wake: Callable[[], None] | None = None
    """See ``OperatorContext.wake``."""
    output: Callable[[Operator, Output], Output] = lambda operator, out: out
    """The output that an operator is given, around or instead of the one that leads to its consumers."""
    opening: Callable[[str], None] = lambda step: None
    """Told the name of the step whose state is restored, or which is opened, next."""
    on_failure: Callable[[str, Subtask, tuple[str, ...]], OnFailure] = _explained
    """What turns a failure of a step, its subtask and the names of secret fields into the error to raise."""


def runtime_of(settings: PlanSettings) -> OperatorRuntime:
    """What the plan's settings say of how operators are run; the ways to the driver are still missing."""
    return OperatorRuntime(
        checkpointing=settings.checkpointing,
        auto_watermark_interval_ms=settings.auto_watermark_interval_ms,
        batch=settings.batch,
        object_reuse=settings.object_reuse,
    )


def metric_groups(vertex: Vertex) -> dict[NodeId, str]:
    """What each step of a vertex is called in the names of its metrics."""
    nodes = [planned.node for planned in vertex.operators]
    return dict(zip((node.id for node in nodes), step_keys(node.name for node in nodes), strict=True))


def build_chain(setup: ChainSetup, edges: Mapping[int, Output]) -> Chain:
    """Make the operators back to front, so that each finds its consumers ready, then open them.

    ``edges`` are the exchanges that leave the task.  If an operator fails to open, all that were opened are
    closed, the half open one as well, and so is the state of all.
    """
    inputs: dict[NodeId, OperatorInput] = {}
    contexts: list[OperatorContext] = []
    opened: list[Operator] = []
    last_to_first = setup.vertex.operators[::-1]
    groups = metric_groups(setup.vertex)
    subtask = Subtask(setup.vertex.id, setup.index)
    try:
        for planned in last_to_first:
            node, operator = planned.node, planned.node.factory()
            failed = setup.on_failure(node.name, subtask, setup.settings.secret_fields)
            inputs[node.id] = OperatorInput(operator, failed)
            setup.opening(node.name)
            metrics = setup.metrics.add_group(groups[node.id])
            contexts.append(_context(setup, planned, operator, inputs, edges, metrics))
        for planned, context in zip(last_to_first, contexts, strict=True):
            entry = inputs[planned.node.id]
            opened.append(entry.operator)
            setup.opening(planned.node.name)
            entry.run(partial(_open, entry.operator, context))
    except Exception:
        for operator in reversed(opened):
            with contextlib.suppress(Exception):
                operator.close()
        for context in contexts:
            context.keyed.close()
        raise
    return [(planned.operator_id, inputs[planned.node.id]) for planned in setup.vertex.operators]


def _open(operator: Operator, context: OperatorContext) -> None:
    operator.open(context)
    context.keyed.check_claimed()


def _context(
    setup: ChainSetup,
    planned: PlannedOperator,
    operator: Operator,
    inputs: Mapping[NodeId, OperatorInput],
    edges: Mapping[int, Output],
    metrics: MetricGroup,
) -> OperatorContext:
    node, vertex = planned.node, setup.vertex
    consumers: list[tuple[str | None, Output]] = [
        *((tag, inputs[consumer]) for tag, consumer in planned.chained),
        *((tag, edges[edge]) for tag, edge in planned.edges),
    ]
    fan = FanOut(consumers, not setup.settings.object_reuse, never_changes(node.output_type))
    inputs[node.id].fan = fan
    typed = typed_output(fan, node.output_type if node.casts else None, node.side_types)
    keyed, operator_state = setup.state(planned)
    info = RuntimeInfo(
        job_name=setup.job_name,
        task_name=vertex.name,
        operator_name=node.name,
        subtask=int(setup.index),
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        attempt=setup.attempt,
        job_parameters=dict(setup.settings.job_parameters),
    )
    return OperatorContext(
        operator_id=planned.operator_id,
        info=info,
        out=setup.output(operator, typed),
        clock=setup.clock,
        keyed=keyed,
        operator_state=operator_state,
        metrics=metrics,
        restored_epoch=setup.restored_epoch,
        runtime=setup.runtime(planned),
        wake=setup.wake,
    )
