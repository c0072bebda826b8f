"""Base gates: the check of the base branch before agents begin."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from aop.cli.shell.repository import call_tool
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.errors import BaseGatesFail, Json
from aop.core.ids import FeatureId
from aop.wiring.build import App

CHECK = "gates.check_base"


def check_base_gates(app: App, arguments: argparse.Namespace, terminal: Terminal, features: Sequence[FeatureId]) -> str:
    """Check that gates can judge the work; return the failure on the base branch that a person accepts, or nothing.

    Raises: CallRefused.
    """
    wanted: dict[str, Json] = {"features": list(features), "anyway": arguments.anyway}
    try:
        found = call_tool(app, CHECK, wanted, report=terminal.say).data
    except CallRefused as refused:
        if refused.error["code"] != BaseGatesFail.code or not terminal.is_interactive:
            raise
        terminal.say(f"{refused.error['message']}\n  Log: {refused.evidence['log_path']}")
        if not terminal.confirm("Begin all the same?"):
            raise
        found = call_tool(app, CHECK, {**wanted, "anyway": True}, report=terminal.say).data
    if found["failure"]:
        terminal.say(f"The gates fail on {found['base_branch']}, which a person accepted: {found['failure']}")
    return str(found["failure"])
