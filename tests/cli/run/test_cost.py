"""A cap on cost as people meet it: a run that stops before the next turn, and goes on when a person says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.scripted_agents import agent_command
from tests.kernel.tools.worlds import POLICY, yaml
from tests.world import FILES, make_repository, run_aop

BILLED = """\
import contextlib, io, json, runpy, sys

sys.argv = sys.argv[1:]
with contextlib.redirect_stdout(io.StringIO()) as said:
    runpy.run_path(sys.argv[0])
usage = {"input_tokens": 900, "output_tokens": 100, "cost_usd": 0.25}
print(json.dumps({**json.loads(said.getvalue()), "usage": usage}))
"""


@pytest.mark.slow
def test_a_run_over_its_cap_ends_with_a_question_and_goes_on_when_the_cap_is_raised(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {**FILES, POLICY: yaml(version=1, cost={"max_usd_per_run": 0.25})})
    spec, agent = tmp_path / "one.md", tmp_path / "agent"
    spec.write_text("Write one.\n")
    python, words = agent_command(agent).split(" ", 1)
    (agent / "billed.py").write_text(BILLED)
    env = {"AOP_CUSTOM_AGENT": f"{python} {agent / 'billed.py'} {words}", "AOP_AGENT_PROVIDER": "custom"}
    ran = run_aop(root, "run", "-fi", str(spec), "--wait", env=env)
    assert ran.code == 4
    assert "The cap on this run is reached: 0.25 of 0.25 USD." in ran.err
    assert "Answer with: aop answer q1 raise|stop, then continue with: aop resume --wait" in ran.err
    assert run_aop(root, "answer", "q1", "yes").code == 1
    assert run_aop(root, "answer", "q1", "raise").code == 0
    assert run_aop(root, "resume", "--wait", env=env).code == 0
    assert "2 turns, 0.5000 USD, 2000 tokens" in run_aop(root, "status").out
