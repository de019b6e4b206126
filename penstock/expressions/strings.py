"""Texts: positions count from one, characters are code points, patterns are regular expressions or LIKE's."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.functions import (
    Arguments,
    Kernel,
    Overload,
    Unfit,
    Value,
    all_null,
    every,
    fixed,
    function,
    on_arrays,
)
from penstock.expressions.text_kernels import Remembered, split_kernel, where_ascii
from penstock.expressions.types import is_text

_TEXT, _INT, _BOOL = pa.string(), pa.int32(), pa.bool_()

fixed("upper", (_TEXT,), _TEXT, where_ascii(pc.ascii_upper, pc.utf8_upper))
fixed("lower", (_TEXT,), _TEXT, where_ascii(pc.ascii_lower, pc.utf8_lower))
fixed("reverse", (_TEXT,), _TEXT, where_ascii(pc.ascii_reverse, pc.utf8_reverse))
fixed("char_length", (_TEXT,), _INT, where_ascii(pc.binary_length, pc.utf8_length))
fixed("concat", (_TEXT, _TEXT), _TEXT, lambda left, right: pc.binary_join_element_wise(left, right, ""))


def per_text(compute: Callable[[str], Any], gives: pa.DataType) -> Kernel:
    """A kernel by Python, called once for each different text of a batch; short ones are remembered."""
    remembered = Remembered(compute)

    def kernel(value: Value, *_: Value) -> Value:
        if isinstance(value, pa.Scalar):
            return pa.scalar(None if value.as_py() is None else compute(value.as_py()), gives)
        once = pc.dictionary_encode(value)
        return pa.array(map(remembered, once.dictionary.to_pylist()), gives).take(once.indices)

    return kernel


def _rows_of_texts(compute: Callable[..., Any], gives: pa.DataType) -> Kernel:
    """A kernel by Python, row by row; null where an argument is null."""

    def kernel(*arguments: pa.Array) -> pa.Array:
        rows = zip(*(it.to_pylist() for it in arguments), strict=True)
        return pa.array([None if None in row else compute(*row) for row in rows], gives)

    return on_arrays(kernel)


@function("concat_ws", 2, -1)
def _concat_ws(arguments: Arguments) -> Overload:
    """Joined by the first; nulls among the others are left out."""
    every(arguments, is_text, "texts")

    def kernel(separator: Value, *texts: Value) -> Value:
        return pc.binary_join_element_wise(*texts, separator, null_handling="skip")

    return Overload((_TEXT,) * len(arguments.types), _TEXT, kernel)


@function("substring", 2, 3)
def _substring(arguments: Arguments) -> Overload:
    """From a position, as many characters as said; a negative position counts from the end."""
    takes = (_TEXT, *(pa.int64(),) * (len(arguments.types) - 1))
    constants: list[Any] = [None if it is None else it.as_py() for it in arguments.constants[1:]]
    if None not in constants:
        start, *length = constants
        if start >= 1 and all(it >= 0 for it in length):
            stop = start - 1 + length[0] if length else None
            cut = partial(pc.utf8_slice_codeunits, start=start - 1, stop=stop)
            return Overload(takes, _TEXT, lambda value, *_: cut(value))
    return Overload(takes, _TEXT, _rows_of_texts(_cut, _TEXT))


def _cut(text: str, start: int, length: int | None = None) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    if length is None:
        return text[max(first, 0) :]
    if start == 0:
        length = max(length - 1, 0)  # as SQL counts: the place before the first is one of them
    last = first + max(length, 0)
    return text[max(first, 0) : max(last, 0)]


fixed("left", (_TEXT, pa.int64()), _TEXT, _rows_of_texts(lambda text, n: text[: max(n, 0)], _TEXT))
fixed("right", (_TEXT, pa.int64()), _TEXT, _rows_of_texts(lambda text, n: text[-n:] if n > 0 else "", _TEXT))
fixed("repeat", (_TEXT, pa.int64()), _TEXT, _rows_of_texts(lambda text, n: text * max(n, 0), _TEXT))
fixed("position", (_TEXT, _TEXT), _INT, _rows_of_texts(lambda part, text: text.find(part) + 1, _INT))
fixed(
    "replace",
    (_TEXT, _TEXT, _TEXT),
    _TEXT,
    _rows_of_texts(lambda text, old, new: text.replace(old, new) if old else text, _TEXT),
)
fixed("starts_with", (_TEXT, _TEXT), _BOOL, _rows_of_texts(str.startswith, _BOOL))
fixed("ends_with", (_TEXT, _TEXT), _BOOL, _rows_of_texts(str.endswith, _BOOL))
fixed("ascii", (_TEXT,), _INT, per_text(lambda text: ord(text[0]) if text else 0, _INT))
fixed(
    "initcap",
    (_TEXT,),
    _TEXT,
    per_text(lambda text: re.sub(r"\w+", lambda it: it[0].capitalize(), text), _TEXT),
)


def _padded(left: bool, text: str, length: int, pad: str = " ") -> str | None:
    if length < 0 or not pad:
        return None
    filling = (pad * length)[: max(0, length - len(text))]
    return (filling + text if left else text + filling)[:length] if len(text) <= length else text[:length]


for _name, _is_left in (("lpad", True), ("rpad", False)):
    fixed(
        _name, (_TEXT, pa.int64(), _TEXT), _TEXT, _rows_of_texts(partial(_padded, _is_left), _TEXT), least=2
    )


def _trim(plain: Kernel, of: Kernel, strip: Callable[[str, str], str], arguments: Arguments) -> Overload:
    every(arguments, is_text, "texts")
    if len(arguments.types) == 1:
        return Overload((_TEXT,), _TEXT, plain)
    constant = arguments.constants[1]
    if constant is not None and constant.is_valid:
        trim = partial(of, characters=constant.as_py())
        return Overload((_TEXT, _TEXT), _TEXT, lambda value, _: trim(value))
    return Overload((_TEXT, _TEXT), _TEXT, _rows_of_texts(strip, _TEXT))


def _of_blanks(trim: Kernel) -> Kernel:
    """Only blanks are trimmed where nothing else is named."""
    return partial(trim, characters=" ")


for _name, _kernel, _strip in (
    ("trim", pc.utf8_trim, str.strip),
    ("ltrim", pc.utf8_ltrim, str.lstrip),
    ("rtrim", pc.utf8_rtrim, str.rstrip),
):
    function(_name, 1, 2)(partial(_trim, _of_blanks(_kernel), _kernel, _strip))


@function("split_index", 3)
def _split_index(arguments: Arguments) -> Overload:
    """The part at an index from zero between separators; null where there is none."""
    takes = (_TEXT, _TEXT, pa.int64())
    separator, index = arguments.constants[1:]
    if separator is None or index is None or not separator.as_py() or index.as_py() is None:
        return Overload(takes, _TEXT, _rows_of_texts(_part, _TEXT))
    return Overload(takes, _TEXT, split_kernel(separator.as_py(), index.as_py()))


def _part(text: str, separator: str, index: int) -> str | None:
    parts = text.split(separator) if separator else [text]
    return parts[index] if 0 <= index < len(parts) else None


# --- patterns -----------------------------------------------------------------------------------


@function("like", 2, 3)
def _like(arguments: Arguments) -> Overload:
    """``%`` is any text, ``_`` any one character; the third argument takes their meaning from them."""
    every(arguments, is_text, "texts")
    escape = arguments.constant(2, "what escapes") if len(arguments.types) == 3 else ""
    if len(arguments.types) == 3 and (escape is None or len(escape) != 1):
        raise Unfit("what escapes is one character")
    takes = (_TEXT,) * len(arguments.types)
    pattern = arguments.constants[1]
    if pattern is None:
        return Overload(
            takes,
            _BOOL,
            _rows_of_texts(
                lambda text, like, *_: bool(re.fullmatch(_from_like(like, escape), text, re.S)), _BOOL
            ),
        )
    if not pattern.is_valid:
        return all_null(takes, _BOOL)
    return _matching(f"(?s)^(?:{_from_like(pattern.as_py(), escape)})\\z", takes)


def _from_like(pattern: str, escape: str) -> str:
    """The regular expression of a LIKE pattern."""
    found, letters = [], iter(pattern)
    for letter in letters:
        if letter == escape:
            following = next(letters, None)
            if following is None:
                raise Unfit(f"nothing follows {escape!r} at the end of {pattern!r}")
            found.append(re.escape(following))
        else:
            found.append({"%": ".*", "_": "."}.get(letter) or re.escape(letter))
    return "".join(found)


def _matching(pattern: str, takes: tuple[pa.DataType, ...]) -> Overload:
    search = partial(pc.match_substring_regex, pattern=pattern)
    try:
        search(pa.array([""]))
    except pa.ArrowInvalid as error:
        raise Unfit(f"{pattern!r} is no regular expression: {error}") from error
    return Overload(takes, _BOOL, lambda value, *_: search(value))


@function("regexp", 2)
def _regexp(arguments: Arguments) -> Overload:
    """Whether some part of a text matches."""
    every(arguments, is_text, "texts")
    pattern = arguments.constant(1, "the pattern")
    if pattern is None:
        return all_null((_TEXT, _TEXT), _BOOL)
    python = _compiled(pattern)
    try:
        return _matching(pattern, (_TEXT, _TEXT))
    except Unfit:  # what Arrow's engine lacks, such as looking ahead
        return Overload((_TEXT, _TEXT), _BOOL, per_text(lambda text: bool(python.search(text)), _BOOL))


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise Unfit(f"{pattern!r} is no regular expression: {error}") from error


@function("regexp_extract", 2, 3)
def _regexp_extract(arguments: Arguments) -> Overload:
    """The part of the first match that a group holds (0: all of it); null where nothing matches."""
    pattern = arguments.constant(1, "the pattern")
    group = arguments.constant(2, "the group") if len(arguments.types) == 3 else 0
    takes = (_TEXT, _TEXT, pa.int64())[: len(arguments.types)]
    if pattern is None or group is None:
        return all_null(takes, _TEXT)
    python = _compiled(pattern)
    if not 0 <= group <= python.groups:
        raise Unfit(f"{pattern!r} has {python.groups} groups, and {group} is asked for")

    def one(text: str) -> str | None:
        found = python.search(text)
        return found[group] if found else None

    return Overload(takes, _TEXT, per_text(one, _TEXT))


@function("regexp_replace", 3)
def _regexp_replace(arguments: Arguments) -> Overload:
    """Every match becomes another text, in which ``$1`` or ``\\1`` stands for a group."""
    every(arguments, is_text, "texts")
    pattern, new = (arguments.constant(at, what) for at, what in ((1, "the pattern"), (2, "the replacement")))
    if pattern is None or new is None:
        return all_null((_TEXT,) * 3, _TEXT)
    python, new = _compiled(pattern), re.sub(r"\$(\d)", r"\\\1", new)
    try:
        python.sub(new, "")
    except (re.error, IndexError) as error:
        raise Unfit(f"{new!r} is no replacement for {pattern!r}: {error}") from error
    return Overload((_TEXT,) * 3, _TEXT, per_text(lambda text: python.sub(new, text), _TEXT))
