"""Workers that end or hang on a file: it alone is not read, and nothing waits for it for long."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from aop.adapters.projects.deep_scan.parse_pool import (
    BATCH_FILES,
    WORKER,
    Unread,
    WorkerKind,
    read_all,
)
from aop.adapters.projects.deep_scan.source_reader import read_source
from aop.forge.scan.file_facts import Language

BROKEN = """
import os, signal
from aop.adapters.projects.deep_scan import parse_worker

def read(language, content, really=parse_worker.read_source):
    if b"end" in content:
        os._exit(3)
    if b"hang" in content:
        signal.pause()
    return really(language, content)

parse_worker.read_source = read
parse_worker.main()
"""
"""A worker that ends or hangs on what says so."""
KIND = WorkerKind(command=(sys.executable, "-I", "-c", BROKEN), seconds=60.0, most_failures=3)
HOW = {"end": (KIND, "ended on it"), "hang": (replace(KIND, seconds=3.0), "did not finish within 3 seconds")}


def files(*texts: str, language: Language = "python") -> Iterator[Unread]:
    return (Unread(f"{number:040x}", language, text.encode()) for number, text in enumerate(texts))


def problems(*texts: str, kind: WorkerKind = KIND) -> dict[int, str]:
    read = list(read_all(files(*texts), workers=1, kind=kind))
    assert sorted(int(each.oid, 16) for each in read) == list(range(len(texts)))
    assert all(bool(each.facts.problem) == each.failed for each in read)
    return {int(each.oid, 16): each.facts.problem for each in read if each.failed}


@pytest.mark.parametrize("word", ["end", "hang"])
def test_a_file_that_a_worker_fails_on_is_one_problem_and_all_others_are_read(word: str) -> None:
    texts = ["import a\n", f"# {word}\n", "import b\n", "import c\n"]
    kind, how = HOW[word]
    assert problems(*texts, kind=kind) == {1: f"the grammar of python {how}"}


def test_after_many_failures_the_other_files_of_that_language_are_left_unread() -> None:
    found = problems(*["# end\n"] * 3, *["import a\n"] * (2 * BATCH_FILES))
    rest = range(BATCH_FILES, 3 + 2 * BATCH_FILES)
    assert found == dict.fromkeys(range(3), "the grammar of python ended on it") | dict.fromkeys(
        rest, "the grammar of python failed on too many other files"
    )


def test_a_pool_says_what_the_reader_says_also_of_large_answers() -> None:
    many = "".join(f"import module_{number}\n" for number in range(1_900))
    texts = [many, "x = (\n", "", *[f"import a{number}\n" for number in range(3 * BATCH_FILES)], many]
    read = {int(each.oid, 16): each.facts for each in read_all(files(*texts), workers=2, kind=WORKER)}
    assert read == {number: read_source("python", text.encode()) for number, text in enumerate(texts)}
