"""Sources of Python, parsed by the threads of a server: none disturbs another."""

from __future__ import annotations

import ast
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aop.kernel.gates.base.python_sources import parse_python

NESTED = f"x = {'-' * 200}1\n" * 20


@contextmanager
def collecting_often() -> Iterator[None]:
    """Let Python collect garbage many times while it makes a syntax tree."""
    before = gc.get_threshold()
    gc.set_threshold(200)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def test_a_source_that_another_thread_begins_to_parse_meanwhile_does_not_disturb_the_first() -> None:
    first, others, parsed = threading.get_ident(), list[threading.Thread](), list[ast.Module]()

    def parse_beside(phase: str, _facts: object) -> None:
        # Called in the middle of a parse, as any finaliser may be that lets another thread go on.
        if threading.get_ident() != first or phase != "start" or any(other.is_alive() for other in others):
            return
        others.append(threading.Thread(target=lambda: parsed.append(parse_python("y = 1"))))
        others[-1].start()
        others[-1].join(timeout=0.5)

    gc.callbacks.append(parse_beside)
    try:
        with collecting_often():
            tree = parse_python(NESTED)
    finally:
        gc.callbacks.remove(parse_beside)
    for other in others:
        other.join()
    assert len(tree.body) == 20
    assert len(parsed) == len(others) > 0
