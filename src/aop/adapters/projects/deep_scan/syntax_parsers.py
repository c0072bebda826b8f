"""Syntax parsers: Python, JSON and TOML by Python itself, others by tree-sitter."""

from __future__ import annotations

import json
import sys
import tomllib
import warnings
from threading import Lock

from aop.adapters.projects.deep_scan.file_kinds import language_of
from aop.forge.builds.workspace.syntax import SyntaxVerdict

_WITH_COMMENTS = ("tsconfig", "jsconfig")
_FILTERS = Lock()
"""Held while warnings are off: they are off for every thread."""


class MachineParsers:
    """The parsers that this installation has."""

    def check(self, path: str, content: bytes) -> SyntaxVerdict:
        """Parse a file by the language that its name says; nothing of it is run."""
        name = path.rpartition("/")[2]
        if name.endswith((".py", ".pyi")):
            return _python(content)
        if name.endswith(".json") and not name.startswith(_WITH_COMMENTS):
            return _json(content)
        return _toml(content) if name.endswith(".toml") else _tree_sitter(path, content)


def _python(content: bytes) -> SyntaxVerdict:
    checker = f"python {sys.version_info.major}.{sys.version_info.minor}"
    try:
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(content, "<file>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return _invalid(checker, f"line {error.lineno or 1}: {error.msg}")
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return _invalid(checker, f"line 1: {str(error) or type(error).__name__}")
    return SyntaxVerdict(valid=True, checker=checker)


def _json(content: bytes) -> SyntaxVerdict:
    try:
        json.loads(content)
    except json.JSONDecodeError as error:
        return _invalid("json", f"line {error.lineno}: {error.msg}")
    except (UnicodeDecodeError, RecursionError) as error:
        return _invalid("json", f"line 1: {error}")
    return SyntaxVerdict(valid=True, checker="json")


def _toml(content: bytes) -> SyntaxVerdict:
    try:
        tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        return _invalid("toml", str(error))
    return SyntaxVerdict(valid=True, checker="toml")


def _tree_sitter(path: str, content: bytes) -> SyntaxVerdict:
    language = language_of(path)
    try:
        from aop.adapters.projects.deep_scan.source_reader import first_error_line
    except ImportError:
        # The extra `forge` brings the grammars.
        return SyntaxVerdict(valid=None)
    line = None if language is None else first_error_line(language, content)
    if line is None:
        return SyntaxVerdict(valid=None)
    checker = f"tree-sitter ({language})"
    return (
        _invalid(checker, f"line {line}: this cannot be parsed") if line else SyntaxVerdict(valid=True, checker=checker)
    )


def _invalid(checker: str, problem: str) -> SyntaxVerdict:
    return SyntaxVerdict(valid=False, checker=checker, problems=(problem,))
