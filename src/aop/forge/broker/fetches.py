"""Fetches: each contract that an agent read is counted, by role (FORGE-069, 112)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from aop.core.errors import Fault, Json, Refusal
from aop.core.ids import FeatureId, OperationId, is_feature_id
from aop.forge.broker.parts import part_of
from aop.forge.broker.phase_windows import window_of
from aop.forge.broker.resolution import FoundContract, template_of
from aop.forge.broker.sessions import Scope
from aop.forge.contracts.types import ContractType
from aop.forge.projects.documents import ContractVersion, ForgeProject, contract_key
from aop.kernel.gateway.calls import Call
from aop.kernel.ports.tokenizer import Tokenizer
from aop.kernel.record.port import Event, JournalEntry, Snapshot

FETCHED = "contract_fetched"


def count_fetches(call: Call, scope: Scope | None, found: Iterable[tuple[FoundContract, str | None]]) -> None:
    """Write down which contracts, and which section of each, this call answers with; a person is not counted.

    Without a wait for the disk: a power cut may take the newest counts along, and a full disk keeps no agent from
    reading. Nothing depends on them.
    """
    if call.principal.person:
        return
    with suppress(Fault), call.kernel.record.write(durable=False) as tx:
        for each, section in found:
            tx.append(_event(call, scope, each, section))


def _event(call: Call, scope: Scope | None, found: FoundContract, section: str | None) -> Event:
    build_id = None if scope is None else scope.build_id
    return Event(
        kind=FETCHED,
        at=call.kernel.now(),
        actor=call.principal.actor,
        operation_id=call.operation_id or OperationId(call.kernel.new_id("op")),
        feature_id=None if build_id is None else _as_feature(build_id),
        payload={
            "project_id": None if scope is None else scope.project.project_id,
            "build_id": build_id,
            "contract_type": found.name,
            "role": call.principal.role,
            "number": found.number,
            "source": found.source,
            "section": section,
        },
    )


def _as_feature(build_id: str) -> FeatureId | None:
    """Return a build's id as the id by which the journal finds its events."""
    return FeatureId(build_id) if is_feature_id(build_id) else None


def fetches_of_build(view: Snapshot, build_id: str) -> Iterable[JournalEntry]:
    """Return the fetches of a build, oldest first."""
    entries = view.journal(feature_id=_as_feature(build_id), kinds=(FETCHED,))
    return (entry for entry in entries if entry.event.payload.get("build_id") == build_id)


def has_fetches(view: Snapshot, build_id: str) -> bool:
    """Tell whether anything was read in a build."""
    feature = _as_feature(build_id)
    found = (
        fetches_of_build(view, build_id)
        if feature is None
        else view.journal(feature_id=feature, kinds=(FETCHED,), limit=1)
    )
    return any(True for _ in found)


def contracts_read(view: Snapshot, build_id: str) -> tuple[str, ...]:
    """Return the contracts that were read in a build, each once with who read it, in order."""
    read = (
        f"{payload['contract_type']}{_of(payload['section'])} by {payload['role']}"
        for payload in (entry.event.payload for entry in fetches_of_build(view, build_id))
    )
    return tuple(dict.fromkeys(read))


def fetches_of_project(view: Snapshot, project_id: str) -> Iterator[JournalEntry]:
    """Return the fetches of a project, of all its builds and of none, oldest first."""
    entries = view.journal(kinds=(FETCHED,))
    return (entry for entry in entries if entry.event.payload.get("project_id") == project_id)


def fetched_part(
    view: Snapshot, project: ForgeProject, payload: Mapping[str, Json], tokenizer: Tokenizer | None
) -> str:
    """Return the text that a fetch was answered with, as far as it still exists: all but artifacts."""
    try:
        return _fetched_part(view, project, payload, tokenizer)
    except Refusal:
        # A template of an older AOP had this section.
        return ""


def _fetched_part(
    view: Snapshot, project: ForgeProject, payload: Mapping[str, Json], tokenizer: Tokenizer | None
) -> str:
    name, number, section = (payload[key] for key in ("contract_type", "number", "section"))
    found = _fetched_contract(view, project, str(name), number)
    if found is None:
        return ""
    window = re.fullmatch(r"Phase (\d{1,4})", str(section)) if name == ContractType.PHASES else None
    if window is not None:
        return window_of(found.content, int(window[1])).content
    part = part_of(found, section if isinstance(section, str) else None, tokenizer)
    return "\n".join([part.content, *part.outline])


def _fetched_contract(view: Snapshot, project: ForgeProject, name: str, number: Json) -> FoundContract | None:
    if not isinstance(number, int):
        return template_of(project.mode, name)
    stored = view.get(ContractVersion, contract_key(project.project_id, ContractType(name), number))
    return None if stored is None else FoundContract(name=name, content=stored.content, source="db", number=number)


def _of(section: object) -> str:
    return f" ({section})" if section else ""
