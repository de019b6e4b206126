"""What may be shown to people: text without the secrets in it, and without what would steer their terminal.

Every error of ours, every line of our loggers and everything the command line prints goes through here.
Secrets are found by how they are written (in a URL, or as the quoted value of a name that says so) and by
the name of the setting they belong to.  Text that was shown may be shown again: nothing happens twice.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from penstock.core.log_place import PlaceFilter

HIDDEN = "***"

_NAMES = (
    r"passw(?:or)?d|passphrase|pwd|secret|token|jaas|credential|api[._-]?key|account[._-]?key|access[._-]?key"
    r"|service[._-]?key|private[._-]?key|basic[._-]auth|auth[._-]params|http[._-]headers|user\.info"
)
_SECRET_NAME = re.compile(rf"{_NAMES}|oauthbearer\.config|\.pem$|(?:^|[._-])key$", re.IGNORECASE)
_SECRET_WORD = re.compile(_NAMES, re.IGNORECASE)
_SETTING = re.compile(r"([\w.-]{1,200})=([^'\"]+)")
_IN_URL = re.compile(r"(?<=://)([^\s/@:]{0,200}):(?!\d{1,5}(?:[/?#,;\s\"')\]]|$))[^\s]{0,300}@")
"""User and password. What could be a port is none, and a password may hold any sign of a URL."""
_IN_QUERY = re.compile(
    rf"(?<=[?&;])([\w.-]{{0,80}}?(?:{_NAMES})[\w.-]{{0,80}}=)[^\s&;\"')\]}},]+", re.IGNORECASE
)
_QUOTED = re.compile(
    rf"((?:{_NAMES})[\w.-]{{0,80}}[\"']?\s{{0,5}}[=:]\s{{0,5}})([\"'])(?!\.\.\.)(?:(?!\2|\\).|\\.){{1,2000}}\2",
    re.IGNORECASE,
)
_STEERING = {
    code: ascii(chr(code))[1:-1]
    for code in (
        *range(0x20),
        *range(0x7F, 0xA0),
        *(0x2028, 0x2029),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xD800, 0xE000),
    )
}
"""Control characters, those that turn text around, and halves of characters: as Python writes them."""
_STEERING_LINES = {code: text for code, text in _STEERING.items() if chr(code) not in "\n\t"}


def is_secret(name: str) -> bool:
    """Whether the name of a setting says that its value is nobody's business."""
    return _SECRET_NAME.search(name) is not None


def discreet(text: str) -> str:
    """``text`` without passwords of URLs and without quoted values whose names say that they are secret."""
    text = _IN_URL.sub(rf"\1:{HIDDEN}@", text)
    text = _IN_QUERY.sub(rf"\1{HIDDEN}", text)
    return _QUOTED.sub(rf"\1\2{HIDDEN}\2", text)


def discreet_usage(text: str) -> str:
    """What is said of a command line, which may quote any piece of it."""

    def hidden(found: re.Match[str]) -> str:
        return f"{found[1]}={HIDDEN}" if is_secret(found[1]) and found[1] != "KEY" else found[0]

    return _SETTING.sub(hidden, text)


def discreet_command(arguments: Iterable[str]) -> list[str]:
    """A command line without the values of settings and options whose names say that they are secret."""
    made: list[str] = []
    for argument in arguments:
        before = made[-1] if made else ""
        hides = before.startswith("-") and "=" not in before and _SECRET_WORD.search(before) is not None
        made.append(HIDDEN if hides and not argument.startswith("-") else discreet(discreet_usage(argument)))
    return made


def plain(text: str) -> str:
    """``text`` as one line that a terminal only shows."""
    return text.translate(_STEERING)


def harmless(text: str) -> str:
    """Lines of text that a terminal only shows, secrets included: data that somebody has asked for."""
    return text.translate(_STEERING_LINES)


def shown(text: str) -> str:
    """Lines of text as they may be shown to people."""
    return harmless(discreet(text))


class DiscreetFilter(logging.Filter):
    """Lets every record pass, without secrets and control characters, tracebacks included."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if said != shown(said):
            record.msg, record.args = shown(said), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = shown(logging.Formatter().formatException(record.exc_info))
        return True


_TOP = "penstock"
_named: dict[str, logging.Logger] = {}


def log_of(module: str) -> logging.Logger:
    """The logger of a module of ours: ``log_of(__name__)``.

    A filter of a logger does not see what its children are told, so each has all of the topmost one.
    """
    logger = logging.getLogger(module)
    if module not in _named:
        _named[module] = logger
        for each in logging.getLogger(_TOP).filters:
            logger.addFilter(each)
    return logger


def loggers() -> list[logging.Logger]:
    """All of them so far. Who adds a filter to each also has those to come, as long as it is there."""
    return list(_named.values())


# Everything imports errors.py, which imports this module.
logging.getLogger(_TOP).addFilter(DiscreetFilter())
logging.getLogger(_TOP).addFilter(PlaceFilter())
log_of(_TOP)
