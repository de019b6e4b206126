"""The dialect: SQL as Flink's users write it, read by sqlglot.

What it adds to sqlglot's own: ``TABLE t`` and ``DESCRIPTOR(c)`` as arguments, ``PARTITION BY`` behind the
first for sessions, WATERMARK and options of ``CREATE TABLE``, statement sets, EXPLAIN, SET and SHOW.
Functions are left as they are written: what they mean is said in one place, :mod:`penstock.sql.functions`.
Names are case-sensitive, in backticks or without.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parsers.base import BaseParser
from sqlglot.tokenizer_core import TokenType

from penstock.expressions.suggest import nearest
from penstock.sql.errors import SqlError, Text, words

KEYWORDS = words(
    "ALL AND AS BETWEEN BY CASE CREATE CROSS DESCRIBE DISTINCT DROP ELSE END EXISTS EXPLAIN "
    "FILTER FROM FULL FUNCTION GROUP HAVING IN INNER INSERT INTERVAL INTO IS JOIN LEFT LIKE "
    "NOT NULL ON ORDER OVER PARTITION PRIMARY RIGHT SELECT SET SHOW TABLE TABLES TEMPORARY "
    "THEN UNION VALUES VIEW VIEWS WATERMARK WHEN WHERE WITH"
)
STARTS = words("BEGIN CREATE DESCRIBE DROP END EXECUTE EXPLAIN INSERT SELECT SET SHOW VALUES WITH")
_ONLY_WORDS = ("SESSION", "SHOW", "SET", "BEGIN", "EXECUTE")
"""Keywords elsewhere, which begin statements of ours or name functions."""


class TableArgument(exp.Expression):
    """``TABLE t``, with ``PARTITION BY`` for sessions, as an argument of a function."""

    arg_types = {"this": True, "partition": False}


class Explain(exp.Expression):
    """``EXPLAIN statement``."""

    arg_types = {"this": True}


class BeginSet(exp.Expression):
    """The beginning of a statement set, with its first statement if that follows at once."""

    arg_types = {"this": False}


class SetOption(exp.Expression):
    """``SET 'key' = 'value'``; without both: which settings there are."""

    arg_types = {"this": False, "value": False}


class Metadata(exp.Expression):
    """``METADATA FROM 'name'`` behind a column of a table: what the connector knows beside the record."""

    arg_types = {"this": False}


class ShowAll(exp.Expression):
    """``SHOW TABLES``, ``SHOW VIEWS`` or ``SHOW FUNCTIONS``."""

    arg_types = {"this": True}


class _Parser(BaseParser):
    SUPPORTS_TABLE_QUERY = False
    LAMBDAS = {
        **BaseParser.LAMBDAS,
        TokenType.FARROW: lambda self, expressions: self._parse_named_argument(expressions),
    }
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS = {
        name: BaseParser.FUNCTION_PARSERS[name]
        for name in ("CAST", "TRY_CAST", "EXTRACT", "CEIL", "FLOOR", "POSITION", "SUBSTRING", "TRIM")
    }
    NO_PAREN_FUNCTION_PARSERS = {"CASE": lambda self: self._parse_case()}
    PROPERTY_PARSERS = {
        **{name: BaseParser.PROPERTY_PARSERS[name] for name in ("TEMPORARY", "COMMENT", "LANGUAGE")},
        "PARTITIONED BY": lambda self: self._parse_partitioned_by(),
        "WITH": lambda self: self._parse_wrapped_csv(self._parse_option),
    }
    CONSTRAINT_PARSERS = {
        **BaseParser.CONSTRAINT_PARSERS,
        "WATERMARK": lambda self: self._parse_watermark(),
        "METADATA": lambda self: self._parse_metadata(),
    }
    SCHEMA_UNNAMED_CONSTRAINTS = {*BaseParser.SCHEMA_UNNAMED_CONSTRAINTS, "WATERMARK"} - {"LIKE", "PERIOD"}

    def _parse_statement(self) -> exp.Expr | None:
        if self._match_text_seq("EXPLAIN"):
            self._match_text_seq("PLAN", "FOR")
            return self.expression(Explain(this=self._parse_statement()))
        if self._match_text_seq("EXECUTE", "STATEMENT", "SET"):
            if not self._match_text_seq("BEGIN"):
                self.raise_error("BEGIN is wanted behind EXECUTE STATEMENT SET")
            return self.expression(BeginSet(this=self._parse_statement()))
        if self._match_text_seq("BEGIN", "STATEMENT", "SET"):
            return self.expression(BeginSet())
        if self._match_text_seq("END"):
            return self.expression(exp.EndStatement())
        if self._match_text_seq("SET"):
            return self._parse_set_option()
        if self._match_text_seq("SHOW"):
            if not self._match_texts(("TABLES", "VIEWS", "FUNCTIONS")):
                self.raise_error("SHOW knows TABLES, VIEWS and FUNCTIONS")
            return self.expression(ShowAll(this=self._prev.text.upper()))
        return super()._parse_statement()

    def _parse_as_command(self, start: Any) -> Any:
        """What sqlglot would pass on unread."""
        self.raise_error(f"this cannot be read behind {start.text.upper()}")

    def _parse_set_option(self) -> exp.Expr:
        if not self._curr:
            return self.expression(SetOption())
        option = self._parse_option()
        return self.expression(SetOption(this=option.this, value=option.args["value"]))

    def _parse_option(self) -> exp.Property:
        key = self._parse_string()
        if key is None or not self._match(TokenType.EQ):
            self.raise_error("an option is written 'name' = 'value'")
        value = self._parse_string()
        if value is None:
            self.raise_error("the value of an option is a text: 'name' = 'value'")
        return self.expression(exp.Property(this=key, value=value))

    def _parse_watermark(self) -> exp.Expr:
        if not self._match(TokenType.FOR):
            self.raise_error("a watermark is written WATERMARK FOR ts AS ts - INTERVAL '5' SECOND")
        column = self._parse_column()
        if not self._match(TokenType.ALIAS):
            self.raise_error("a watermark is written WATERMARK FOR ts AS ts - INTERVAL '5' SECOND")
        delayed = self._parse_disjunction()
        return self.expression(exp.WatermarkColumnConstraint(this=column, expression=delayed))

    def _parse_metadata(self) -> exp.Expr:
        name = self._parse_string() if self._match(TokenType.FROM) else None
        self._match_text_seq("VIRTUAL")
        return self.expression(Metadata(this=name))

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        return self._parse_table_argument() or super()._parse_lambda(alias=alias)

    def _parse_named_argument(self, names: list[exp.Expr]) -> exp.Expr:
        value = self._parse_table_argument() or self._parse_disjunction()
        return self.expression(exp.Kwarg(this=exp.var(names[0].name), expression=value))

    def _parse_table_argument(self) -> exp.Expr | None:
        """``TABLE t``; ``TABLE(...)`` is a call."""
        if self._curr.token_type is not TokenType.TABLE or self._next.token_type is TokenType.L_PAREN:
            return None
        self._advance()
        table = self._parse_table_parts()
        by = None
        if self._match(TokenType.PARTITION_BY):  # what follows a comma is the next argument
            wrapped = self._match(TokenType.L_PAREN, advance=False)
            by = self._parse_wrapped_csv(self._parse_column) if wrapped else [self._parse_column()]
        return self.expression(TableArgument(this=table, partition=by))


class Penstock(Dialect):
    """SQL of Penstock, by sqlglot's base dialect."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE
    INDEX_OFFSET = 0  # positions stay as they are written: from one
    NORMALIZE_FUNCTIONS = False
    STRICT_STRING_CONCAT = True

    class Tokenizer(tokens.Tokenizer):
        """Names in backticks, texts in single quotes; nothing is a command that ends the parsing."""

        IDENTIFIERS = ["`"]
        QUOTES = ["'"]
        STRING_ESCAPES = ["'"]
        IDENTIFIER_ESCAPES = ["`"]
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS = {
            **{
                word: token
                for word, token in tokens.Tokenizer.KEYWORDS.items()
                if token is not TokenType.COMMAND and word not in _ONLY_WORDS
            },
            "ROW": TokenType.STRUCT,
            "STRING": TokenType.TEXT,
            "BYTES": TokenType.VARBINARY,
            "TIMESTAMP_LTZ": TokenType.TIMESTAMPLTZ,
        }

    Parser = _Parser


