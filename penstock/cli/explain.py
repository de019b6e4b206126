"""``penstock explain``: what the code of an error means, and the way out."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import click

from penstock.cli.output import console, say, table
from penstock.core.errors import ConfigError


@click.command()
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Say what CODE means, which stands behind an error as [PEN-0101]; without it, list all codes."""
    known = explanations()
    if code is None:
        console().print(table(("CODE", "WHAT"), [(each, known[each]["title"]) for each in known]))
        return
    digits = re.fullmatch(r"\[?(?:PEN-)?(\d{1,4})\]?", code.strip(), re.IGNORECASE)
    wanted = f"PEN-{int(digits[1]):04}" if digits else ""
    if wanted not in known:
        raise ConfigError(f"{code!r} is no code of an error; penstock explain lists all")
    found = known[wanted]
    say(f"{wanted}: {found['title']}\n\n{found['text']}\n\nThe same on paper: {found['page']}")


def explanations() -> dict[str, dict[str, str]]:
    """Title, text and page of every code; ``scripts/write_errors.py`` makes them of the pages."""
    stored = files("penstock.cli").joinpath("errors.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = json.loads(stored)
    return found
