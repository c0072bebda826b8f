"""The worked example of docs/running.md is carried out, command by command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.scripted_agents import agent_command
from tests.world import make_repository

PAGE = Path(__file__).parents[3] / "docs" / "running.md"
TIME = re.compile(r"^ *\d+\.\d s ")


@pytest.mark.slow
@pytest.mark.req("AOP-244", "AOP-310")
def test_the_worked_example_prints_what_the_page_says(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    (root / "specs").mkdir()
    for name, text in {"asks_colour": "Paint the door.\n", "search": "Find what was asked for.\n"}.items():
        (root / "specs" / f"{name}.md").write_text(text)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "USER": "ada", "AOP_CUSTOM_AGENT": agent_command(tmp_path / "agent")}
    for command, expected in worked_example():
        if command.startswith("export"):
            continue
        ran = subprocess.run(
            ["sh", "-c", f"{{ {command}; }} 2>&1"], cwd=root, env=env, capture_output=True, text=True, check=False
        )
        printed = [TIME.sub("", line).strip() for line in ran.stdout.splitlines()]
        missing = [line for line in expected if TIME.sub("", line).strip() not in printed]
        assert missing == [], f"$ {command}\n{ran.stdout}"


def worked_example() -> list[tuple[str, list[str]]]:
    """Return the commands of the first console block, each with the lines that it prints."""
    block = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    commands: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            commands.append((line.removeprefix("$ "), []))
        elif line.strip() != "...":
            commands[-1][1].append(line)
    return commands
