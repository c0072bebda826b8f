"""Work requests: features that a person wants worked on, paused, or held back."""

from __future__ import annotations

from msgspec.structs import replace

from aop.core.ids import FeatureId
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.base import next_version, revise
from aop.kernel.record.documents.runs import Pause, ProviderWait, WorkRequest
from aop.kernel.record.port import Transaction
from aop.kernel.record.requests import wait_of


def request_work(
    tx: Transaction, call: Call, name: FeatureId, *, depends_on: tuple[FeatureId, ...] = (), again: bool = False
) -> None:
    """Store a request; an open one is replaced, and keeps its wish to begin again."""
    before = tx.get(WorkRequest, name)
    wish = WorkRequest(
        version=next_version(before),
        feature_id=name,
        again=again or (before is not None and before.again),
        depends_on=depends_on,
        wished_by=call.principal.actor,
        wished_at=call.kernel.now(),
    )
    tx.put(wish, name)


def store_pause(tx: Transaction, call: Call, name: FeatureId | None) -> bool:
    """Store the pause of a feature, or of everything; tell whether there was none before."""
    key = name or Pause.all
    if tx.get(Pause, key) is not None:
        return False
    tx.put(Pause(version=1, feature_id=name, paused_by=call.principal.actor, paused_at=call.kernel.now()), key)
    tx.append(call.event("run_paused", name))
    return True


def begin_wait(tx: Transaction, call: Call, name: FeatureId, wanted: ProviderWait, *, since: str) -> ProviderWait:
    """Let a feature wait for a provider, in the wait of the other features if there is one.

    `since` is when its turn began, or was held back: a turn from before the end of a wait has no news of its own.
    """
    before = tx.get(ProviderWait, wanted.provider)
    if before is None and wanted.is_over(call.kernel.clock.now()):
        # The wait that held the feature back has ended, and a turn was answered since.
        return wanted
    if before is None or since >= before.until:
        number = 1 if before is None else before.number + 1
        wait = replace(wanted, version=next_version(before), number=number, features=(name,))
        tx.append(
            call.event("provider_wait_began", name, provider=wait.provider, until=wait.until, reason=wait.trouble)
        )
    else:
        is_longer = wanted.until > before.until
        if not is_longer and before.is_over(call.kernel.clock.now()):
            # It ended on the way here: the feature goes on at once.
            return before
        wait = revise(
            before,
            until=wanted.until if is_longer else before.until,
            trouble=wanted.trouble if is_longer else before.trouble,
            features=tuple(dict.fromkeys([*before.features, name])),
        )
        tx.append(call.event("provider_wait_joined", name, provider=wait.provider, until=wait.until))
    tx.put(wait, wait.provider)
    return wait


def end_wait(tx: Transaction, call: Call, name: FeatureId) -> tuple[FeatureId, ...]:
    """End the wait that a feature takes part in, for all its features; return them."""
    wait = wait_of(tx, name)
    if wait is None:
        return ()
    tx.put(revise(wait, features=(), until=min(wait.until, call.kernel.now())), wait.provider)
    tx.append(call.event("provider_wait_ended", name, provider=wait.provider, features=list(wait.features)))
    return wait.features


def leave_wait(tx: Transaction, name: FeatureId) -> None:
    """Take a deleted feature out of its wait."""
    wait = wait_of(tx, name)
    if wait is not None:
        left = tuple(each for each in wait.features if each != name)
        tx.put(revise(wait, features=left), wait.provider)


def forget_wait(tx: Transaction, provider: str, *, began_at: str) -> None:
    """Forget the waits for a provider when a turn that began after them was answered: the next one is the first."""
    wait = tx.get(ProviderWait, provider)
    if wait is not None and not wait.features and began_at >= wait.until:
        tx.remove(ProviderWait, provider)
