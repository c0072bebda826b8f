"""Refusals at a terminal: their words may be those of an agent."""

from __future__ import annotations

import subprocess
import sys

CODE = """
from aop.cli.shell.terminal import Terminal
from aop.core.errors import AgentFailed
Terminal(json=False).refused(AgentFailed("It said:\\n\\x1b[2J\\u202eforged", hint="Ask it again."))
"""


def test_a_refusal_cannot_steer_the_terminal() -> None:
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines()[:2] == ["aop: It said:", "\\u{1b}[2J\\u{202e}forged [agent_failed]"]
