"""Repository: the managed repository that a command works on, and its tools."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from aop.cli.shell.terminal import CallRefused
from aop.core.errors import Json
from aop.core.roles import Role
from aop.kernel.gateway.calls import Call, Envelope
from aop.wiring.build import App, Settings, build

if TYPE_CHECKING:
    from aop.kernel.ports.reviewer import Reviewer


def open_app(arguments: argparse.Namespace, *, to_read: bool = False, asks_models: bool = False) -> App:
    """Open the repository that `--repo` names; close it with `with`. Only with `asks_models` tools may ask a model."""
    settings = Settings.from_env(os.environ)
    reviewer = _reviewer(settings) if asks_models else None
    return build(Path(arguments.repo), settings, to_read=to_read, reviewer=reviewer)


def ask_models_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the operator's word that a server may ask models."""
    parser.add_argument(
        "--ask-models", action="store_true", help="let tools ask a model from this server: the reviewer of a workflow"
    )


def _reviewer(settings: Settings) -> Reviewer:
    """Return the reviewer that is a model. A server comes here only at the operator's word (AOP-017)."""
    from aop.wiring.models import model_reviewer

    return model_reviewer(settings)


def gate_call(app: App, report: Callable[[str], None]) -> Call:
    """Return a call for gates that a person tries out: nothing of them is recorded."""
    gateway = app.gateway
    tool = gateway.tools["gates.run"]
    return Call(kernel=gateway.kernel, principal=app.person, tool=tool, operation_id=None, report=report)


def asking(app: App) -> Callable[[str, Json], Any]:
    """Return the function that answers a person at the terminal with a tool's data. It raises: CallRefused."""
    return lambda tool, arguments: call_tool(app, tool, arguments).data


def call_tool(
    app: App,
    tool: str,
    arguments: Json,
    *,
    role: Role = Role.ORCHESTRATOR,
    report: Callable[[str], None] = lambda _line: None,
) -> Envelope:
    """Call a tool as the person at the terminal. Raises: CallRefused."""
    answer = app.gateway.call(replace(app.person, role=role), tool, arguments, report=report)
    if answer.error is not None:
        raise CallRefused(answer.error, answer.evidence)
    return answer