def parsed(sql: str) -> list[exp.Expr]:
    """The statements of a text; a :class:`~penstock.sql.errors.SqlError` with the place of what is wrong."""
    text = Text(sql)
    dialect = Penstock()
    read: list[Any] = []
    try:
        read = dialect.tokenize(sql)
        found = dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(read, sql)
    except (ParseError, TokenError) as error:
        raise _no_statement(text, read) or text.of_parser(error, KEYWORDS) from None
    except RecursionError:
        raise text.refuse(None, "the statement is nested too deeply; give its parts names, by WITH") from None
    _without_hints(text, read)
    return [statement for statement in found if statement is not None]


def _without_hints(text: Text, read: list[Any]) -> None:
    """Refuse hints behind tables: they are comments to the parser, and would change nothing."""
    for comment in (it for word in read for it in word.comments):
        start = text.sql.find(f"/*+{comment}")
        if start >= 0:
            raise SqlError(
                "hints are not there: the options of a table stand in its CREATE TABLE, behind WITH",
                *text.place(start),
            )


def _no_statement(text: Text, read: list[Any]) -> Exception | None:
    """What is wrong with the first word of a statement, if something is: all behind it is then misread."""
    start = True
    for word in read:
        if start and word.token_type is not TokenType.SEMICOLON:
            hint = nearest(word.text.upper(), STARTS)
            if word.text.upper() not in STARTS and "mean" in hint:
                return SqlError(f"{word.text!r} begins no statement{hint}", *text.place(word.start))
        start = word.token_type is TokenType.SEMICOLON
    return None


def one(sql: str) -> exp.Expr:
    """The one statement of a text."""
    found = parsed(sql)
    if len(found) != 1:
        many = "no statement" if not found else f"{len(found)} statements"
        raise Text(sql).refuse(None, f"{many} where one is wanted; run several with `penstock sql -f`")
    return found[0]
