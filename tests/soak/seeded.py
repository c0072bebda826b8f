"""`aop call` with one bug put in: a program that the crash suite has to find damage in.

python -m tests.soak.seeded BUG call --role ROLE --operation-id ID TOOL JSON
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from aop.adapters.files.repository_files import RepositoryFiles
from aop.core.errors import Json
from aop.core.ids import OperationId
from aop.kernel.gateway.calls import Kernel
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.record.port import Record, Snapshot, Transaction, Unshown
from aop.wiring.build import Settings, build


class InPlaceFiles(RepositoryFiles):
    """Writes over the old content instead of beside it."""

    def write(self, path: str, content: bytes, *, durable: bool = True) -> None:
        (self.root / path).write_bytes(content)


class _Wrapped:
    """Whatever it does not do itself, the real one does."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class LateLedger(_Wrapped):
    """Stores the answer of an operation in a transaction of its own, after the one that did the work."""

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Transaction]:
        late: list[tuple[OperationId, Mapping[str, Json]]] = []
        with self._real.write(durable=durable) as tx:
            yield _LateTransaction(tx, late)
        for operation_id, answer in late:
            with self._real.write(durable=durable) as tx:
                tx.finish_operation(operation_id, answer)


class _LateTransaction(_Wrapped):
    def __init__(self, real: Transaction, late: list[tuple[OperationId, Mapping[str, Json]]]) -> None:
        super().__init__(real)
        self._late = late

    def finish_operation(self, operation_id: OperationId, answer: Mapping[str, Json]) -> None:
        self._late.append((operation_id, answer))


class ForgetfulRecord(_Wrapped):
    """Keeps in memory only which files have to follow: two files are written, and nothing says that both must be."""

    def __init__(self, real: Record) -> None:
        super().__init__(real)
        self._unshown: dict[tuple[str, str], Unshown] = {}

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        with self._real.read() as view:
            yield _ForgetfulView(view, self._unshown)

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Transaction]:
        with self._real.write(durable=durable) as tx:
            yield _ForgetfulView(tx, self._unshown)


class _ForgetfulView(_Wrapped):
    def __init__(self, real: Any, unshown: dict[tuple[str, str], Unshown]) -> None:
        super().__init__(real)
        self._unshown = unshown

    def unshown(self) -> tuple[Unshown, ...]:
        return tuple(self._unshown.values())

    def mark_unshown(self, kind: Any, key: str) -> None:
        self._unshown[kind, key] = Unshown(kind=kind, key=key, stamp=0)

    def mark_shown(self, what: Unshown, hashes: Mapping[str, str]) -> None:
        del self._unshown[what.kind, what.key]
        self._real.mark_shown(what, hashes)


BUGS: Mapping[str, Callable[[Kernel], Mapping[str, object]]] = {
    "none": lambda _kernel: {},
    "in place": lambda kernel: {"files": InPlaceFiles(kernel.files.root)},
    "late ledger": lambda kernel: {"record": LateLedger(kernel.record)},
    "no journal": lambda kernel: {"record": ForgetfulRecord(kernel.record)},
}


def main(words: Sequence[str]) -> int:
    bug, _call, _role, role, _id, operation_id, tool, payload = words
    app = build(Path.cwd(), Settings.from_env(os.environ))
    kernel = msgspec.structs.replace(app.gateway.kernel, **BUGS[bug](app.gateway.kernel))
    who = msgspec.structs.replace(app.person, role=role)
    answer = Gateway(kernel, app.gateway.tools).call(who, tool, json.loads(payload), operation_id=operation_id)
    app.close()
    return 0 if answer.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
