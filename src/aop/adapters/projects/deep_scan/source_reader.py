"""Source reader: the facts of one file, from its bytes and its language."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from msgspec.structs import replace
from tree_sitter import Language as Grammar
from tree_sitter import Parser

from aop.adapters.projects.deep_scan.grammars import (
    go_source,
    java_source,
    javascript_source,
    python_source,
    rust_source,
    sql_source,
)
from aop.adapters.projects.deep_scan.grammars.parsed_source import MOST_OF_A_KIND, Harvest, ParsedSource, count_lines
from aop.core.redaction.redactor import Redactor
from aop.forge.scan.file_facts import Language, SecretFact, SourceFacts

MINIFIED = 1_000
"""A file whose lines are longer than this on average was written by a program, and is not parsed."""
_MINIFIED_FROM = 20_000

_GRAMMARS: dict[Language, tuple[str, str]] = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_tsx"),
    "java": ("tree_sitter_java", "language"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
}
_HARVESTS: dict[Language, Callable[[ParsedSource], Harvest]] = {
    "python": python_source.harvest,
    "javascript": javascript_source.harvest,
    "typescript": javascript_source.harvest,
    "java": java_source.harvest,
    "go": go_source.harvest,
    "rust": rust_source.harvest,
}
_PATTERNS: dict[Language, Callable[[bytes], Harvest]] = {
    "sql": sql_source.harvest_sql,
    "prisma": sql_source.harvest_prisma,
}
_REDACT = Redactor()


def read_source(language: Language, content: bytes) -> SourceFacts:
    """Return what a file holds; a file that no person wrote is only counted."""
    lines = count_lines(content)
    if language in ("settings", "env"):
        return SourceFacts(lines=lines, secrets=_secrets(content, named=language == "env"))
    if len(content) > _MINIFIED_FROM and len(content) > lines * MINIFIED:
        return SourceFacts(lines=lines, problem="its lines are too long for a source that people write")
    if b"\0" in content:
        return SourceFacts(lines=lines, problem="it is not text")
    if language in _PATTERNS:
        facts = _PATTERNS[language](content).facts(content)
    else:
        tree = _parser(language).parse(content)
        source = ParsedSource(content, tree.root_node)
        found = _HARVESTS[language](source)
        sql_source.harvest_embedded(source, found)
        facts = found.facts(content, error_line=source.error_line())
    return replace(facts, secrets=_secrets(content))


def first_error_line(language: Language, content: bytes) -> int | None:
    """Return the first line that does not parse, 0 if all do; None for a language without a grammar."""
    if language not in _GRAMMARS:
        return None
    return ParsedSource(content, _parser(language).parse(content).root_node).error_line()


@cache
def _parser(language: Language) -> Parser:
    package, function = _GRAMMARS[language]
    return Parser(Grammar(getattr(import_module(package), function)()))


def _secrets(content: bytes, *, named: bool = False) -> tuple[SecretFact, ...]:
    """Return the lines with a secret; with `named`, also those that only a name such as PASSWORD tells."""
    text = content.decode("utf-8", "replace")
    found = (_REDACT.find(text) if named else _REDACT.secrets_in(text))[:MOST_OF_A_KIND]
    return tuple(SecretFact(text.count("\n", 0, each.start) + 1, each.rule) for each in found)
