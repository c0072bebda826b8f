"""The audit of a build on real trees: each check passes, and fails or warns for its own reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from aop.core.ids import ObjectId, TreeId
from aop.forge.builds.audit.audit_verdicts import NAMES, AuditVerdict
from aop.forge.contracts.types import ContractType
from aop.forge.projects.documents import ContractVersion, contract_key
from aop.kernel.ports.git import FileMode
from aop.kernel.record.documents.base import revise
from tests.forge.builds.built import VERIFY, Built
from tests.forge.builds.notes_app import APP, BASE, NOTES, PHASE_0, PHASE_1, STORE, TEST_APP, TEST_STORE

SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Return a build at the end of its first phase; each test brings its tree back."""
    made = Built(tmp_path_factory.mktemp("audit") / "repo")
    made.write(PHASE_0)
    made.verify()
    yield made
    made.world.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Built]:
    made = Built(tmp_path / "repo")
    yield made
    made.world.close()


def test_every_check_of_a_phase_that_is_done_passes(built: Built) -> None:
    assert built.verdicts() == dict.fromkeys(NAMES, "PASS")


CHANGES: list[tuple[str, AuditVerdict, Mapping[str, str | None], str]] = [
    ("A0", "FAIL", {"notes/store.py": "def broken(:\n"}, "notes/store.py:1 does not parse (the python grammar)"),
    ("A0", "FAIL", {"notes/package.json": "{"}, "notes/package.json cannot be read: "),
    ("A0", "FAIL", {"pyproject.toml": "[project\n"}, "pyproject.toml cannot be read: "),
    ("A1", "FAIL", {"scripts/more.py": "x = 1\n"}, "scripts/more.py belongs to no deliverable of the phases 0 to 0"),
    ("A1", "FAIL", {"README.md": "Early.\n"}, "README.md belongs to no deliverable of the phases 0 to 0"),
    ("A2", "FAIL", {"LICENSE": None}, "LICENSE was deleted"),
    ("A2", "FAIL", {"LICENSE": None, "COPYING": BASE["LICENSE"]}, "LICENSE was renamed to COPYING"),
    ("A2", "FAIL", {"LICENSE": "Free  to use.\n\n"}, "LICENSE changed in white space alone"),
    (
        "A2",
        "FAIL",
        {"LICENSE": None, **dict.fromkeys(PHASE_0)},
        "The number of files fell from 3 to 2 since the baseline.",
    ),
    ("A3", "FAIL", {"tests/test_store.py": None}, "Phase 0: tests/test_store.py does not exist"),
    ("A3", "FAIL", {"tests/test_app.py": None}, "Phase 0: no test reaches notes/app.py"),
    ("A4", "FAIL", {"notes/app.py": f"import sqlite3\n{APP}"}, "notes/app.py:1: No line of app matches"),
    ("A4", "FAIL", {"notes/store.py": f"import notes.app\n{STORE}"}, "notes/store.py:1: store does not import app"),
    ("A6", "FAIL", {"agentic/orchestrator/gates.yaml": "version: 1\n"}, "agentic/orchestrator/gates.yaml was changed"),
    ("A7", "FAIL", {"notes/app.py": f"{APP}\n"}, "The verification of the directive has not run on the tree "),
    ("A8", "FAIL", {"notes/app.py": f"{APP}\n"}, "The verification of the directive has not run on the tree "),
    ("A9", "FAIL", {"notes/store.py": f"import requests\n{STORE}"}, "notes/store.py:1 imports `requests`, which no"),
    (
        "A9",
        "FAIL",
        {"notes/store.py": f"import requests\n{STORE}", "requirements.txt": "requests==2.32\n"},
        "notes/store.py:1 imports `requests`, which the stack contract does not name",
    ),
    ("W1", "FAIL", {"notes/store.py": f'{STORE}\nKEY = "{SECRET}"\n'}, "notes/store.py:17 looks like a secret"),
    ("W3", "FAIL", {"notes/app.py": APP.replace("/health", "/other")}, "GET /health has no handler"),
    (
        "W3",
        "WARN",
        {"tests/test_app.py": TEST_APP.replace("/health", "/other")},
        "GET /health, handled at notes/app.py:12, is named by no test",
    ),
]


@pytest.mark.req("FORGE-056")
@pytest.mark.parametrize(("code", "verdict", "files", "proof"), CHANGES)
def test_a_check_fails_for_its_own_reason(
    built: Built, code: str, verdict: str, files: Mapping[str, str | None], proof: str
) -> None:
    before = {**BASE, **PHASE_0}
    built.write(files)
    try:
        check = built.audit()[code]
    finally:
        built.write({path: before.get(path) for path in files})
    assert (check.verdict, check.name) == (verdict, NAMES[code])
    assert any(line.startswith(proof) for line in check.proof), check.proof
    assert SECRET not in "".join(check.proof)


