"""Python sources, parsed by one thread at a time.

CPython counts the depth of a syntax tree in a place that all threads share. Of two that parse at the same moment, one
may be broken off with a `SystemError`, or told that its source is nested too deeply.
"""

from __future__ import annotations

import ast
import threading

_MOST_DISTURBED = 20
_PARSER = threading.Lock()


def parse_python(source: str | bytes) -> ast.Module:
    """Return the syntax tree of a source. Raises: SyntaxError, ValueError, RecursionError, MemoryError."""
    with _PARSER:
        for _ in range(_MOST_DISTURBED):
            try:
                return ast.parse(source)
            except SystemError:
                # A library parses without the lock.
                continue
        return ast.parse(source)
