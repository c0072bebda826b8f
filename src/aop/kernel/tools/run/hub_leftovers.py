"""Tool `leftovers.clean_hub`: refs at the hub that no feature needs any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated

from msgspec import Meta, Struct

from aop.core.clock import timestamp
from aop.core.errors import Fault
from aop.core.ids import CommitId, ObjectId
from aop.kernel.features.tree.hub_refs import NeededRefs, is_sweeping, left_refs, set_sweeping
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.ports.fleet import HubRefs
from aop.kernel.ports.git import GitObjects
from aop.kernel.record.port import Transaction

MOST = 1000
"""The most refs of one call."""
_BATCH = 200
"""The most refs that other writers of the record wait for."""
_NEEDED = "A feature needs it again."
_DAY = 86_400


class CleanHubArguments(Arguments, frozen=True, kw_only=True):
    dry_run: bool = True
    """Only list them."""
    grace_seconds: Annotated[int, Meta(ge=0, le=365 * _DAY)] = 3600
    """Keep those that were needed within this time."""


class HubRef(Struct, frozen=True, kw_only=True):
    ref: str
    """Its whole name."""
    commit: str
    """The commit that it names."""
    problem: str = ""
    """Why it was not removed; empty if it was, or if it is only listed."""


class CleanHubResult(Struct, frozen=True, kw_only=True):
    dry_run: bool
    """Whether they are only listed."""
    refs: tuple[HubRef, ...]
    """The refs that no feature has needed since then; of many, the first 1,000."""
    left: int
    """The number of further ones."""


def clean_hub(call: Call, arguments: CleanHubArguments) -> Outcome:
    """List refs at the hub that no feature of this record needs any more, or remove those that nobody moved since."""
    hub = call.kernel.hub
    listed = {} if hub is None else hub.listed()
    found = _unneeded(call, listed, arguments.grace_seconds)
    part = {ref: listed[ref] for ref in found[:MOST]}
    kept = {} if hub is None or arguments.dry_run else _remove(call, hub, part)
    refs = tuple(HubRef(ref=ref, commit=commit, problem=kept.get(ref, "")) for ref, commit in part.items())

    def decide(tx: Transaction) -> Outcome:
        if not arguments.dry_run:
            set_sweeping(tx, on=False)
        return CleanHubResult(dry_run=arguments.dry_run, refs=refs, left=len(found) - len(part))

    return call.commit(decide)


def _unneeded(call: Call, listed: Mapping[str, CommitId], grace_seconds: int) -> Sequence[str]:
    """Return the refs that have been left behind for at least so long."""
    if not listed:
        return ()
    kernel = call.kernel
    before = timestamp(kernel.clock.now() - timedelta(seconds=grace_seconds))
    with kernel.record.read() as view:
        left = left_refs(view, listed, _OwnCommits(kernel.git.objects))
    return [ref for ref, since in left.items() if since <= before]


class _OwnCommits:
    """The commits of the managed repository."""

    def __init__(self, objects: GitObjects) -> None:
        self._objects = objects

    def tree_of(self, commit: str) -> str:
        try:
            return self._objects.tree_of(CommitId(ObjectId(commit)))
        except Fault:
            return ""

    def contains(self, newer: str, older: str) -> bool:
        try:
            return self._objects.is_ancestor(CommitId(ObjectId(older)), CommitId(ObjectId(newer)))
        except Fault:
            return False


def _remove(call: Call, hub: HubRefs, refs: Mapping[str, CommitId]) -> Mapping[str, str]:
    """Remove refs; return why some stay."""
    names, kept = [*refs], dict[str, str]()
    for start in range(0, len(names), _BATCH):
        part = {ref: refs[ref] for ref in names[start : start + _BATCH]}
        stayed = None
        while stayed is None:
            stayed = _remove_part(call, hub, part)
        kept |= stayed
    return kept


def _remove_part(call: Call, hub: HubRefs, refs: Mapping[str, CommitId]) -> Mapping[str, str] | None:
    """Remove refs; return why some stay, or None if it had to be announced first.

    No feature can come to need one of them meanwhile, because this change holds the lock of all changes. Once it is
    announced, nobody relies on what was at the hub before, even if this process dies.
    """
    with call.kernel.record.write() as tx:
        if not is_sweeping(tx):
            set_sweeping(tx, on=True)
            return None
        needed = NeededRefs(tx)
        kept = {ref: _NEEDED for ref in refs if ref in needed}
        unneeded = {ref: commit for ref, commit in refs.items() if ref not in needed}
        kept |= hub.remove(unneeded) if unneeded else {}
        removed = [ref for ref in refs if ref not in kept]
        if removed:
            tx.append(call.event("hub_cleaned", None, refs=removed))
    return kept


TOOLS = (
    Tool(
        name="leftovers.clean_hub",
        summary="List refs at the hub that no feature needs any more, or remove them.",
        arguments=CleanHubArguments,
        output=CleanHubResult,
        roles=SYSTEM,
        run=clean_hub,
        mutates=True,
        person_only=True,
    ),
)
