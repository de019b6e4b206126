"""Who may ask: the job's token, sessions of browsers, hosts and origins.  Decides from values.

A request shows the token (``Authorization: Bearer``), or a cookie that a browser got for a code that works
once.  What comes from another site's page is refused before that, whatever the browser sends along: by
``Sec-Fetch-Site`` and ``Origin``, and by ``Host`` against names that were made to lead here.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import threading
from collections.abc import Mapping
from urllib.parse import urlsplit

from penstock.coordinator.asking import FOR_BROWSER
from penstock.core.clock import Clock
from penstock.rest.look import Refused
from penstock.rest.steering import changes

CODE_S = 120.0
_MOST_SESSIONS = 64
_MOST_CODES = 16
_MOST_COOKIES = 8
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_STEERING = re.compile(r"[\x00-\x1f\x7f]")
"""A router may take a path with a line's end behind it for the one without, and this guard would not."""


class Sessions:
    """Codes that work once, and the browsers that came with one. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._codes: dict[str, float] = {}
        self._sessions: list[str] = []

    def new_code(self) -> str:
        """A code for one browser, good for two minutes."""
        code = secrets.token_urlsafe(24)
        with self._lock:
            self._codes[code] = self._clock.monotonic() + CODE_S
            for old in list(self._codes)[:-_MOST_CODES]:
                del self._codes[old]
        return code

    def expects(self, code: str) -> bool:
        """Whether a code would be taken now."""
        with self._lock:
            return self._clock.monotonic() <= self._codes.get(code, float("-inf"))

    def redeem(self, code: str) -> str | None:
        """A session for a code; ``None`` if it is none, too old, or was used."""
        with self._lock:
            until = self._codes.pop(code, None)
            if until is None or self._clock.monotonic() > until:
                return None
            session = secrets.token_urlsafe(32)
            self._sessions = [*self._sessions, session][-_MOST_SESSIONS:]
            return session

    def knows(self, session: str) -> bool:
        """Whether a browser has shown a code before."""
        with self._lock:
            known = list(self._sessions)
        return any([_same(session, other) for other in known])


class Guard:
    """The rules of one door."""

    def __init__(
        self,
        token: str,
        sessions: Sessions,
        *,
        cookie: str = "penstock",
        scheme: str = "http",
        hosts: frozenset[str] | None = _LOOPBACK,
        private: bool = False,
        read_only: bool = False,
        browsers_read_only: bool = False,
    ) -> None:
        """``hosts``: names that the door answers to; ``None`` for one that only the user can reach.

        By the ``private`` door, that of the command line, it may change what the page may not:
        ``browsers_read_only`` is for those who ask there for somebody at a browser.
        """
        self.cookie = cookie
        self.scheme = scheme
        self.sessions = sessions
        self._token = token
        self._hosts = hosts
        self._private = private
        self._read_only = read_only
        self._browsers_read_only = browsers_read_only

    def check(self, method: str, path: str, headers: Mapping[str, str], brings_code: bool = False) -> None:
        """Refuse with 401 or 403, or let pass. Names of headers are in lower case.

        Whoever brings a code need show nothing else; the code is looked at later.
        """
        if _STEERING.search(path):
            raise Refused(400, "a path holds no control characters")
        if self._hosts is not None:
            self._check_site(method, path, headers)
        if not brings_code and not self._shows_token(headers):
            if not self._shows_session(headers):
                raise Refused(401, UNKNOWN)
            if changes(method, path) and not self._is_own_page(headers):
                raise Refused(403, "a browser's session may change something only from its own page")
        only_shows = self._read_only or (self._browsers_read_only and FOR_BROWSER in headers)
        if only_shows and changes(method, path):
            raise Refused(403, "this page only shows (penstock.rest.read-only); use the penstock command")

    def for_browser(self, headers: Mapping[str, str]) -> bool:
        """Whether somebody only looks: by the public door, or by another server for a browser."""
        return not self._private or FOR_BROWSER in headers

    def _check_site(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        host = headers.get("host", "")
        if not self._answers_to(host):
            raise Refused(
                403, f"nobody here is called {host!r}; set rest.address to that name if it is right"
            )
        origin = headers.get("origin")
        if origin is not None and origin != f"{self.scheme}://{host}":
            raise Refused(403, f"requests from pages of {origin} are refused")
        site = headers.get("sec-fetch-site", "none")
        opened = method == "GET" and path in ("", "/") and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("none", "same-origin") and not opened:
            raise Refused(403, "requests from pages of other sites are refused")

    def _answers_to(self, host: str) -> bool:
        assert self._hosts is not None
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        if name is None:
            return False
        if name in self._hosts or name.rstrip(".").lower() in self._hosts:
            return True
        return "*" in self._hosts and _is_address(name)

    def _shows_token(self, headers: Mapping[str, str]) -> bool:
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and _same(shown.strip(), self._token)

    def _shows_session(self, headers: Mapping[str, str]) -> bool:
        shown = _cookies(headers.get("cookie", ""), self.cookie)
        return any(self.sessions.knows(session) for session in shown[:_MOST_COOKIES])

    def _is_own_page(self, headers: Mapping[str, str]) -> bool:
        """Browsers say it: by the site, or by the origin, or by the page that the request came from."""
        if "sec-fetch-site" in headers:
            return headers["sec-fetch-site"] == "same-origin"
        own = f"{self.scheme}://{headers.get('host', '')}"
        return headers.get("origin") == own or headers.get("referer", "").startswith(f"{own}/")


UNKNOWN = (
    "show the job's token as Authorization: Bearer; it is in the job's file in $PENSTOCK_HOME/jobs. For a "
    "browser, `penstock ui` opens the page"
)


def _cookies(header: str, wanted: str) -> list[str]:
    """The cookies of one name, among all that a browser sends: they do not know ports, so others' are there.

    ``http.cookies`` forgets all that stands behind one that it does not like.
    """
    parts = (part.partition("=") for part in header.split(";"))
    return [value.strip().strip('"') for name, _, value in parts if name.strip() == wanted]


def _same(one: str, other: str) -> bool:
    """In a time that says nothing about where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
