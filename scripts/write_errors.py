"""Write what is made of the pages in ``docs/errors``: their index, and what ``penstock explain`` shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "errors"
INDEX = PAGES / "index.md"
EXPLAINED = ROOT / "penstock" / "cli" / "errors.json"
SECTION = re.compile(r"^## (PEN-\d{4})\n\n\*\*(.+?)\.\*\*\n\n(.+?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEAD = """# Errors by their codes

What you can do after reading this: find what an error means by the code behind it, such as `[PEN-0101]`. In a
terminal, `penstock explain PEN-0101` shows the same section. A code never changes its meaning, and is never
given again.
This index is made by `python scripts/write_errors.py`.

"""


def sections() -> dict[str, dict[str, str]]:
    """Title, text for a terminal, and page of every code, in the order of the codes."""
    found = {}
    for page in sorted(PAGES.glob("*.md")):
        if page == INDEX:
            continue
        for code, title, body in SECTION.findall(page.read_text(encoding="utf-8")):
            assert code not in found, f"{code} has two sections"
            found[code] = {
                "title": title,
                "text": plain(body),
                "page": f"docs/errors/{page.name}#{code.lower()}",
            }
    return dict(sorted(found.items()))


def plain(body: str) -> str:
    """Markdown as a terminal shows it."""
    body = FENCE.sub(lambda fence: re.sub(r"^", "    ", fence[1].rstrip(), flags=re.MULTILINE), body)
    body = re.sub(r"^\*(Means|How it happens|Way out)\.\* ", r"\1: ", body, flags=re.MULTILINE)
    return LINK.sub(_place, body).strip()


def _place(link: re.Match[str]) -> str:
    text, target = link[1], link[2]
    if text.startswith("PEN-"):
        return text
    path = target.partition("#")[0].removeprefix("../")
    return f"{text} (docs/{path})"


def index(found: dict[str, dict[str, str]]) -> str:
    """The page with all codes, by the pages that explain them."""
    parts = [HEAD.rstrip()]
    for page in dict.fromkeys(it["page"].partition("#")[0] for it in found.values()):
        title = (ROOT / page).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# Errors of ")
        parts += ["", f"## {title[0].upper()}{title[1:]}", "", "| code | what |", "| --- | --- |"]
        parts += [
            f"| [{code}]({it['page'].removeprefix('docs/errors/')}) | {it['title']} |"
            for code, it in found.items()
            if it["page"].startswith(f"{page}#")
        ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Write both."""
    found = sections()
    INDEX.write_text(index(found), encoding="utf-8")
    EXPLAINED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
