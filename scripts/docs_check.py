"""Crawl the built documentation: no link is broken, and nothing is loaded from any other address."""

from __future__ import annotations

import posixpath
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

AWAY = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
# Loaded by being named; a link that a reader follows is not among them.
LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
    ("object", "data"),
}
STYLE = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
ADDRESS = re.compile(r"https?://[\w.-]+")
# In the theme's scripts, but not loaded: namespaces, licences in comments, and what only pages with diagrams
# or with a repository's address would ask for. Pages are held to having neither.
NAMED = {"http://www.w3.org", "https://unpkg.com", "https://api.github.com", "https://gitlab.com"}
NAMED |= {"http://lunrjs.com", "http://tartarus.org", "https://bit.ly", "https://clipboardjs.com"}
ASKS = re.compile(r'class="mermaid"|data-md-component="source"')


class Page(HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_data(self, data: str) -> None:
        """Called by the parser."""
        if self.lasttag == "style":
            self.loads += styled(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser."""
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value or "")
            elif (tag, name) in LOADED:
                self.loads.append(value or "")
            elif (tag, name) == ("a", "href"):
                self.links.append(value or "")
            elif name == "style":
                self.loads += styled(value or "")


def styled(text: str) -> list[str]:
    """What a style sheet loads."""
    return [first or second for first, second in STYLE.findall(text)]


def found(site: Path) -> tuple[int, list[str]]:
    """How many links were followed, and what is wrong."""
    texts = {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in site.rglob("*.html")}
    pages = {name: Page(text) for name, text in texts.items()}
    wrong = [f"{name}: asks for an address" for name, text in texts.items() if ASKS.search(text)]
    followed = 0
    for name, page in pages.items():
        wrong += [f"{name}: loads {load}" for load in page.loads if AWAY.match(load)]
        for link in [*page.links, *page.loads]:
            # The page for what is not found is shown at any depth: its links begin at the root.
            if name == "404.html" or re.match(r"[a-z]+:|//", link):
                continue
            followed += 1
            path, _, anchor = unquote(link).partition("#")
            inner = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            there = inner in pages or (site / inner).is_file()
            if not there or (anchor and inner in pages and anchor not in pages[inner].anchors):
                wrong.append(f"{name}: {link} leads nowhere")
    for path in site.rglob("*.css"):
        wrong += [
            f"{path.name}: loads {load}" for load in styled(path.read_text("utf-8")) if AWAY.match(load)
        ]
    for path in site.rglob("*.js"):
        if path.name == "search_index.js" or "lunr" in path.parts:
            continue  # the words of the pages, and what the search needs for other languages than English
        code = path.read_text("utf-8")
        wrong += [f"{path.name}: names {address}" for address in set(ADDRESS.findall(code)) - NAMED]
    return followed, wrong


def main(site: str) -> int:
    """Say what is wrong with a site."""
    followed, wrong = found(Path(site))
    print("\n".join([*sorted(set(wrong)), f"{followed} links followed, {len(wrong)} mistakes"]))
    return 1 if wrong or not followed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
