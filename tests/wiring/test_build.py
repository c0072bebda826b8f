"""The catalogue has every tool, and a command imports only what it uses."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from importlib import import_module

from aop import forge, gated
from aop.kernel import tools
from aop.kernel.gateway.calls import Tool
from aop.wiring.catalogue import CATALOGUE
from tests.world import World, run_aop

NOT_FOR_STATUS = {
    *("yaml", "re2", "typing_extensions", "subprocess", "shutil"),
    *("gettext", "locale", "platform", "textwrap", "urllib.parse", "ipaddress", "random"),
    *(
        "aop.core.text.yaml",
        "aop.adapters.processes.runner",
        "aop.adapters.config.reader",
        "aop.adapters.git.checkouts.user_checkout",
        "aop.adapters.git.worktrees.checkout",
        "aop.kernel.patches.checks",
        "aop.kernel.ports.processes",
        "aop.kernel.record.documents.plans",
    ),
}
MODULES = [
    found.name
    for home in (tools, gated, forge)
    for found in pkgutil.walk_packages(home.__path__, f"{home.__name__}.")
    if not found.ispkg
]


def test_the_catalogue_has_every_row_of_every_tools_module_under_its_own_name() -> None:
    rows: list[Tool] = [tool for module in MODULES for tool in getattr(import_module(module), "TOOLS", ())]
    assert dict(CATALOGUE) == {tool.name: tool for tool in rows}
    assert len(CATALOGUE) == len(rows)


def test_a_tool_that_is_not_there_is_not_in_the_catalogue() -> None:
    assert (CATALOGUE.get("feature.destroy"), "feature.destroy" in CATALOGUE) == (None, False)


def test_the_second_status_imports_no_yaml_no_processes_and_no_other_tools(world: World) -> None:
    assert run_aop(world.root, "status").code == 0
    program = "import sys; from aop.cli.main import main; main(['status']); print(*sys.modules)"
    command = [sys.executable, "-c", program]
    # Whoever measures a process imports for itself.
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    ended = subprocess.run(command, cwd=world.root, env=unmeasured, capture_output=True, text=True, check=True)
    imported = set(ended.stdout.split())
    # The dashboard, and the part of it that says why a feature waits.
    assert {name for name in imported if name in MODULES} == {
        f"aop.kernel.tools.report.{name}" for name in ("dashboard", "standings")
    }
    assert imported & NOT_FOR_STATUS == set()


def test_what_is_left_out_when_a_command_starts_is_there_when_it_is_asked_for() -> None:
    program = (
        "from aop.cli.shell.lean_imports import import_leanly; import_leanly(); import argparse, platform, sys\n"
        "from pathlib import Path; import msgspec\n"
        "class Word(msgspec.Struct):\n"
        "    'One.\\n\\n    Two.'\n"
        "    text: str\n"
        "print(Path('/a b').as_uri(), msgspec.json.schema(Word)['$defs']['Word']['description'].split())\n"
        "print(msgspec.inspect.type_info(Word).cls is Word, msgspec.yaml.__name__, msgspec.toml.__name__)\n"
        "print(bool(platform.machine()), argparse.ArgumentParser(prog='x').format_usage().strip())"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert ended.stdout == "file:///a%20b ['One.', 'Two.']\nTrue msgspec.yaml msgspec.toml\nTrue usage: x [-h]\n"
