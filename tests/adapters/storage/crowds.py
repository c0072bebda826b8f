"""A process with so many files open that the next one is above what `select.select` takes."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

HIGHEST_FOR_SELECT = 1023


@contextmanager
def more_open_files_than_select_takes() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= 2 * HIGHEST_FOR_SELECT:
        pytest.skip("this machine lets a process open too few files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * HIGHEST_FOR_SELECT), hard))
    opened: list[int] = []
    try:
        while not opened or opened[-1] <= HIGHEST_FOR_SELECT:
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
