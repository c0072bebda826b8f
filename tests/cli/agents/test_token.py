"""`aop token`: the token alone on stdout, everything else beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aop.core.roles import Role
from tests.forge.broker.shelves import pin, shelve
from tests.world import World, make_repository, run_aop


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = World(make_repository(tmp_path_factory.mktemp("token") / "repo"))
    world.init("one")
    pin(world, shelve(world, "birds"))
    shelve(world, "boats")
    world.close()
    return world.root


def principal(root: Path, token: str) -> tuple[Role, str, bool]:
    world = World(root)
    who = world.app.tokens.principal(token)
    world.close()
    return who.role, who.actor, who.person


@pytest.mark.req("AOP-327")
def test_a_token_is_all_that_is_printed(root: Path) -> None:
    ran = run_aop(root, "token", "builder", "--feature", "one")
    assert (ran.code, ran.err, ran.out.count("\n")) == (0, "", 1)
    assert principal(root, ran.out.strip()) == (Role.BUILDER, "builder:one", False)


def test_a_worker_without_a_feature_gets_all_of_them_and_a_warning(root: Path) -> None:
    ran = run_aop(root, "token", "qa")
    assert (ran.code, principal(root, ran.out.strip())) == (0, (Role.QA, "qa:*", False))
    assert ran.err == "aop: this token lets a qa work on every feature; `--feature ID` restricts it to one.\n"
    assert run_aop(root, "token", "orchestrator").err == ""


def test_json_says_what_the_token_is_good_for(root: Path) -> None:
    told = run_aop(root, "token", "planner", "--feature", "one", "--ttl", "2d", "--json").json["data"]
    assert (told["role"], told["feature_id"], told["issued_by"]) == ("planner", "one", "person:ada")
    assert principal(root, told["token"]) == (Role.PLANNER, "planner:one", False)


def test_a_token_for_a_build_reads_that_build_and_its_project_alone(root: Path) -> None:
    told = run_aop(root, "token", "coder", "--build", "birds-b1", "--json").json["data"]
    assert (told["project_id"], told["build_id"], told["feature_id"], told["actor"]) == (
        *("birds", "birds-b1", None),
        "coder:birds-b1",
    )
    plain = run_aop(root, "token", "scout", "--project", "birds")
    assert (plain.code, plain.err, principal(root, plain.out.strip())[1]) == (0, "", "scout:birds")


def test_an_agent_of_a_project_without_one_gets_all_of_them_and_a_warning(root: Path) -> None:
    ran = run_aop(root, "token", "scout")
    assert (ran.code, ran.err) == (
        0,
        "aop: this token lets a scout read every project; `--project P` or `--build B` restricts it to one.\n",
    )


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("scout", "--project", "nothing"), "unknown_project", 1),
        (("scout", "--build", "nothing"), "unknown_build", 1),
        (("scout", "--project", "boats", "--build", "birds-b1"), "unknown_project", 1),
        (("qa", "--project", "birds"), "invalid_cli_args", 2),
        (("system",), "invalid_cli_args", 2),
        (("person",), "invalid_cli_args", 2),
        (("Builder",), "invalid_cli_args", 2),
        (("qa", "--ttl", "8d"), "invalid_cli_args", 2),
        (("qa", "--ttl", "0s"), "invalid_cli_args", 2),
        (("qa", "--ttl", "1"), "invalid_cli_args", 2),
        (("qa", "--ttl", "99999999d"), "invalid_cli_args", 2),
        (("qa", "--feature", "../x"), "invalid_feature_slug", 2),
        (("qa", "--feature", "nobody"), "unknown_feature", 1),
        (("revoke",), "invalid_cli_args", 2),
        (("revoke", "nobody"), "token_invalid", 4),
        (("revoke", "a.b.c"), "token_invalid", 4),
    ],
)
def test_what_nobody_may_have_is_refused(root: Path, words: tuple[str, ...], code: str, exit_code: int) -> None:
    ran = run_aop(root, "token", *words)
    assert (ran.code, ran.out) == (exit_code, "")
    assert f"[{code}]" in ran.err


@pytest.mark.hostile("T10", "T17")
@pytest.mark.parametrize("how", ["id", "token", "-"])
def test_a_token_is_listed_by_its_id_and_revoked_by_either(root: Path, how: str) -> None:
    told = run_aop(root, "token", "qa", "--feature", "one", "--json").json["data"]
    which = {"id": told["token_id"], "token": told["token"], "-": "-"}[how]
    revoked = run_aop(root, "token", "revoke", which, stdin=told["token"] + "\n")
    assert (revoked.code, revoked.out) == (0, "")
    listed = run_aop(root, "token", "list")
    (line,) = [line for line in listed.out.splitlines() if line.startswith(told["token_id"])]
    assert "revoked" in line
    assert told["token"] not in listed.out + revoked.err


def test_all_tokens_are_listed_for_programs(root: Path) -> None:
    told = run_aop(root, "token", "qa", "--json").json["data"]
    del told["token"]
    assert told in run_aop(root, "token", "list", "--json").json["data"]["tokens"]


def test_a_small_command_does_not_pay_for_the_server(root: Path) -> None:
    script = (
        "import sys; from aop.cli.main import main; main(sys.argv[1:]);"
        " sys.exit(any(name in sys.modules for name in ('mcp', 'pydantic', 'starlette')))"
    )
    for verb in (("status",), ("token", "list")):
        assert run_python(root, script, *verb) == 0


def run_python(folder: Path, script: str, *words: str) -> int:
    return subprocess.run([sys.executable, "-c", script, *words], cwd=folder, check=False, timeout=300).returncode
