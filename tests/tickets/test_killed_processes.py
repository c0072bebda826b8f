"""Processes killed at each step of both pipelines in both modes, over real MCP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.tickets.test_troubles import expected
from tests.tickets.shaken_worlds import WAYS, effects, made_world

REPOSITORY = Path(__file__).parents[2]
BEGIN = ["parse", "report_start", "check_branch"]
DOCS = ["read_project_docs", "read_architecture_docs"]
TOOLS = ["gather_tools", "filter_tools", "set_limits"]
TELL = ["resolve_project", "update_description", "report_success", "move_ticket"]
STEPS = {
    "linear scaffold": [
        *BEGIN, *DOCS, "ask_model", "validate_plan", "create_branch", "commit", "open_merge_request", *TELL,
    ],
    "agentic scaffold": [
        *BEGIN, *DOCS, *TOOLS, "reply_1", "call_1_1", "reply_2", "call_2_1", "reply_3", "call_3_1", "reply_4",
        "call_4_1", "reply_5", "end_loop", "prove_result", *TELL,
    ],
    "linear review": [
        *BEGIN, "check_merge_request", *DOCS, "read_diff", "read_known_findings", "ask_model", "check_report",
        "publish_review", "report_success",
    ],
    "agentic review": [
        *BEGIN, "check_merge_request", *DOCS, "read_diff", "read_known_findings", *TOOLS, "reply_1", "call_1_1",
        "reply_2", "end_loop", "check_report", "publish_review", "report_success",
    ],
}  # fmt: skip


def worked(name: str, folder: Path, step: str = "-") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tests.tickets.killed_work", name, str(folder), step]
    return subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.hostile("S33")
@pytest.mark.parametrize("name", STEPS)
def test_killed_at_every_step_and_started_again_each_effect_is_there_once(name: str, tmp_path: Path) -> None:
    made_world(tmp_path, WAYS[name])
    for step in STEPS[name]:
        died = worked(name, tmp_path, step)
        assert (step, died.returncode) == (step, -9), died.stderr
    ended = worked(name, tmp_path)
    assert (ended.stdout, ended.returncode) == ("scaffolded" if "scaffold" in name else "reviewed", 0), ended.stderr
    assert effects(tmp_path) == expected(name)
