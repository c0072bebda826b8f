"""Scenes for real coding agents: a repository, a key and scripted models."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.agents.vendors.catalogue import vendors_of
from tests.cli.shops import Shop
from tests.real.conftest import BIN
from tests.real.fake_vendors import Asked, Call, FakeVendors, Json
from tests.world import Ran, World, plan_for, run_aop

SECONDS = 240.0
KEY = "sk-the-real-key-of-a-person-0123456789"
TRIED = {name: vendor for name, vendor in vendors_of(None, {}).items() if vendor.row.tried}
VENDORS = ("claude", "codex", "gemini")
PROGRAMS = (*VENDORS, "opencode", "qwen", "claude-acp")
PLAN = plan_for("good", files={"create": ["src/good.txt"], "modify": [], "delete": []})
PATCH = "--- /dev/null\n+++ b/src/good.txt\n@@ -0,0 +1 @@\n+Write good.\n"


def needs(vendor: str) -> None:
    """Skip the test if the program of an agent is not there."""
    if not (BIN / TRIED[vendor].program).exists():
        pytest.skip("The programs are not installed: `make real` does that, where there is `npm`.")


def environment(vendor: str, model: FakeVendors) -> dict[str, str]:
    """Return what leads an agent to a model of ours."""
    row = TRIED[vendor].row
    assert row.endpoint is not None
    assert row.key_variable is not None
    url = model.url + ("/v1" if row.endpoint.family == "openai" else "")
    return {"PATH": f"{BIN}:{os.environ['PATH']}", row.key_variable: KEY, row.endpoint.url_variable: url}


def ran_with(shop: Shop, vendor: str, model: FakeVendors) -> Ran:
    """Run one feature, `good`, with a real agent."""
    shop.wants("good")
    words = ["--agent-provider", vendor, "--agent-model", "a-model", "--json"]
    env = environment(vendor, model)
    return run_aop(shop.root, "run", "-fl", str(shop.specs), "--wait", *words, env=env, seconds=SECONDS)


def requests_of(model: FakeVendors) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """Return what the model was asked, for a test that fails."""
    return [(asked.prompt[-300:], asked.results, sorted(asked.offered)) for asked in model.asked]


def logs(shop: Shop) -> dict[str, str]:
    return {path.name: path.read_text()[-3000:] for path in (shop.root / ".aop/logs").rglob("*.log")}


def spent(shop: Shop) -> Any:
    world = World(shop.root)
    summary = world.ok("report.feature_summary", feature_id="good")
    world.close()
    return summary["spent"]


# --- what a model says -----------------------------------------------------------------------------


def works(asked: Asked) -> Call | str:
    """Plan one file, and write it: with the agent's own tool where it has one, with a patch where not."""
    if asked.results:
        return "done"
    if is_planner(asked):
        return called(asked, "submit_plan", {"feature_id": "good", "plan": PLAN})
    tool = asked.tool("Write") or asked.tool("write_file")
    if tool is None:
        return called(asked, "submit_patch", {"feature_id": "good", "unified_diff": PATCH})
    return Call(name=tool, arguments={"file_path": "src/good.txt", "content": "Write good.\n"})


def submits(asked: Asked) -> Call | str:
    """Plan one file of any feature, and submit it as a patch."""
    feature = re.search(r"of the feature `(\w+)`", asked.prompt)
    if feature is None or asked.results:
        return "done"
    name = feature[1]
    if is_planner(asked):
        plan = plan_for(name, files={"create": [f"src/{name}.txt"], "modify": [], "delete": []})
        return called(asked, "submit_plan", {"feature_id": name, "plan": plan})
    patch = f"--- /dev/null\n+++ b/src/{name}.txt\n@@ -0,0 +1 @@\n+Write {name}.\n"
    return called(asked, "submit_patch", {"feature_id": name, "unified_diff": patch})


def is_planner(asked: Asked) -> bool:
    return "You are the planner" in asked.prompt


def called(asked: Asked, name: str, arguments: Json) -> Call | str:
    tool = asked.tool(name)
    if tool is None and "exec" in asked.offered:
        return Call(name="exec", arguments={}, code=f"text(await tools.mcp__aop__{name}({json.dumps(arguments)}))")
    return f"`{name}` is not offered: {sorted(asked.offered)}" if tool is None else named(asked, tool, arguments)


def named(asked: Asked, tool: str, arguments: Json, like: str = "") -> Call:
    """Return a call of a tool under this very name; one that is not offered stands where another does."""
    space = asked.offered[like or tool]
    return Call(name=f"{tool}@{space}" if space else tool, arguments=arguments)


# --- who holds a text ------------------------------------------------------------------------------


def files_with(text: str, folder: Path) -> list[Path]:
    """Return the files that hold a text; links and mounts are not followed, what is gone meanwhile is left out."""
    device = folder.stat().st_dev if folder.is_dir() else 0
    found = []
    for above, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if os.lstat(os.path.join(above, name)).st_dev == device]
        found += [Path(above, name) for name in files if text.encode() in _content(Path(above, name))]
    return found


def agent_environments(folder: Path) -> Mapping[int, bytes]:
    """Return the environment of each process of an agent whose home is below a folder; those of other tests are not."""
    found = {int(path.parent.name): _content(path) for path in Path("/proc").glob("[0-9]*/environ")}
    # The supervisor has the key and no token; every process of an agent has a token and its home.
    return {
        pid: content
        for pid, content in found.items()
        if b"AOP_TOKEN=" in content and f"\0HOME={folder}/".encode() in b"\0" + content
    }


def _content(path: Path) -> bytes:
    try:
        return b"" if path.is_symlink() or not path.is_file() else path.read_bytes()
    except OSError:
        return b""
