"""Prerequisites: a new feature for files that several others would create."""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from aop.core.errors import InvalidStatusTransition, Json
from aop.core.ids import FeatureId
from aop.kernel.features.lifecycle import change_status, with_status
from aop.kernel.features.specs import spec_path
from aop.kernel.features.work_requests import request_work
from aop.kernel.gateway.calls import Call, Kernel, feature_named
from aop.kernel.locks.grants import leases_of, release_leases
from aop.kernel.locks.leases import read_clock
from aop.kernel.plans.waiting_queue import admit_waiting_plans, leave_queue
from aop.kernel.record.documents.base import Document
from aop.kernel.record.documents.features import TERMINAL, FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.questions import Prerequisite, Question
from aop.kernel.record.documents.runs import WorkRequest
from aop.kernel.record.documents.specs import IngestedSpec, SpecSource
from aop.kernel.record.port import Snapshot, Transaction

LONGEST_QUOTE = 8000
_FENCES = re.compile("~{3,}")


class AcceptedPrerequisite(Document, frozen=True, kw_only=True):
    """A feature that others wait for, accepted by a person; removed with that feature."""

    kind: ClassVar[str] = "prerequisite"

    offer: Prerequisite
    question_id: str


def still_waited_for(view: Snapshot, state: FeatureState) -> tuple[FeatureId, ...]:
    """Return the prerequisites of a feature that are neither merged nor deleted."""
    return tuple(name for name in state.waits_for if _is_open(view, name))


def _is_open(view: Snapshot, name: FeatureId) -> bool:
    known = view.get(FeatureState, name)
    return view.get(AcceptedPrerequisite, name) is not None and (known is None or known.status is not Status.MERGED)


def check_prerequisite(view: Snapshot, offer: Prerequisite) -> tuple[FeatureState, ...]:
    """Return the features that would wait; all must be active. Raises: UnknownFeature, InvalidStatusTransition."""
    states = tuple(feature_named(view, name) for name in offer.needed_by)
    for state in states:
        if state.status in TERMINAL:
            raise InvalidStatusTransition(
                f"The feature `{state.feature_id}` is `{state.status}`, so it cannot wait for a shared prerequisite.",
                hint="Answer in words how to plan: what is merged can be built on, and what has failed holds nothing.",
                feature_id=state.feature_id,
                status=state.status,
            )
    return states


def place_spec(kernel: Kernel, view: Snapshot, offer: Prerequisite) -> None:
    """Write the spec of the new feature, unless there is one."""
    path = spec_path(offer.feature_id)
    with kernel.locks.files():
        if kernel.files.fingerprint(path) is None:
            kernel.files.write(path, kernel.redact.mask_secrets(_spec_text(kernel, view, offer)).encode())


def accept_prerequisite(tx: Transaction, call: Call, question: Question, offer: Prerequisite) -> None:
    """Request work on the new feature, and let all others wait for it without locks; refuse as the check above."""
    name = FeatureId(offer.feature_id)
    for state in check_prerequisite(tx, offer):
        _block_until_merged(tx, call, state, name)
    if tx.get(AcceptedPrerequisite, name) is None:
        tx.put(AcceptedPrerequisite(version=1, offer=offer, question_id=question.question_id), name)
        _request_feature(tx, call, offer, question)
    facts: dict[str, Json] = {"files": list(offer.files), "needed_by": list(offer.needed_by)}
    tx.append(call.event("prerequisite_accepted", name, **facts, question_id=question.question_id))
    admit_waiting_plans(tx, call)


def _request_feature(tx: Transaction, call: Call, offer: Prerequisite, question: Question) -> None:
    name = FeatureId(offer.feature_id)
    if tx.get(FeatureState, name) is None:
        _request_once(tx, call, name)
        tx.append(call.event("feature_wanted", name, depends_on=[]))
    digest = call.kernel.files.fingerprint(spec_path(offer.feature_id))
    if digest is not None and tx.get(IngestedSpec, name) is None:
        source = SpecSource(source_path=question.question_id, sha256=digest)
        tx.put(IngestedSpec(version=1, feature_id=name, source=source), name)
        tx.append(call.event("spec_ingested", name, **msgspec.to_builtins(source)))


def _request_once(tx: Transaction, call: Call, name: FeatureId, *, again: bool = False) -> None:
    if tx.get(WorkRequest, name) is None:
        request_work(tx, call, name, again=again)


def _block_until_merged(tx: Transaction, call: Call, state: FeatureState, waits_for: FeatureId) -> None:
    """Block a feature until the prerequisite is merged, and release what it holds."""
    now = read_clock(call.kernel.clock)
    release_leases(tx, call, state.feature_id, leases_of(tx, state.feature_id), now)
    leave_queue(tx, state.feature_id, now)
    tx.set_claims(state.feature_id, ())
    reason = f"It waits for the shared prerequisite `{waits_for}`, and restarts when that is merged."
    before = feature_named(tx, state.feature_id)
    blocked = before if before.status is Status.BLOCKED else with_status(before, Status.BLOCKED, reason=reason)
    prerequisites = tuple(sorted({*before.waits_for, waits_for}))
    change_status(tx, call, before, msgspec.structs.replace(blocked, waits_for=prerequisites, status_reason=reason))
    if before.status is Status.READY_TO_MERGE:
        # Its run has ended, so work on it is requested for the time after the merge.
        _request_once(tx, call, before.feature_id, again=True)


def _spec_text(kernel: Kernel, view: Snapshot, offer: Prerequisite) -> str:
    named = ", ".join(f"`{name}`" for name in offer.needed_by)
    files = "".join(f"- `{path}`\n" for path in offer.files)
    wanted = "".join(_quoted_spec(kernel, view, offer, name) for name in offer.needed_by)
    return (
        f"# Shared prerequisite of {named}\n\n"
        "All of these features would create the files below, so this feature creates them first:\n\n"
        f"{files}\n"
        "Build what all of them need, and nothing that only one of them needs. Their purpose:\n"
        f"{wanted}"
    )


def _quoted_spec(kernel: Kernel, view: Snapshot, offer: Prerequisite, name: str) -> str:
    """Return the spec of a waiting feature in a fence: its demands are not those of the new one."""
    plan = view.get(AcceptedPlan, name)
    summary = plan.plan.summary if plan else offer.summary
    data = kernel.files.read(spec_path(name), limit=LONGEST_QUOTE * 100)
    text = "" if data is None else data.decode(errors="replace")[:LONGEST_QUOTE].rstrip()
    fence = max(["~~~", *(f"{each}~" for each in _FENCES.findall(text))], key=len)
    return f"\n## {name}\n\n{summary}\n" + (f"\n{fence}\n{text}\n{fence}\n" if text else "")