def test_a_deliverable_without_a_test_may_have_a_stated_reason(built: Built) -> None:
    built.write({"tests/test_app.py": None})
    try:
        reason = "It only connects parts that are tested."
        check = built.audit({"`notes/app.py` with `GET /health`": ("notes/app.py", reason)})["A3"]
    finally:
        built.write({"tests/test_app.py": TEST_APP})
    assert (check.verdict, check.proof[-1]) == ("PASS", f"Phase 0: without a test, because: {reason}")


def test_a_path_that_a_sign_off_claims_is_in_scope(built: Built) -> None:
    built.write({"tools/fill.py": "x = 1\n"})
    try:
        claims = {"`notes/store.py`, `tests/test_store.py`": ("notes/store.py", "tools/fill.py")}
        verdict = built.audit(claims)["A1"].verdict
    finally:
        built.write({"tools/fill.py": None})
    assert verdict == "PASS"


def test_a_package_that_is_declared_and_in_the_stack_is_fine(tmp_path: Path) -> None:
    stack = NOTES[ContractType.STACK].replace("Framework: none, WSGI", "Framework: PyYAML for notes, WSGI")
    made = Built(tmp_path / "repo", contracts={**NOTES, ContractType.STACK: stack})
    made.write({**PHASE_0, "notes/store.py": f"import yaml\n{STORE}", "requirements.txt": "PyYAML==6.0\n"})
    assert (made.audit()["A9"].verdict, made.audit()["A9"].proof) == ("PASS", ("1 new package, 1 package declared",))
    made.world.close()


def test_a_violation_of_the_baseline_is_a_warning_and_a_new_one_a_failure(tmp_path: Path) -> None:
    old = f"import sqlite3\n{APP}"
    made = Built(tmp_path / "repo", base={**BASE, **PHASE_0, "notes/app.py": old})
    made.write({"notes/store.py": f"{STORE}\n# more\n"})
    assert made.audit()["A4"].verdict == "WARN"
    made.write({"notes/store.py": f'{STORE}\nprint("x")\n'})
    check = made.audit()["A4"]
    assert (check.verdict, check.proof[0].partition(": ")[0]) == ("FAIL", "notes/store.py:17")
    made.world.close()


def test_a_tree_that_the_journal_does_not_explain_fails_the_diff_log(fresh: Built) -> None:
    fresh.write(PHASE_0)
    state = fresh.state()
    other = TreeId(ObjectId(fresh.git("rev-parse", "main^{tree}").strip()))
    with fresh.kernel.record.write() as tx:
        tx.put(revise(state, tree=other), state.feature_id)
    check = fresh.audit()["A5"]
    assert (check.verdict, check.proof[0][:12], check.proof[0][-30:-13]) == (
        "FAIL",
        "The tree is ",
        "journal ends with",
    )


def test_a_gap_between_two_entries_fails_the_diff_log(fresh: Built) -> None:
    fresh.write(PHASE_0)
    tree = fresh.state().tree
    fresh.put_event("patch_applied", tree=tree, before="0" * 40, files=1)
    check = fresh.audit()["A5"]
    assert check.verdict == "FAIL"
    assert check.proof[0].endswith(f"begins with the tree {'0' * 12}; the one before it was {tree[:12]}")


def _commit_by_hand(built: Built, message: str, *, author: str, path: str = "LICENSE") -> str:
    """Commit a change of a file on the branch of the build, past AOP."""
    tree = built.kernel.git.objects.tree_with(built.state().tree, {path: (FileMode.FILE, b"By hand.\n")})
    name, _, email = author.rstrip(">").partition(" <")
    who = ("-c", f"user.name={name}", "-c", f"user.email={email}")
    commit = built.git(*who, "commit-tree", tree, "-p", built.cycle().head, "-m", message).strip()
    built.git("update-ref", "refs/heads/forge/build-notes-b1", commit)
    return commit


BOT = "ForgeGuard Bot <forgeguard-bot@users.noreply.github.com>"


