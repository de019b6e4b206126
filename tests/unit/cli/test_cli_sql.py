"""``penstock sql``: files, statements, the prompt, and ``%%sql``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import penstock.sql
from penstock.cli.main import cli
from penstock.sql import SqlError
from penstock.testing.local import local_cluster
from tests.sql_kit import orders

NUMBERS = (
    "CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', "
    "'fields.id.start' = '1', 'fields.id.end' = '3');"
)


def run(*arguments: str, typed: str | None = None, status: int = 0) -> str:
    with local_cluster(slots=1):
        result = CliRunner().invoke(cli, ["sql", *arguments], input=typed)
    assert result.exit_code == status, result.output
    return result.output


def test_statements_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_text(f"{NUMBERS}\nSELECT id * 2 AS twice FROM n WHERE id > 2;\nSHOW TABLES")
    said = run("-f", str(file)).splitlines()
    assert said[0] == "table n."
    assert "|            6 |" in said and "1 row" in said


def test_statements_of_the_command_line() -> None:
    assert "            7 |" in run("-e", "SELECT 7 AS seven")
    assert "line 1, column 8: there is no column 'x'" in run("-e", "SELECT x", status=1)
    assert "cannot read statements" in run("-f", "/nowhere.sql", status=1)
    assert "not ended" in run("-e", "BEGIN STATEMENT SET", status=1)


def test_the_prompt_goes_on_behind_a_mistake() -> None:
    said = run(
        typed=f"{NUMBERS}\nSELECT nothing\nFROM n;\nSELECT COUNT(*) AS c\n  FROM (VALUES (1)) AS "
        "t(x)\n\nquit\n",
        status=1,
    )
    assert "Error: line 1, column 8: there is no column 'nothing'" in said
    assert "was not run" in said
    said = run(typed="SELECT 'a;' AS a;\nquit\n")
    assert "a; |" in said


def test_an_insert_waits_for_its_job(tmp_path: Path) -> None:
    table = (
        f"CREATE TABLE f (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', "
        "'format' = 'csv');"
    )
    said = run("-e", NUMBERS, "-e", table, "-e", "INSERT INTO f SELECT id FROM n", "-n", "writing")
    assert "Writing into f." in said and "Done." in said
    lines = [line for file in tmp_path.glob("*.csv") for line in file.read_text().split()]
    assert sorted(lines) == ["1", "2", "3"]


class Shell:
    """What a notebook's shell gives to an extension."""

    def __init__(self) -> None:
        self.user_ns: dict[str, object] = {"orders": orders()}
        self.magic = None

    def register_magic_function(self, function: object, magic_kind: str, magic_name: str) -> None:
        assert (magic_kind, magic_name) == ("line_cell", "sql")
        self.magic = function


def test_a_cell_of_statements(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell()
    penstock.sql.load_ipython_extension(shell)
    assert shell.magic is not None
    with local_cluster(slots=1):
        found = shell.magic("", "CREATE VIEW big AS SELECT * FROM orders WHERE price > 4; SELECT id FROM big")
        assert sorted(found["id"]) == [2, 4]
        assert shell.magic("cheap", "SELECT id FROM orders WHERE price < 2") is None
        assert [row["id"] for row in shell.user_ns["cheap"].to_pylist()] == [6]
        shell.magic("SHOW VIEWS")
        assert "big" in capsys.readouterr().out
        with pytest.raises(SqlError, match="no table 'nowhere'"):
            shell.magic("", "SELECT * FROM nowhere")
