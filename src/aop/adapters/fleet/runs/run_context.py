"""Run context: the parts of a worker that its runs share, whatever their kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from aop.adapters.fleet.clones import Clones
from aop.adapters.fleet.liveness import Liveness
from aop.adapters.fleet.platform_shape import LARGEST_ANSWER
from aop.adapters.fleet.worker_engine import Perform, WorkerEngine
from aop.core.errors import Fault, Json


class RunContext(Struct, frozen=True, kw_only=True):
    """What a run is carried out with."""

    clones: Clones
    places: int
    liveness: Liveness
    engine: WorkerEngine
    environ: Mapping[str, str]
    """The environment of the worker, without what opens the database."""
    secrets: tuple[str, ...]
    """The passwords of the database: nothing that a run prints may show them."""
    say: Callable[[str], None]


RunKind: TypeAlias = Callable[[RunContext], Perform]
"""Returns what carries out the runs of one kind."""


def plain_answer(answer: Struct) -> Mapping[str, Json]:
    """Return an answer as it goes back to the leader. Raises: Fault if it is too large."""
    plain: Mapping[str, Json] = msgspec.to_builtins(answer)
    if len(msgspec.json.encode(plain)) > LARGEST_ANSWER:
        raise Fault(f"The answer is larger than {LARGEST_ANSWER >> 20} MiB.")
    return plain
