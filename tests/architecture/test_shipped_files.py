"""Shipped files: examples, container, workflow and instructions are true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from aop.adapters.config.reader import read_config
from aop.adapters.git.repository import open_repository
from aop.core.roles import Role
from aop.kernel.config.gates import Mode, ParserType
from aop.kernel.contracts.contract_files import document_schemas
from aop.kernel.gates.reports.coverage import PARSERS
from tests.mcpserver.clients import AOP, over_stdio, token_for
from tests.mcpserver.contract_check import differences
from tests.world import World, git, make_repository

ROOT = Path(__file__).parents[2]
LANGUAGES = ("java", "node", "python", "rust")
SCHEMAS = document_schemas()


@pytest.mark.req("AOP-332")
@pytest.mark.parametrize("language", LANGUAGES)
def test_an_example_is_a_configuration_that_proves_something_in_every_mode(language: str, tmp_path: Path) -> None:
    folder = ROOT / "examples" / language
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.yaml")}
    root = make_repository(tmp_path / "repo", texts)
    repository = open_repository(root, os.environ)
    config = read_config(repository.branches.head, repository.objects, root)
    assert [source.partition(":")[0] for _name, source in config.sources] == ["main"] * 3
    assert config.warnings == ()
    profile = config.gates.profiles["default"]
    assert all(profile.modes.steps(mode) for mode in Mode)
    assert profile.parsers.coverage is not None
    assert profile.parsers.coverage.type in set(PARSERS) - {ParserType.NONE}
    for path, text in texts.items():
        jsonschema.validate(yaml.safe_load(text), SCHEMAS[Path(path).stem])


@pytest.mark.req("AOP-018", "AOP-331")
def test_the_compose_file_mounts_the_repository_and_listens_for_this_machine_only() -> None:
    service = read_yaml("docker/compose.yaml")["services"]["aop"]
    assert [volume.rpartition(":")[2] for volume in service["volumes"]] == ["/repo"]
    assert (service["network_mode"], "ports" in service) == ("host", False)
    assert (ROOT / "docker" / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    assert service["command"][0] == "serve"


@pytest.mark.req("AOP-331")
def test_the_image_copies_files_that_exist_and_starts_the_entry_point() -> None:
    text = (ROOT / "docker/Dockerfile").read_text().replace("\\\n", " ")
    copied = [word for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert 'ENTRYPOINT ["aop-entrypoint"]' in text
    assert "docker/entrypoint.sh /usr/local/bin/aop-entrypoint" in text
    known = {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "ENV", "ENTRYPOINT", "CMD"}
    assert {line.split()[0] for line in text.splitlines() if line and not line.startswith("#")} <= known


@pytest.mark.req("AOP-331")
def test_the_entry_point_runs_aop_in_the_mounted_repository_and_refuses_without_one(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    ran = entry_point(root, "status", "--json")
    assert (ran.returncode, '"features": []' in ran.stdout) == (0, True)
    missing = entry_point(tmp_path / "nowhere", "status")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "there is no git repository" in missing.stderr


def entry_point(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", str(ROOT / "docker/entrypoint.sh"), *words],
        env={**os.environ, "PATH": programs, "AOP_REPO": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.req("AOP-060", "AOP-328", "AOP-330")
@pytest.mark.parametrize("role", [Role.ORCHESTRATOR, Role.BUILDER])
def test_a_server_lists_exactly_what_the_committed_contract_promises(world: World, role: Role) -> None:
    with over_stdio(world.root, token_for(world, role)) as client:
        assert list(differences(role, client.tools())) == []


@pytest.mark.req("AOP-330")
def test_a_server_that_lists_something_else_is_told_tool_by_tool(world: World) -> None:
    script = ROOT / "tests/mcpserver/contract_check.py"
    ended = subprocess.run(
        [sys.executable, str(script), Role.BUILDER, *AOP, "mcp", "--repo", str(world.root)],
        env={**os.environ, "AOP_TOKEN": token_for(world, Role.PLANNER)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 1
    assert "repo.apply_patch: promised, and not listed\n" in ended.stderr
    assert "plan.submit: listed, and not promised\n" in ended.stderr


@pytest.mark.req("AOP-064", "AOP-065", "AOP-330")
def test_the_workflow_runs_everything_and_checks_the_contract() -> None:
    jobs = read_yaml(".github/workflows/ci.yml")["jobs"]
    runs = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert runs["ci"] == [".ci/run"]
    for command in (".venv/bin/aop tools check --docs", ".venv/bin/lint-imports", "docker/check-contract.sh aop:ci"):
        assert command in runs["contract"]
    named = [word for run in runs["contract"] for word in run.split() if word.startswith(("tests/", "docker/"))]
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.req("AOP-333")
def test_everything_that_aop_leaves_in_a_repository_is_documented_and_hidden_from_git(world: World) -> None:
    world.ready("one")
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval("one"))
    text = (ROOT / "docs/state-format.md").read_text(encoding="utf-8")
    section = text.partition("| path below `.aop/` |")[2].partition("\n\n")[0]
    documented = set(re.findall(r"`([a-z.-]+)/?(?:<id>/)?`", section))
    assert set(os.listdir(world.root / ".aop")) - documented == set()
    assert (
        git(world.root, "status", "--porcelain", "--untracked-files=all", "--", ".aop", ".worktrees", "agentic") == ""
    )


@pytest.mark.req("AOP-335")
def test_the_instructions_for_testers_name_checks_that_exist() -> None:
    text = (ROOT / "agentic/orchestrator/prompts/testing-standards.instructions.md").read_text(encoding="utf-8")
    assert "pytest" in text
    named = re.findall(r"`([\w/.]+\.(?:py|toml))`", text)
    places = [ROOT, ROOT / "tests/architecture"]
    assert [name for name in named if not any((place / name).is_file() for place in places)] == []
    assert {"test_banned_names.py", "tests/requirements_covered.py", "pyproject.toml"} <= set(named)


def read_yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
