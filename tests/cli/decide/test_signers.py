"""Approvals that a signer of the policy signs, and commands for a person at the terminal of an agent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.machine.agent_signs import SIGNS
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.base import revise
from tests.kernel.tools.worlds import POLICY, yaml
from tests.world import FILES, World, files, git, make_repository, run_aop

MORE: dict[str, Any] = {
    "diff": "--- /dev/null\n+++ b/src/two.txt\n@@ -0,0 +1 @@\n+two\n",
    "files": files(create=("src/two.txt",)),
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two SSH keys."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ada", "eve"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)], check=True
        )
    return folder


@pytest.fixture
def root(tmp_path: Path, keys: Path) -> Path:
    """A repository where Ada signs, with a feature that may be merged."""
    line = f"ada@example.com {(keys / 'ada.pub').read_text().strip()}"
    made = make_repository(tmp_path / "repo", {**FILES, POLICY: yaml(version=1, approval={"signers": [line]})})
    world = World(made)
    world.ready("one")
    world.close()
    return made


def test_a_signer_approves_and_the_signature_stays_with_the_merge(root: Path, keys: Path) -> None:
    approved = run_aop(root, "approve", "one", "--yes", "--json", env={"AOP_SIGNING_KEY": str(keys / "ada")})
    assert (approved.code, approved.json["data"]["signer"]) == (0, "ada@example.com"), approved.err
    merged = run_aop(root, "merge", "one", "--token", approved.json["data"]["token"])
    assert merged.code == 0, merged.err
    assert "AOP-Signer: ada@example.com" in git(root, "log", "-1", "--format=%B", "main")
    assert run_aop(root, "evidence", "verify").code == 0


@pytest.mark.parametrize(
    ("key", "says"),
    [
        pytest.param(None, "is not signed, and the policy names who signs", id="no key"),
        pytest.param("eve", "is not signed by a signer of the policy", id="the key of a stranger"),
    ],
)
def test_without_a_signers_key_nothing_is_approved_or_merged(
    root: Path, keys: Path, key: str | None, says: str
) -> None:
    before = git(root, "for-each-ref")
    named = ["--key", str(keys / key)] if key else []
    for verb in ("approve", "merge"):
        ran = run_aop(root, verb, "one", "--yes", *named, "--json")
        assert (ran.code, ran.json["error"]["code"]) == (4, "signature_required")
        assert says in ran.json["error"]["message"]
    assert git(root, "for-each-ref") == before


def test_a_signature_is_for_one_approval_of_one_tree(root: Path, keys: Path) -> None:
    assert run_aop(root, "approve", "one", "--yes", "--key", str(keys / "ada")).code == 0
    world = World(root)
    world.ready("two", **MORE)
    with world.app.record.read() as view:
        [granted] = view.all(Approval)
    signed: dict[str, Any] = {"signature": granted.signature, "signed_at": granted.signed_at}
    for name, code in (("one", "approval_invalid"), ("two", "signature_required")):
        status = world.ok("repo.status", feature_id=name)
        refused = world.refusal(
            "feature.approve", feature_id=name, tree=status["tree"], base=status["base_head"], **signed
        )
        assert refused["code"] == code
    world.close()


def test_a_signature_that_was_changed_in_the_record_does_not_merge(root: Path, keys: Path) -> None:
    approved = run_aop(root, "approve", "one", "--yes", "--key", str(keys / "ada"), "--json").json["data"]
    world = World(root)
    with world.app.record.write() as tx:
        [granted] = tx.all(Approval)
        tx.put(revise(granted, signed_at="2020-01-01T00:00:00Z"), granted.approval_id)
    world.close()
    merged = run_aop(root, "merge", "one", "--token", approved["token"], "--json")
    assert (merged.code, merged.json["error"]["code"]) == (4, "signature_required")


@pytest.mark.parametrize(
    "line", ["ada", "ada ssh-ed25519", "ada ssh-ed25519 AAAA\neve ssh-ed25519 BBBB", "# ssh-ed25519 AAAA", ""]
)
def test_a_line_that_names_no_key_is_refused_with_the_policy(tmp_path: Path, line: str) -> None:
    made = make_repository(tmp_path / "repo", {**FILES, POLICY: yaml(version=1, approval={"signers": [line]})})
    ran = run_aop(made, "status", "--json")
    assert ran.json["error"]["code"] == "invalid_configuration"
    assert "approval.signers" in ran.json["error"]["message"]


PERSONAL = [
    ["approve", "one", "--yes"],
    ["merge", "one", "--yes"],
    ["delete", "one", "--yes"],
    ["token", "builder"],
    ["call", "feature.approve", "--role", "system", "{}"],
]


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a feature that may be merged; nothing that is tried on it changes it."""
    made = make_repository(tmp_path_factory.mktemp("ready") / "repo")
    world = World(made)
    world.ready("one")
    world.close()
    return made


@pytest.mark.parametrize("words", PERSONAL, ids=lambda words: words[0])
def test_a_command_for_a_person_is_refused_where_the_token_of_an_agent_is_set(ready: Path, words: list[str]) -> None:
    ran = run_aop(ready, *words, "--json", env={"AOP_TOKEN": "aop2.x.y"})
    assert ran.json["error"]["code"] == "person_required"
    assert "`AOP_TOKEN` is set" in ran.json["error"]["message"]


def test_unsetting_the_token_below_an_agent_does_not_help(tmp_path: Path) -> None:
    """The environment of an ancestor is what it was started with."""
    code = "import sys; from aop.adapters.machine.agent_signs import sign_of_agent; sys.stdout.write(sign_of_agent({}))"
    shell = f"env -u AOP_TOKEN -u AOP_STEP_ID {sys.executable} -c '{code}'; true"
    for name in ("AOP_TOKEN", "AOP_STEP_ID"):
        ran = subprocess.run(["sh", "-c", shell], env={**os.environ, name: "x"}, capture_output=True, check=True)
        assert f"has `{name}`" in ran.stdout.decode(), ran.stderr
    own = {name: value for name, value in os.environ.items() if name not in SIGNS}
    assert subprocess.run(["sh", "-c", shell], env=own, capture_output=True, check=True).stdout == b""
