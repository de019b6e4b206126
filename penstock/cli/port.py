"""``penstock port``: a PyFlink program's imports rewritten, and what it takes besides."""

from __future__ import annotations

import difflib
import json

import click

from penstock.cli.output import say, say_exactly
from penstock.porting.files import port_file, programs, write
from penstock.porting.findings import Finding, Ported

_SOMETHING_LEFT = 1


@click.command()
@click.argument("paths", metavar="FILE_OR_DIR...", nargs=-1, required=True)
@click.option("--write", "writing", is_flag=True, help="Change the files. Without it nothing is changed.")
@click.option("--diff", is_flag=True, help="Print the changes as a diff.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")
@click.pass_context
def port(ctx: click.Context, paths: tuple[str, ...], writing: bool, diff: bool, as_json: bool) -> None:
    """Rewrite the imports of PyFlink programs, and list what has no equivalent, with its line.

    Directories are searched for Python files; hidden ones and virtual environments are left out.
    Notebooks are listed and not rewritten. Nothing is run. The exit status is 1 if something needs a
    person, else 0.
    """
    found = [ported for path in programs(paths) if (ported := port_file(path)) is not None]
    if writing:
        for ported in found:
            if ported.changed:
                write(ported)
    if as_json:
        say_exactly(json.dumps([_as_values(ported) for ported in found], indent=2))
    else:
        _tell(found, writing, diff)
    if any(finding.matters for ported in found for finding in ported.findings):
        ctx.exit(_SOMETHING_LEFT)


def _tell(found: list[Ported], written: bool, diff: bool) -> None:
    for ported in found:
        if diff:
            say("".join(_diff(ported)).rstrip("\n"))
        elif ported.changed:
            say(f"{ported.path}: {'rewritten' if written else 'to rewrite'}: {_lines(ported)}")
        for finding in ported.findings:
            say(_line(ported, finding), colour="yellow" if finding.matters else None)
    changed = sum(ported.changed for ported in found)
    left = sum(finding.matters for ported in found for finding in ported.findings)
    done = "rewritten" if written else "to rewrite (--write does it)"
    say(f"Programs that use pyflink: {len(found)}; {done}: {changed}; places that need a person: {left}.")


def _lines(ported: Ported) -> str:
    lines = ported.changed_lines
    return f"{'line' if len(lines) == 1 else 'lines'} {', '.join(map(str, lines))}"


def _line(ported: Ported, finding: Finding) -> str:
    cell = "" if finding.cell is None else f"cell {finding.cell}, line "
    return f"{ported.path}:{cell}{finding.line}: {finding.kind.value}: {finding.what}: {finding.advice}"


def _diff(ported: Ported) -> list[str]:
    before, after = (text.splitlines(keepends=True) for text in (ported.before, ported.after))
    return list(difflib.unified_diff(before, after, str(ported.path), str(ported.path)))


def _as_values(ported: Ported) -> dict[str, object]:
    return {
        "path": str(ported.path),
        "rewritten_lines": ported.changed_lines,
        "findings": [
            {
                "line": finding.line,
                "cell": finding.cell,
                "kind": finding.kind.value,
                "what": finding.what,
                "advice": finding.advice,
            }
            for finding in ported.findings
        ],
    }
