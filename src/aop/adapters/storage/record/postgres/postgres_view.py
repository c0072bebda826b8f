"""View of a change on PostgreSQL, which asks the database as little as it can.

The lock of the repository is held meanwhile: what the change has read or written stays as it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from aop.adapters.storage.record.postgres.postgres_database import Session
from aop.adapters.storage.record.postgres.postgres_shape import INDEXED
from aop.adapters.storage.record.rows import document_of, json_text
from aop.adapters.storage.record.views import Question, View
from aop.adapters.storage.record.writes import Changes, add_write, operation_digest
from aop.core.errors import Json
from aop.core.ids import OperationId
from aop.kernel.record.documents.base import Document
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Event, JournalEntry, Operation, UnshownKind

Bodies = dict[tuple[str, str], str | None]
"""The stored texts of documents by kind and key; None where there is none."""
D = TypeVar("D", bound=Document)


class CachedView(View):
    """A view of a snapshot that asks for each document once, and finds claims by the beginning of their key."""

    IN_RANGE = f"left(key, {INDEXED}) BETWEEN left(?, {INDEXED}) AND left(?, {INDEXED}) AND {View.IN_RANGE}"
    EQUAL, TIMES = f"left(key, {INDEXED}) = left(?, {INDEXED}) AND {View.EQUAL}", 2

    def __init__(self, session: Session, bodies: Bodies | None = None, changes: Changes | None = None) -> None:
        super().__init__(session, changes)
        self._session = session
        self._bodies: Bodies = {} if bodies is None else bodies

    def get(self, shape: type[D], key: str) -> D | None:
        name = (shape.kind, key)
        if name not in self._bodies:
            self._bodies[name] = self._body(shape.kind, key)
        body = self._bodies[name]
        return None if body is None else document_of(shape, key, body)

    def _answers(self, questions: Sequence[Question]) -> Iterator[Iterable[Any]]:
        return iter(self._session.ask(questions))


class OpenChange:
    """A change that is not committed yet."""

    def __init__(
        self, session: Session, *, journal_end: tuple[int, str], last_write: tuple[int, str], seconds: float
    ) -> None:
        self.session = session
        self._began = time.monotonic()
        self._seconds = seconds
        self.changes: Changes = {}
        self.bodies: Bodies = {}
        self.features: list[FeatureState] = []
        """The features that were changed, as they are then."""
        self.entered: dict[OperationId, Operation] = {}
        """The operations that were entered in this change and have no intent."""
        self.journal_end = journal_end
        self._last_write = last_write

    @contextmanager
    def part(self) -> Iterator[None]:
        """Undo alone what is changed inside, if it raises."""
        before = dict(self.changes), [*self.features], dict(self.entered), self.journal_end
        try:
            with self.session.part():
                yield
        except BaseException:
            self.changes.clear()
            self.changes.update(before[0])
            self.bodies.clear()
            _, self.features, self.entered, self.journal_end = before
            raise

    def seconds(self) -> float:
        """Return the seconds of the database's clock, which was read when the change began."""
        return self._seconds + time.monotonic() - self._began

    def commit(self) -> None:
        """Add it to the chain of writes, and commit. Raises: Fault."""
        if self.changes:
            add_write(self.session, self.changes, last=self._last_write, entry=self.journal_end)
        self.session.commit()


class ChangeView(CachedView):
    """A view of a change of a record that several machines show, each on its own disk."""

    def __init__(self, change: OpenChange) -> None:
        super().__init__(change.session, change.bodies, change.changes)
        self._change = change

    def put(self, document: Document, key: str) -> None:
        # Read from the database again, as all others will.
        self._bodies.pop((document.kind, key), None)
        super().put(document, key)
        if isinstance(document, FeatureState):
            self._change.features.append(document)

    def remove(self, shape: type[Document], key: str) -> None:
        self._bodies.pop((shape.kind, key), None)
        super().remove(shape, key)

    def append(self, event: Event) -> JournalEntry:
        entry = super().append(event)
        self._change.journal_end = (entry.seq, entry.hash)
        return entry

    def enter_operation(self, operation: Operation) -> None:
        super().enter_operation(operation)
        self._change.entered[operation.operation_id] = operation

    def intend(self, operation_id: OperationId, intent: Mapping[str, Json]) -> None:
        super().intend(operation_id, intent)
        self._change.entered.pop(operation_id, None)

    def finish_operation(self, operation_id: OperationId, answer: Mapping[str, Json]) -> None:
        entered = self._change.entered.pop(operation_id, None)
        if entered is None:
            super().finish_operation(operation_id, answer)
            return
        text = json_text(answer)
        self._change_pending("UPDATE operations SET answer = ?", (text,), operation_id)
        name, digest = operation_digest(
            (operation_id, entered.tool, entered.payload_hash, entered.actor, None, text),
        )
        self._changes[name] = digest

    def mark_unshown(self, kind: UnshownKind, key: str) -> None:
        """Note it for each machine; each stamp is new and never used again."""
        self._sql.execute(
            "DELETE FROM aop.all_unshown WHERE repository = aop.own_number() AND kind = ? AND key = ?", (kind, key)
        )
        self._sql.execute(
            "INSERT INTO aop.all_unshown (machine, kind, key)"
            " SELECT number, ?, ? FROM aop.machines WHERE repository = aop.own_number()",
            (kind, key),
        )

    def _change_one(self, sql: str, values: Sequence[str | int], fault: str) -> None:
        self._session.change_one(sql, values, fault)

    def _journal_end(self) -> tuple[int, str]:
        return self._change.journal_end
