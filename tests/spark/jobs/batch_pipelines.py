"""Random pipelines whose final results do not depend on how they are run: a seed gives the whole program.

Records are pairs of a key and a number.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from batch_functions import PAIR
from batch_steps import ANY, Course, in_order, key, pattern, versions

from penstock.common import Duration, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

SPAN = 2000


def step(rng: random.Random, course: Course) -> Course:
    """A random step among those that may stand here."""
    kinds = list(ANY)
    if course.fresh:
        kinds += [versions, pattern, pattern]
    if course.fresh and course.ordered:
        kinds += [in_order] * len(kinds)
    return rng.choice(kinds)(rng, course)


def source(env: StreamExecutionEnvironment, rng: random.Random, ordered: bool, scrambled: bool) -> Any:
    """Some records with times that are all different, in order or not quite, or not at all."""
    count = rng.choice([0, 1, 12, 40, 40, 70])
    times = sorted(rng.sample(range(SPAN), count))
    keys = [f"k{n}" for n in range(rng.choice([1, 3, 6]))]
    records = [(rng.choice(keys), rng.randrange(50), time) for time in times]
    if not ordered:
        records.sort(key=lambda record: record[2] + rng.randrange(100))
    if scrambled:
        random.Random(count).shuffle(records)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(0 if ordered else 100)
    ).with_timestamp_assigner(lambda record, _: record[2])
    stream = env.from_collection(records).assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    return stream.map(lambda record: (record[0], record[1]), PAIR).set_parallelism(1)


def build(seed: int, env: StreamExecutionEnvironment, scrambled: bool) -> tuple[Any, bool]:
    """The stream of results, and whether only the last one of each key counts.

    ``scrambled`` mixes the input up, which must not matter in BATCH mode.
    """
    rng = random.Random(seed)
    env.set_parallelism(rng.choice([1, 2, 2, 3]))
    env.set_max_parallelism(rng.choice([4, 128]))
    if rng.random() < 0.1:
        env.disable_operator_chaining()
    ordered = rng.random() < 0.4
    course = Course(source(env, rng, ordered, scrambled), ordered=ordered)
    if rng.random() < 0.2:
        course = Course(course.stream.union(source(env, rng, ordered, scrambled)), False, False)
    for _ in range(rng.randint(1, 3)):
        course = step(rng, course)
    if rng.random() < 0.25:
        counted = course.stream.map(lambda v: (v[0], v[1], 1))
        return counted.key_by(key).reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2])), True
    return course.stream, False


def outcome(seed: int, mode: RuntimeExecutionMode) -> Counter[Any]:
    """Run a program; its final results."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(mode)
    stream, last_only = build(seed, env, mode is RuntimeExecutionMode.BATCH)
    found = list(stream.execute_and_collect())
    if last_only and mode is RuntimeExecutionMode.STREAMING:
        newest: dict[Any, Any] = {}
        for value in found:
            if value[0] not in newest or newest[value[0]][2] < value[2]:
                newest[value[0]] = value
        found = list(newest.values())
    return Counter(tuple(value) for value in found)
