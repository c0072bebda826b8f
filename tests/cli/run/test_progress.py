"""Steps of a run: the features stand below each other, and a terminal gets wrapped lines."""

from __future__ import annotations

import re
import subprocess
import sys

CODE = """
from aop.cli.run.supervision.progress import Progress
from aop.cli.shell.terminal import Terminal
progress = Progress(Terminal(json=False), ["one", "a-longer-name"])
progress("one", "planner: answers with PLAN_SUBMISSION")
progress("a-longer-name", "ends: ready_to_merge")
progress("added-payments-export-for-accountants", "ends: failed")
progress("one", "asks: Go on?\\x1b[2J\\n\\u202eforged")
"""


def test_the_features_of_a_run_are_aligned() -> None:
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert re.sub(r"\d\.\d s", "T s", ran.stderr).splitlines() == [
        "    T s  one:           planner: answers with PLAN_SUBMISSION",
        "    T s  a-longer-name: ends: ready_to_merge",
        "    T s  added-paymen…accountants: ends: failed",
        "    T s  one:           asks: Go on?\\u{1b}[2J \\u{202e}forged",
    ]
