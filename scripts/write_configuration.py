"""Rewrite the tables in ``docs/configuration.md`` from the settings that the code knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.core.config import OPTIONS
from penstock.core.option import Option

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
SECTIONS = {
    "execution.runtime-mode": "Programs",
    "execution.checkpointing.interval": "Checkpoints",
    "state.backend.type": "State",
    "execution.state-recovery.path": "Starting from a snapshot",
    "restart-strategy.type": "Restarts",
    "heartbeat.interval": "Slots, memory and Spark",
    "python.execution-mode": "Python and packages",
    "jobmanager.rpc.bind-port": "Connections between driver and slots",
    "penstock.restore.allowed-classes": "Snapshots that others may write",
    "penstock.rest.enabled": "The page and REST",
    "jobmanager.archive.fs.dir": "Jobs that have ended",
    "traces.reporter.otel.exporter.endpoint": "Spans, logs and progress",
    "job.autoscaler.enabled": "Parallelism that follows the load",
    "jobmanager.scheduler": "Jobs that go on with fewer slots",
    "penstock.slots.cpus": "What a slot takes of its executor",
}
"""Headings, by the setting that each stands before."""
START = "## Programs\n"


def markdown() -> str:
    """The tables of all settings, as the body of the page."""
    lines = []
    for key, option in OPTIONS.items():
        if key in SECTIONS:
            lines += [
                "",
                f"## {SECTIONS[key]}",
                "",
                "| setting | kind | default | meaning |",
                "| --- | --- | --- | --- |",
            ]
        lines.append(row(option))
    return "\n".join(lines).lstrip() + "\n"


def row(option: Option[Any]) -> str:
    """One setting."""
    kind = ", ".join(f"`{choice}`" for choice in option.choices) if option.choices else option.kind.value
    default = f"`{option.default}`" if option.default else ""
    older = "".join(f" Older name: `{key}`." for key in option.fallback_keys)
    return f"| `{option.key}` | {kind} | {default} | {option.doc}{older} |"


def main() -> None:
    """Keep what stands before the tables, replace these."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index(START)] + markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
