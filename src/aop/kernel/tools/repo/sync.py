"""Tool `repo.sync`: brings the person's checkout of the base branch up to it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.ports.git import CheckoutStep
from aop.kernel.record.port import Transaction


class SyncResult(Struct, frozen=True, kw_only=True):
    base_branch: str
    updated: bool
    """Whether index and files were brought to the branch; false if nothing was behind."""
    old: str | None
    """The commit that the checkout showed before; null if nothing was behind."""
    new: str | None
    """The commit that the checkout shows now; null if nothing was behind."""
    files: int
    """How many files differ between the two."""
    message: str
    """The outcome, as a sentence."""


def sync(call: Call, _arguments: Arguments) -> Outcome:
    """Bring index and files of the checkout to the base branch by git's two-way rule."""
    kernel = call.kernel
    branch = kernel.config().policy.worktree.base_branch
    with kernel.locks.base_branch():
        step = kernel.git.checkout.follow(branch)
        elsewhere = kernel.git.checkout.where(branch) if step is None else ""

        def decide(tx: Transaction) -> Outcome:
            if step is not None:
                facts = msgspec.to_builtins(step)
                tx.append(call.event("checkout_updated", None, branch=branch, **facts))
            return _result(branch, step, elsewhere)

        return call.commit(decide)


def _result(branch: str, step: CheckoutStep | None, elsewhere: str) -> SyncResult:
    if step is None:
        message = elsewhere or f"The checkout is up to date with `{branch}`."
        return SyncResult(base_branch=branch, updated=False, old=None, new=None, files=0, message=message)
    message = f"The checkout shows `{branch}` at {step.new[:12]} (before: {step.old[:12]})."
    return SyncResult(base_branch=branch, updated=True, old=step.old, new=step.new, files=step.files, message=message)


TOOLS = (
    Tool(
        name="repo.sync",
        summary="Bring a person's checkout of the base branch up to the branch, and lose no local change.",
        arguments=Arguments,
        output=SyncResult,
        roles=COORDINATORS,
        run=sync,
        mutates=True,
        person_only=True,
    ),
)
