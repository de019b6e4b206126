"""What the documentation site needs beyond MkDocs: files outside of ``docs``, and GitHub's rules for them.

The pages are written for GitHub first, and are not changed for the site. Here pages of the repository's root
become pages of the site, examples become files of it, links to both are led there, anchors are made as GitHub
makes them, and lists need no blank line before them.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
PAGES |= {"SECURITY.md": "security.md", "LICENSE": "licence.md"}
EXPLAINED = ROOT / "penstock" / "cli" / "errors.json"
PUBLIC = ROOT / "tests" / "unit" / "public_names.json"
# Other public modules have the same names again, in PyFlink's places.
REFERENCE = ["datastream", "datastream.state", "datastream.window", "datastream.enrichment", "common"]
REFERENCE += [
    "columns",
    "dataframe",
    "cep",
    "sql",
    "metrics",
    "state_processor",
    "testing",
    "testing.conformance",
]
ENDS = [
    "base",
    "database",
    "delta",
    "file_system",
    "http",
    "hybrid_source",
    "iceberg",
    "jdbc",
    "kafka",
    "kinesis",
]
REFERENCE += [f"datastream.connectors.{name}" for name in [*ENDS, "log", "redis"]]
REFERENCE += [f"datastream.formats.{name}" for name in ["avro", "csv", "json", "orc", "parquet"]]
BOOKS = ["first-stream", "state-as-dataframes", "what-if-from-a-savepoint"]
"""The notebooks, in the order in which they are read."""
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
LIST = re.compile(r"^(?![*\-|#>\s]|\d+\. )(.+)\n(?=(?:[*-]|\d+\.) )", re.MULTILINE)


def slug(text: str, separator: str) -> str:
    """An anchor as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", separator)


def on_config(config: Any) -> Any:
    """In the navigation, a folder stands for all its pages, the index first."""
    notes = sorted(f"design/{path.name}" for path in (ROOT / "docs" / "design").glob("*.md"))
    inside: dict[str, list[Any]] = {"design/": notes}
    explained = json.loads(EXPLAINED.read_text(encoding="utf-8")).values()
    families = dict.fromkeys(it["page"].partition("#")[0].removeprefix("docs/") for it in explained)
    inside["errors/"] = ["errors/index.md", *families]  # in the order of their codes
    inside["notebooks/"] = [f"notebooks/{name}.md" for name in BOOKS]
    inside["examples/"] = sorted(example_pages(), key=lambda name: (not name.endswith("s/index.md"), name))
    inside["reference/"] = [{"Modules": "reference/index.md"}]
    for name in REFERENCE:  # in full, most would be cut off
        inside["reference/"].append({name.removeprefix("datastream."): f"reference/penstock.{name}.md"})

    def filled(entry: Any) -> Any:
        if isinstance(entry, dict):
            return {title: filled(inner) for title, inner in entry.items()}
        if isinstance(entry, list):
            return [filled(inner) for inner in entry]
        return inside.get(entry, entry)

    config.nav = filled(config.nav)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add what lies outside of ``docs``."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        if name == "LICENSE":
            text = f"# Licence\n\n```text\n{text}```\n"
        files.append(File.generated(config, page, content=text))
    worker = (ROOT / "scripts" / "docs_worker.js").read_text(encoding="utf-8")
    files.append(File.generated(config, "assets/iframe-worker.js", content=worker))
    style = (ROOT / "scripts" / "docs_site.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "assets/docs_site.css", content=style))
    for name, text in {**example_pages(), **reference_pages(), **notebook_pages()}.items():
        files.append(File.generated(config, name, content=text))
    return files


def example_pages() -> dict[str, str]:
    """A page for each example, and one for each folder of them."""
    found: dict[str, str] = {}
    folders: dict[str, list[str]] = {}
    for path in sorted((ROOT / "examples").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        found[f"{name}.md"] = f"# {path.name}\n\n```python\n{text}```\n"
        line = f"* [{path.name}]({path.name}.md): {first_paragraph(path)}\n"
        folders.setdefault(posixpath.dirname(name), []).append(line)
    for folder, lines in folders.items():
        found[f"{folder}/index.md"] = f"# {folder}\n\n{''.join(lines)}"
    return found


def notebook_pages() -> dict[str, str]:
    """A page for each notebook, with what its cells show."""
    return {f"notebooks/{name}.md": notebook_page(name) for name in BOOKS}


def notebook_page(name: str) -> str:
    """A notebook as Markdown; outputs are texts, as ``scripts/run_notebooks.py`` keeps them."""
    parts = []
    path = ROOT / "docs" / "notebooks" / f"{name}.ipynb"
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            shown = "".join(output["text"] if "text" in output else output["data"]["text/plain"]).rstrip()
            parts.append(f"```text\n{shown}\n```")
    parts.append(f'<a href="{name}.ipynb" download>This page as a notebook</a>')
    return "\n\n".join(parts) + "\n"


def first_paragraph(path: Path) -> str:
    """How a module's docstring begins."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


def reference_pages() -> dict[str, str]:
    """A page for each public module: what it exports, from the docstrings."""
    names: dict[str, str] = json.loads(PUBLIC.read_text(encoding="utf-8"))
    pages, lines = {}, ""
    for module in (f"penstock.{name}" for name in REFERENCE):
        place = ROOT / module.replace(".", "/")
        says = first_paragraph(place / "__init__.py" if place.is_dir() else place.with_suffix(".py"))
        shown = "".join(f"::: {module}.{name}\n\n" for name in names[module].split())
        pages[f"reference/{module}.md"] = f"# {module}\n\n{says}\n\n{shown}"
        lines += f"* [{module}]({module}.md): {says}\n"
    pages["reference/index.md"] = f"# Public names\n\nWhat is public, by module.\n\n{lines}"
    return pages


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links out of ``docs`` to where their files are in the site; blank lines before lists."""
    source = page.file.src_uri
    origins = {new: old for old, new in PAGES.items()}
    here = posixpath.dirname(origins.get(source, f"docs/{source}"))

    def led(match: re.Match[str]) -> str:
        target = match[2]
        if re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(here, target))
        if path.startswith("docs/notebooks/"):
            inner = path.removeprefix("docs/").replace(".ipynb", ".md")
        elif path.startswith("examples") and files.get_file_from_path(f"{path}/index.md"):
            inner = f"{path}/index.md"
        elif path in PAGES:
            inner = PAGES[path]
        elif path.startswith("docs/"):
            inner = path.removeprefix("docs/")
        elif files.get_file_from_path(f"{path}.md"):
            inner = f"{path}.md"
        else:
            return match[0]
        return f"{match[1]}{posixpath.relpath(inner, posixpath.dirname(source) or '.')}{match[3]}"

    parts = FENCE.split(markdown)
    return "".join(
        part if part.startswith("```") else LIST.sub(r"\1\n\n", LINK.sub(led, part)) for part in parts
    )


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """A page's contents below its title, for narrow screens: the theme puts them into its menu there."""
    parts = [part for top in page.toc for part in (top.children if top.level == 1 else [top])]
    return html.replace("</h1>", f"</h1>\n{contents(parts)}", 1) if len(parts) > 2 else html


def contents(parts: list[Any]) -> str:
    """A list of headings to choose from, closed to begin with."""
    lines = "".join(f'<li><a href="{part.url}">{part.title}</a></li>' for part in parts)
    return f'<details class="page-contents"><summary>On this page</summary><ul>{lines}</ul></details>'
