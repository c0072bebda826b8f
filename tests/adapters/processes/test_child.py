"""A child process: what it is, and why it could not be started."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from aop.adapters.processes.child import WAIT_FOR_LINE, CannotStart, InheritedDescriptors, start_child
from aop.adapters.processes.limits import Limiter
from aop.kernel.config.policy import NO_LIMITS

_PIECES = """
printf 'bwrap: execvp ./busy: '; read -r _ <"$1"
printf 'Text file '; read -r _ <"$1"
printf 'busy'; read -r _ <"$1"
echo
"""


class NoLimits(Limiter):
    """Leaves a child as it began."""

    def impose(self, pid: int) -> None:
        pass


@pytest.mark.req("AOP-277")
def test_a_sandbox_that_says_in_pieces_why_it_does_not_start_is_heard_to_the_end(tmp_path: Path) -> None:
    chunks: list[bytes] = []
    os.mkfifo(tmp_path / "next")
    next_piece = os.open(tmp_path / "next", os.O_RDWR)

    def take(chunk: bytes) -> None:
        chunks.append(chunk)
        os.write(next_piece, b"\n")

    argv = [*WAIT_FOR_LINE, "/bin/sh", "-c", _PIECES, "sh", str(tmp_path / "next")]
    with (
        InheritedDescriptors() as handed,
        start_child(argv, limits=NoLimits(NO_LIMITS, None), take=take, clock=time.monotonic, handed=handed) as child,
    ):
        assert child.ended_by(time.monotonic() + 60)
    os.close(next_piece)
    with pytest.raises(CannotStart) as refused:
        child.check_was_run("busy")
    assert len(chunks) == 4
    assert str(refused.value) == "`busy` could not be started: bwrap: execvp ./busy: Text file busy."
    assert refused.value.transient


@pytest.mark.hostile("G51")
def test_a_child_cannot_dump_its_memory_from_its_first_moment_on() -> None:
    chunks: list[bytes] = []
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        argv = ["/bin/sh", "-c", "ulimit -c"]
        # No limit is imposed later: what it prints is what it began with.
        with start_child(argv, limits=NoLimits(NO_LIMITS, None), take=chunks.append, clock=time.monotonic) as child:
            assert child.ended_by(time.monotonic() + 60)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    assert b"".join(chunks) == b"0\n"
