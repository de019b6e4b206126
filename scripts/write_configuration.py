"""Rewrite the table in ``docs/configuration.md`` from the settings that the code knows."""

from __future__ import annotations

from pathlib import Path

from penstock.core.config import markdown

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
TABLE = "| setting |"


def main() -> None:
    """Keep what stands before the table, replace the table."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index(TABLE)] + markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
