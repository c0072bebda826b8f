"""Turn orders: turns of coding agents as they travel to a worker and back.

A worker has no record. An order carries the documents of it that a turn reads, and the configuration in force; the
worker puts them into a record of its own, which ends with the turn. Keys and log-ins never travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.errors import NoUsableAnswer, Refusal, all_refusals
from aop.core.ids import CommitId, FeatureId
from aop.core.redaction.redactor import Redactor, mask_json
from aop.core.roles import Role
from aop.kernel.config.in_force import Config
from aop.kernel.features.worktree_extras import PortSlots
from aop.kernel.gateway.calls import Kernel, feature_named
from aop.kernel.record.documents.base import Document
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.questions import RAISE, UNCAPPED, Question
from aop.kernel.record.documents.usage import FeatureUsage, Usage
from aop.kernel.record.port import Record
from aop.kernel.record.spending import with_turn
from aop.supervisor.workers import WorkerInput, WorkerOutput

FIRST = 1
"""The version of each document in the record of a turn, which is new."""


class TurnDocuments(Struct, frozen=True, kw_only=True):
    """The documents of the leader's record that a turn reads."""

    state: FeatureState
    usage: FeatureUsage | None
    """What the feature cost so far: the meter needs what is left of the caps."""
    questions: tuple[Question, ...]
    """The answers of people that raised a cap, or let a model work without one."""
    slots: PortSlots | None


class TurnOrder(Struct, frozen=True, kw_only=True):
    """A turn as it goes to a worker."""

    feature_id: FeatureId
    role: Role
    base_commit: CommitId
    given: WorkerInput
    config: Config
    documents: TurnDocuments


class TurnRefusal(Struct, frozen=True, kw_only=True):
    """A turn without a usable answer."""

    code: str
    message: str
    hint: str
    facts: Mapping[str, Any]


class TurnAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A turn as it comes back: an output, a refusal, or the reason why the worker has no such agent."""

    worker: str
    output: WorkerOutput | None = None
    refusal: TurnRefusal | None = None
    unable: str = ""


def order_of(kernel: Kernel, given: WorkerInput) -> TurnOrder:
    """Return the order for a turn. Raises: UnknownFeature."""
    with kernel.record.read() as view:
        state = feature_named(view, given.feature_id)
        documents = TurnDocuments(
            state=state,
            usage=view.get(FeatureUsage, given.feature_id),
            questions=tuple(each for each in view.all(Question) if each.answer in (RAISE, UNCAPPED)),
            slots=view.get(PortSlots, PortSlots.key),
        )
    return TurnOrder(
        feature_id=given.feature_id,
        role=given.role,
        base_commit=state.base_commit,
        given=given,
        config=kernel.config(),
        documents=documents,
    )


def enter_documents(record: Record, order: TurnOrder, earlier: tuple[Usage | None, ...]) -> None:
    """Put the documents of an order into a new record; what earlier attempts used up is no longer left."""
    documents, name = order.documents, order.feature_id
    usage = documents.usage or FeatureUsage(version=FIRST, feature_id=name)
    for each in earlier:
        usage = with_turn(usage, order.role, "", each)
    known: list[tuple[Document, str]] = [(documents.state, name), (usage, name)]
    known += [(question, question.question_id) for question in documents.questions]
    known += [] if documents.slots is None else [(documents.slots, PortSlots.key)]
    with record.write(durable=False) as tx:
        for document, key in known:
            tx.put(msgspec.structs.replace(document, version=FIRST), key)


def refusal_value(refusal: Refusal, redact: Redactor) -> TurnRefusal:
    """Return a refusal as a value, without the secrets of this machine."""
    facts: Any = mask_json(msgspec.to_builtins(refusal.facts), redact.mask_secrets)
    message = redact.mask_secrets(refusal.message)
    return TurnRefusal(code=refusal.code, message=message, hint=refusal.next_action, facts=facts)


def refusal_of(value: TurnRefusal) -> Refusal:
    """Return the refusal that a value stands for; one that this AOP does not know is a turn without an answer."""
    kind = next((each for each in all_refusals() if each.code == value.code), NoUsableAnswer)
    made = kind.__new__(kind)
    # Each class has arguments of its own, and all of them end here.
    Refusal.__init__(made, value.message, hint=value.hint, **dict(value.facts))
    return made