def test_commits_of_the_bot_and_of_people_are_fine_once_they_are_taken_in(fresh: Built) -> None:
    fresh.write(PHASE_0)
    fresh.commit()
    gates = "agentic/orchestrator/gates.yaml"
    commit = _commit_by_hand(fresh, "Tighten the gates", author="Bob <bob@example.org>", path=gates)
    assert (fresh.audit()["A5"].verdict, fresh.audit()["A5"].proof[0]) == (
        "WARN",
        f"The commit {commit[:12]} of Bob was not taken in yet",
    )
    fresh.world.ok("forge.build_take_commits", build_id=fresh.build_id)
    found = fresh.audit()
    assert (found["A5"].verdict, found["A6"].verdict, found["A6"].proof[0]) == (
        "PASS",
        "PASS",
        "1 commit of the bot, 1 of people",
    )


@pytest.mark.parametrize(
    ("message", "author"),
    [
        ("More", BOT),
        ("[forge] More", "Mallory <m@example.org>"),
        ("More\n\nBuild-Cycle: notes-b1", "Mallory <m@example.org>"),
    ],
)
def test_a_commit_that_poses_as_one_of_the_bot_fails(fresh: Built, message: str, author: str) -> None:
    fresh.write(PHASE_0)
    fresh.commit()
    commit = _commit_by_hand(fresh, message, author=author)
    check = fresh.audit()["A6"]
    assert (check.verdict, check.proof[0]) == (
        "FAIL",
        f"The commit {commit[:12]} poses as one of the bot, which did not make it",
    )


def test_steps_in_another_order_fail(fresh: Built) -> None:
    fresh.write(PHASE_0)
    fresh.verify(tuple(reversed(VERIFY)))
    check = fresh.audit()["A7"]
    assert (check.verdict, check.proof[0]) == (
        "FAIL",
        "The step `verify_2` (static) ran after `verify_1` (tests)",
    )
    fresh.verify()
    assert fresh.audit()["A7"].verdict == "PASS"


def test_red_tests_fail(fresh: Built) -> None:
    fresh.write({**PHASE_0, "tests/test_store.py": TEST_STORE.replace('["milk"]', '["beer"]')})
    run = fresh.verify()
    check = fresh.audit()["A8"]
    assert (check.verdict, check.proof[0][: len(run.run_id) + 17]) == ("FAIL", f"Run {run.run_id} did not pass")


@pytest.mark.parametrize(
    "text",
    [
        TEST_STORE.replace('        self.assertEqual(Store(":memory:").all(), [])', "        pass"),
        TEST_STORE.replace("    def test_an", '    @unittest.skip("later")\n    def test_an'),
        TEST_STORE.partition("    def test_an")[0],
    ],
    ids=["emptied", "skipped", "deleted"],
)
def test_a_test_that_is_gone_since_the_last_sign_off_fails(fresh: Built, text: str) -> None:
    fresh.write(PHASE_0)
    fresh.sign_off(fresh.cycle().head, fresh.verify(), 3)
    fresh.write({**PHASE_1, "tests/test_app.py": TEST_APP, "tests/test_store.py": text})
    fresh.verify()
    check = fresh.audit()["A8"]
    assert check.verdict == "FAIL"
    assert check.proof[1] == ("2 tests in the tree that are neither skipped nor empty; 3 at the sign-off of phase 0")


def test_a_log_that_was_changed_fails_the_ledger(fresh: Built) -> None:
    fresh.write(PHASE_0)
    run = fresh.verify()
    assert fresh.audit()["W2"].verdict == "PASS"
    (fresh.root / run.steps[0].log_path).write_text("All is well.\n")
    check = fresh.audit()["W2"]
    assert (check.verdict, check.proof) == ("FAIL", (f"The log `{run.steps[0].log_path}` is not what the step wrote.",))


def test_checks_that_cannot_be_computed_say_so(fresh: Built) -> None:
    fresh.write(PHASE_0)
    with fresh.kernel.record.write() as tx:
        tx.remove(ContractVersion, contract_key("notes", ContractType.BOUNDARIES, 1))
    found = fresh.audit()
    why = "Version 1 of `notes/boundaries` is missing from the record."
    assert (found["A4"].verdict, found["A4"].proof) == ("ERROR", (why,))
    assert (found["A0"].verdict, found["W2"].verdict) == ("PASS", "FAIL")


def test_the_tool_answers_with_every_check(built: Built) -> None:
    answer = built.world.ok("forge.build_audit", build_id=built.build_id)
    assert (answer["build_id"], answer["phase"], answer["passed"]) == ("notes-b1", 0, True)
    assert [each["code"] for each in answer["checks"]] == list(NAMES)
    assert built.world.refusal("forge.build_audit", build_id="notes-b9")["code"] == "unknown_build"


def test_an_audit_changes_nothing(built: Built) -> None:
    before = built.world.fingerprint()
    built.world.ok("forge.build_audit", build_id=built.build_id)
    assert built.world.fingerprint() == before
