"""How far a running job could be rescaled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.coordinator.assemble import assemble
from penstock.coordinator.layout import parallelism_limit
from penstock.datastream import StreamExecutionEnvironment


def keyed(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1, 2]).key_by(lambda v: v).reduce(lambda a, b: a).name("sum").print()


def plain(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1, 2]).rebalance().map(str).print()


def keyed_apart(env: StreamExecutionEnvironment) -> None:
    sums = env.from_collection([1, 2]).key_by(lambda v: v).reduce(lambda a, b: a)
    sums = sums.set_parallelism(2)
    sums.print()  # in the same task as long as the job has two
    sums.rebalance().map(str).name("text").set_max_parallelism(200).set_parallelism(1).print()
    sums.rebalance().map(str).name("more").set_max_parallelism(300).print()


@pytest.mark.parametrize(
    ("program", "of_job", "limit"),
    [
        (keyed, None, (128, "sum")),
        (keyed, 7, 7),
        (plain, None, None),
        (plain, 7, 7),
        (keyed_apart, None, (300, "more")),
    ],
)
def test_keys_and_what_was_set_limit_the_steps_without_a_parallelism_of_their_own(
    program: Callable[[StreamExecutionEnvironment], None],
    of_job: int | None,
    limit: tuple[int, str] | int | None,
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    if of_job is not None:
        env.set_max_parallelism(of_job)
    program(env)
    found = parallelism_limit(assemble(env._spec("job"), default_parallelism=2).plan)
    assert (found[0] if found is not None and isinstance(limit, int) else found) == limit
