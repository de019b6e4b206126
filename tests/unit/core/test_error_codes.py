"""Errors and their codes: each code has a page's section, is used, keeps its meaning, and reaches people."""

from __future__ import annotations

import json
import pickle
import re
import threading
import traceback
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from penstock import dataframe, sql
from penstock.cli.main import cli
from penstock.common import Configuration, Time, Types
from penstock.coordinator.failure_history import failure_of
from penstock.core import errors
from penstock.core.config import find
from penstock.core.error_codes import RETIRED, Code
from penstock.core.errors import (
    ConfigError,
    GraphError,
    JobFailedError,
    KeyError_,
    PenstockError,
    SnapshotError,
    UserCodeError,
    coded,
)
from penstock.core.ids import WallMs
from penstock.core.keys import canonical_keys
from penstock.datastream import CoProcessFunction, StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.spark.batch.task import packed, unpacked
from penstock.storage.contract import MissingFileError
from penstock.testing.local import local_cluster

ROOT = Path(__file__).resolve().parents[3]
PINNED = Path(__file__).with_name("error_codes.json")
EXAMPLE = re.compile(r"^## (PEN-\d{4})\n(?:(?!^## ).)*?^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def script() -> ModuleType:
    spec = spec_from_file_location("write_errors", ROOT / "scripts" / "write_errors.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRITER = script()
SECTIONS: dict[str, dict[str, str]] = WRITER.sections()
EXAMPLES = {
    code: text.rstrip()
    for page in sorted(WRITER.PAGES.glob("*.md"))
    for code, text in EXAMPLE.findall(page.read_text("utf-8"))
}


def test_every_code_has_a_section_and_every_section_a_code() -> None:
    assert set(SECTIONS) == set(Code) | RETIRED
    headings = [
        code
        for page in WRITER.PAGES.glob("*.md")
        if page != WRITER.INDEX
        for code in re.findall(r"^## (\S+)$", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted(headings) == sorted(SECTIONS), "a section without its title in bold, or two of one code"


def test_what_is_made_of_the_pages_is_current() -> None:
    assert WRITER.INDEX.read_text("utf-8") == WRITER.index(SECTIONS), "run: python scripts/write_errors.py"
    assert json.loads(WRITER.EXPLAINED.read_text("utf-8")) == SECTIONS, "run: python scripts/write_errors.py"


def test_every_section_says_what_how_and_the_way_out() -> None:
    parts = [("Means: ", "How it happens: ", "Way out: ")] * len(SECTIONS)
    found = [tuple(part for part in parts[0] if part in it["text"]) for it in SECTIONS.values()]
    assert found == parts


def test_codes_keep_their_meaning() -> None:
    """A code that was ever given is pinned: a new one is added there, an old one never changed."""
    pinned = json.loads(PINNED.read_text("utf-8"))
    assert {**pinned, **{str(code): code.name for code in Code}} == pinned
    assert set(pinned) == set(Code) | RETIRED and not RETIRED & set(Code)
    assert all(re.fullmatch(r"PEN-\d{4}", code) for code in pinned)


def test_every_code_is_used() -> None:
    used = {
        name
        for file in (ROOT / "penstock").rglob("*.py")
        for name in re.findall(r"\bCode\.([A-Z_]+)\b", file.read_text("utf-8"))
    }
    assert used == {code.name for code in Code}


def test_the_kinds_of_errors_are_told_apart() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and "code" in vars(kind)]
    assert len({kind.code for kind in kinds}) == len(kinds) > 15  # type: ignore[attr-defined]


def test_a_code_of_the_situation_stands_behind_the_text_and_in_the_traceback() -> None:
    error = GraphError("no key", code=Code.NOT_KEYED)
    assert (str(error), coded(error)) == ("no key", "no key [PEN-0207]")
    assert traceback.format_exception_only(error)[-1] == "[PEN-0207] To read on: penstock explain PEN-0207\n"
    assert coded(GraphError("odd")) == "odd [PEN-0200]"
    assert coded(ValueError("of others")) == "of others"
    assert coded(ConfigError("two\nlines")) == "two\nlines\n[PEN-0100]"


@pytest.mark.parametrize(
    "error",
    [
        SnapshotError("gone", code=Code.NO_SNAPSHOT),
        UserCodeError("step", "0", None, "Traceback"),
        sql.errors.SqlError("no", 1, 2, Code.UNKNOWN_COLUMN),  # type: ignore[attr-defined]
        MissingFileError("/a"),
        JobFailedError("job failed", KeyError_("null", code=Code.KEY_NULL)),
    ],
)
def test_a_code_travels(error: PenstockError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert coded(again) == coded(error) and again.__notes__ == error.__notes__


def test_a_code_passes_through_spark() -> None:
    sent = [SnapshotError("gone", code=Code.NO_SNAPSHOT), MissingFileError("/a"), ValueError("odd")]
    back = [unpacked(packed(error, "mark"), "mark") for error in sent]
    assert [error.code for error in back if isinstance(error, PenstockError)] == [
        Code.NO_SNAPSHOT,
        Code.MISSING_FILE,
        Code.PENSTOCK,
    ]


def test_a_code_outlives_other_words_and_texts() -> None:
    error = SnapshotError("gone", code=Code.NO_SNAPSHOT)
    assert coded(error.retold("in step 'a': gone")) == "in step 'a': gone [PEN-0403]"
    assert error.retold("more").__notes__ == error.__notes__
    again = SnapshotError.of_text(coded(error))
    assert (str(again), again.code) == ("gone", Code.NO_SNAPSHOT)
    assert coded(SnapshotError.of_text("as it was")) == "as it was [PEN-0400]"
    with pytest.raises(SnapshotError) as caught, errors.naming("file 7"):
        raise error
    assert coded(caught.value) == "file 7: gone [PEN-0403]"


def test_a_job_fails_with_the_code_of_its_cause() -> None:
    assert JobFailedError("failed", KeyError_("null", code=Code.KEY_NULL)).code == Code.KEY_NULL
    assert JobFailedError("failed", ValueError()).code == JobFailedError("failed").code == Code.JOB_FAILED


def test_the_history_of_failures_has_codes() -> None:
    user = failure_of(UserCodeError("step", "0", None, "Traceback\nValueError: x"), WallMs(0))
    ours = failure_of(SnapshotError("gone", code=Code.NO_SNAPSHOT), WallMs(0))
    assert user.stack.endswith("\n[PEN-1000]") and user.name == "ValueError"
    assert ours.stack.endswith("[PEN-0403] To read on: penstock explain PEN-0403")


def test_the_command_line_says_the_code_and_explains_it() -> None:
    runner = CliRunner()
    wrong = runner.invoke(cli, ["explain", "PEN-9999"])
    assert wrong.exit_code == 1
    assert wrong.stderr.splitlines() == [
        "Error: 'PEN-9999' is no code of an error; penstock explain lists all [PEN-0100]",
        "To read on: penstock explain PEN-0100",
    ]
    shown = [runner.invoke(cli, ["explain", code]).stdout for code in ("PEN-0201", "pen-201", "[PEN-0201]")]
    assert shown[0].startswith("PEN-0201: There is nothing to run\n\nMeans: ") and len(set(shown)) == 1
    listed = runner.invoke(cli, ["explain"]).stdout
    assert len([line for line in listed.splitlines() if "PEN-" in line]) == len(SECTIONS)


def test_examples_end_with_the_code_of_their_section() -> None:
    assert len(EXAMPLES) >= 15
    assert {code: text[-10:] for code, text in EXAMPLES.items()} == {code: f"[{code}]" for code in EXAMPLES}


def env(**settings: str) -> StreamExecutionEnvironment:
    given = Configuration()
    for key, value in settings.items():
        given.set_string(key.replace("__", ".").replace("_", "-"), value)
    return StreamExecutionEnvironment.get_execution_environment(given)


def same(value: int) -> int:
    return value


def two_environments() -> None:
    env().from_collection([1]).union(env().from_collection([1]))


def twice_the_same_uid() -> None:
    job = env()
    job.from_collection([1]).map(same).uid("a").map(same).uid("a").print()
    job.execute()


class Nothing(CoProcessFunction[int, int, int]):
    def process_element1(self, value: int, ctx: object) -> None: ...

    def process_element2(self, value: int, ctx: object) -> None: ...


def half_keyed() -> None:
    job = env()
    job.from_collection([1]).connect(job.from_collection([1]).key_by(same)).process(Nothing())


def forward_into_another_parallelism() -> None:
    job = env()
    job.from_collection([1]).map(same).set_parallelism(2).forward().map(same).set_parallelism(1).print()
    job.execute()


def more_than_the_most() -> None:
    job = env()
    job.from_collection([1]).map(same).set_parallelism(4).set_max_parallelism(2).print()
    job.execute()


def cause_of(job: StreamExecutionEnvironment) -> Exception | None:
    with pytest.raises(JobFailedError) as caught:
        job.execute()
    return caught.value.cause


def another_type() -> Exception | None:
    job = env().set_parallelism(1)
    job.from_collection([1]).map(str, output_type=Types.INT()).print()
    return cause_of(job)


def without_a_timestamp() -> Exception | None:
    job = env().set_parallelism(1)
    keyed = job.from_collection([1]).key_by(same)
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(min).print()
    return cause_of(job)


def with_a_lock() -> None:
    lock = threading.Lock()

    def tag(value: int) -> int:
        with lock:
            return value

    tag.__qualname__ = "tag"
    job = env()
    job.from_collection([1]).map(tag).print()
    job.execute()


class Order: ...


def unaligned_at_least_once() -> None:
    checkpointing = "execution__checkpointing__"
    wanted = {"interval": "1s", "mode": "AT_LEAST_ONCE", "unaligned__enabled": "true"}
    job = env(**{checkpointing + key: value for key, value in wanted.items()})
    job.from_collection([1]).print()
    job.execute()


PROVOKED: dict[str, Callable[[], object]] = {
    "PEN-0100": lambda: env().set_parallelism(0),
    "PEN-0101": lambda: find("paralelism.default"),
    "PEN-0102": lambda: env(parallelism__default="many").execute(),
    "PEN-0108": unaligned_at_least_once,
    "PEN-0201": lambda: env().execute(),
    "PEN-0204": twice_the_same_uid,
    "PEN-0206": more_than_the_most,
    "PEN-0207": half_keyed,
    "PEN-0208": two_environments,
    "PEN-0210": forward_into_another_parallelism,
    "PEN-0211": lambda: env().from_collection([1]).key_by(same).broadcast(),
    "PEN-0203": with_a_lock,
    "PEN-0301": lambda: canonical_keys([None]),
    "PEN-0302": lambda: canonical_keys([Order()]),
    "PEN-0311": without_a_timestamp,
    "PEN-0321": another_type,
    "PEN-0504": lambda: MissingFileError("/data/clicks"),
    "PEN-0800": lambda: sql.Session().sql("SELEC 1"),
    "PEN-0802": lambda: dataframe.from_records([{"a": 1, "b": 2}]).rename({"a": "amount", "b": "amount"}),
    "PEN-0801": lambda: dataframe.from_records([{"country": "de", "amount": 1.5}])["cuntry"],
}


@pytest.mark.parametrize("code", PROVOKED)
def test_examples_are_what_is_said(code: str) -> None:
    with local_cluster(slots=2):
        try:
            error = PROVOKED[code]()
        except PenstockError as raised:
            error = raised
    assert isinstance(error, PenstockError)
    assert coded(error) == EXAMPLES[code]
