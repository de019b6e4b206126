"""The job of the savepoint examples: running totals of a shop's customers, from one topic to another.

The programs beside this one work in the directory that they are given, or in a new one.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.common.job_client import JobClient
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors.log import Consumer, Log, LogOffsets, LogSink, LogSource, Producer, Text
from penstock.datastream.state import ValueStateDescriptor

CUSTOMERS = ("ada", "bob", "cy", "dee")


class Totals(KeyedProcessFunction):
    """Adds up the orders of a customer; ``bonus`` says how a large total is rewarded."""

    def __init__(self, bonus: Callable[[int], int]) -> None:
        self.bonus = bonus

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, order: str, ctx: Any) -> Iterator[str]:
        customer, amount = order.split()
        total = (self.total.value() or 0) + int(amount)
        self.total.update(total)
        yield f"{customer} {total} {self.bonus(total)}"


def careless_bonus(total: int) -> int:
    """Gives the bonus to everybody: a bug."""
    return total // 100


def right_bonus(total: int) -> int:
    """Only from 1000 on."""
    return total // 100 if total >= 1000 else 0


def start(
    work: Path,
    bonus: Callable[[int], int],
    name: str = "shop",
    to: str = "totals",
    parallelism: int = 2,
    until: LogOffsets | None = None,
    **settings: str,
) -> JobClient:
    """Start the job, for ever or ``until`` there; ``a__b_c`` in ``settings`` stands for the key ``a.b-c``."""
    config = Configuration()
    config.set_string("execution.checkpointing.interval", "200 ms")
    config.set_string("execution.checkpointing.dir", str(work / "checkpoints"))
    config.set_string("execution.checkpointing.savepoint-dir", str(work / "savepoints"))
    for key, value in settings.items():
        config.set_string(key.replace("__", ".").replace("_", "-"), value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(parallelism)
    source = LogSource(work / "log", "orders", Text(), end=until)
    orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").uid("orders")
    by_customer = orders.key_by(lambda order: order.split()[0], Types.STRING())
    totals = by_customer.process(Totals(bonus)).uid("totals")
    # Each destination is a sink of its own: output prepared for one must not be committed to another.
    totals.sink_to(LogSink(work / "log", to, Text())).uid(f"to {to}")
    return env.execute_async(name)


def working_directory() -> Path:
    """The one of the command line, or a new one."""
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    work = Path(tempfile.mkdtemp(prefix="penstock-shop-"))
    print(f"topics, checkpoints and savepoints are in {work}")
    return work


def run(bonus: Callable[[int], int]) -> None:
    """The job as a program: for ever in a directory that it is given, else over a few orders of its own."""
    work = working_directory()
    if len(sys.argv) > 1:
        start(work, bonus).get_job_execution_result().result()
        return
    topics(work, "totals")
    feed(work, orders(0, 100))
    start(work, bonus, until=LogOffsets.latest()).get_job_execution_result().result()
    print("\n".join(results(work)))


def topics(work: Path, *names: str) -> None:
    """Create the topics of the shop."""
    log = Log(work / "log")
    log.create_topic("orders", partitions=2)
    for name in names:
        log.create_topic(name, partitions=2)


def orders(first: int, last: int) -> list[str]:
    """Orders as they come in."""
    return [f"{CUSTOMERS[i % len(CUSTOMERS)]} {i * 37 % 100}" for i in range(first, last)]


def feed(work: Path, lines: list[str]) -> None:
    """Append orders to the topic; those of a customer stay in order."""
    with Producer(Log(work / "log").topic("orders")) as producer:
        for line in lines:
            producer.send(line.encode(), line.split()[0].encode())
        producer.sync()


def results(work: Path, topic: str = "totals") -> list[str]:
    """Everything committed to a topic."""
    found: list[str] = []
    with Consumer(Log(work / "log").topic(topic)) as consumer:
        while polled := consumer.poll():
            for _, batch in polled:
                found += [value.decode() for value in batch.column("value").to_pylist()]
    return found


def expected(lines: list[str], bonus: Callable[[int], int], first: int = 0) -> list[str]:
    """What the job says about the orders from number ``first`` on."""
    totals: dict[str, int] = {}
    said = []
    for line in lines:
        customer, amount = line.split()
        totals[customer] = totals.get(customer, 0) + int(amount)
        said.append(f"{customer} {totals[customer]} {bonus(totals[customer])}")
    return said[first:]


def wait_for(job: JobClient, work: Path, count: int, topic: str = "totals") -> list[str]:
    """Everything committed to a topic, once there are ``count`` lines; fails if the job does before."""
    ended = job.get_job_execution_result()
    while len(found := results(work, topic)) < count:
        if ended.done():
            ended.result()
            raise RuntimeError(f"the job ended with {len(found)} of {count} results in {topic}")
        time.sleep(0.05)
    return found
