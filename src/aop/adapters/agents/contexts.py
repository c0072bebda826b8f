"""Contexts: the parts of this machine that turns of coding agents work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from aop.adapters.agents.logins.destinations import MACHINE_NETWORK, Network
from aop.adapters.agents.logins.login_sessions import Logins
from aop.adapters.agents.model_access import metered_access
from aop.adapters.agents.scratch_trees import ScratchReader
from aop.adapters.agents.turn_logs import AGENT_LOGS
from aop.adapters.agents.workers.command import CommandContext, timeouts_of
from aop.adapters.agents.workers.vendor_session import SessionContext
from aop.adapters.machine.own_environment import hidden_folders, visible_paths
from aop.core.ids import FeatureId
from aop.kernel.features.lifecycle import stopped_reason
from aop.kernel.features.worktree_extras import environment_of
from aop.kernel.gateway.calls import Kernel
from aop.kernel.gateway.tokens import Tokens


def command_context(
    kernel: Kernel,
    root: Path,
    environ: Mapping[str, str],
    scratch: Callable[[FeatureId], AbstractContextManager[Path]],
    *,
    logs: Path | None = None,
) -> CommandContext:
    """Return the context of a custom command; `scratch` provides the tree that it works in.

    Its logs are below another folder than the root, if one is given.
    """
    return CommandContext(
        processes=kernel.processes,
        rules=lambda: kernel.config().policy.execution,
        scratch=scratch,
        environment=lambda feature_id: environment_of(kernel, feature_id, kernel.config().policy.worktree),
        private=root / ".aop" / "tmp",
        logs=(logs or root) / AGENT_LOGS,
        path=visible_paths(environ.get("PATH", ""), hidden_folders(root)),
        timeouts=timeouts_of(kernel.config().policy.supervisor),
        stopped=partial(stopped_reason, kernel),
    )


def session_context(
    kernel: Kernel,
    root: Path,
    environ: Mapping[str, str],
    tokens: Tokens,
    mcp_url: str,
    *,
    network: Network | None = None,
    logs: Path | None = None,
) -> SessionContext:
    """Return the context of agent sessions; they reach AOP at this MCP address.

    Their logs and counts are below another folder than the root, if one is given.
    """
    logs = logs or root
    return SessionContext(
        kernel=kernel,
        tokens=tokens,
        scratches=ScratchReader(kernel.git, root, environ),
        access=metered_access(kernel, logs, environ),
        logins=Logins(kernel=kernel, root=logs, environ=environ, network=network or MACHINE_NETWORK),
        environment=lambda feature_id: environment_of(kernel, feature_id, kernel.config().policy.worktree),
        mcp_url=mcp_url,
        root=root,
        private=root / ".aop" / "tmp",
        logs=logs / AGENT_LOGS,
        path=visible_paths(environ.get("PATH", ""), hidden_folders(root)),
        timeouts=timeouts_of(kernel.config().policy.supervisor),
        stopped=partial(stopped_reason, kernel),
    )
