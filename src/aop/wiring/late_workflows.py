"""Shows gated workflows in their worktrees; few repositories have one, so what it takes is imported when it is due."""

from __future__ import annotations

from aop.core.ids import FeatureId
from aop.kernel.gateway.calls import Kernel


def show_workflow(kernel: Kernel, name: FeatureId) -> None:
    """Bring the worktree of a workflow up to the record."""
    from aop.gated.session.session import show_workflow as show

    show(kernel, name)
