"""`aop forge check` as a real process: seeded violations of each kind, acceptances, gates."""

from __future__ import annotations

import json
import os
import shutil
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import aop
from aop.forge.contracts.types import ContractType, file_name
from tests.forge import sample_contracts as sample
from tests.forge.projects import stored
from tests.world import FILES, PASSING_GATES, Ran, World, git, make_repository, run_aop
from tests.world import files as planned

CODE: Mapping[str, str] = {
    "birdlog/__init__.py": "",
    "birdlog/app.py": (
        "from fastapi import FastAPI\n\nfrom birdlog.routers.sightings import router\n\n"
        "app = FastAPI()\napp.include_router(router)\n"
    ),
    "birdlog/routers/__init__.py": "",
    "birdlog/routers/sightings.py": (
        "from fastapi import APIRouter\n\nfrom birdlog.services.counts import checked\n\nrouter = APIRouter()\n\n\n"
        '@router.get("/sightings")\ndef year(year: int):\n    return []\n\n\n'
        '@router.post("/sightings")\ndef write(count: int):\n    return checked(count)\n\n\n'
        '@router.post("/members")\ndef invite(email: str):\n    return {}\n'
    ),
    "birdlog/services/__init__.py": "",
    "birdlog/services/counts.py": (
        "from birdlog.repos.store import save\n\n\ndef checked(count):\n    return save(count)\n"
    ),
    "birdlog/repos/__init__.py": "",
    "birdlog/repos/store.py": "def save(count):\n    return count\n",
    "migrations/1.sql": (
        "CREATE TABLE members (id INTEGER PRIMARY KEY, email TEXT, password_hash TEXT);\n"
        "CREATE TABLE sightings (id INTEGER, member_id INTEGER, species TEXT, count INTEGER, seen_at TEXT);\n"
    ),
}


def commit(root: Path, **changes: str) -> None:
    """Commit files; a name has `__` for `/` and `_dot_` for the dot before its suffix."""
    for name, text in changes.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Change")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "repo")
    for name, text in CODE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Bird Log")
    assert run_aop(root, "forge", "new", "Bird Log").code == 0
    world = World(root)
    stored(world, "bird-log", sample.CONTRACTS)
    world.close()
    return root


def check(root: Path, *words: str) -> Ran:
    return run_aop(root, "forge", "check", "bird-log", *words)


def verdicts(ran: Ran) -> dict[str, Any]:
    data = ran.json["data"]
    return {name: data[name] for name in ("holds", "violated", "unknown", "accepted")}


def violations(ran: Ran) -> list[tuple[str, str, int]]:
    return [
        (each["kind"], proof["file"], proof["line"])
        for each in ran.json["data"]["clauses"]
        if each["verdict"] == "violated"
        for proof in each["proofs"]
    ]


def test_code_that_keeps_every_clause_passes(repository: Path) -> None:
    ran = check(repository)
    assert (ran.code, ran.out) == (0, "14 clauses: 14 hold, 0 violated, 0 unknown, 0 accepted\n")
    assert check(repository, "--json").json["data"]["commit"] == git(repository, "rev-parse", "HEAD").strip()


SEEDS = [
    ("pattern", "birdlog/services/counts.py", "def checked(count):\n", "def checked(count):  # fastapi\n", 4),
    ("import", "birdlog/routers/sightings.py", "router = APIRouter()\n",
     "from birdlog.repos.store import save\nrouter = APIRouter()\n", 5),
    ("route", "birdlog/routers/sightings.py", '@router.post("/members")', '@router.post("/guests")', 18),
    ("table", "migrations/1.sql", "CREATE TABLE members", "CREATE TABLE guests (id INTEGER);\nCREATE TABLE members", 1),
]  # fmt: skip


@pytest.mark.req("FORGE-057")
@pytest.mark.parametrize(("kind", "file", "before", "after", "line"), SEEDS, ids=[seed[0] for seed in SEEDS])
def test_a_seeded_violation_of_each_kind_is_found_at_its_line(
    repository: Path, kind: str, file: str, before: str, after: str, line: int
) -> None:
    text = (repository / file).read_text()
    assert before in text
    (repository / file).write_text(text.replace(before, after))
    assert check(repository).code == 0  # the checkout is not read, the commit is
    git(repository, "commit", "-q", "-a", "-m", "Seed")
    ran = check(repository, "--json")
    assert ran.code == 1
    assert (kind, file, line) in violations(ran)
    assert {each[0] for each in violations(ran)} == {kind}
    assert check(repository, "--ref", "HEAD~1").code == 0


def test_a_missing_route_and_a_missing_table_are_proven_by_the_line_of_the_contract(repository: Path) -> None:
    text = (repository / "birdlog/routers/sightings.py").read_text()
    commit(
        repository,
        birdlog__routers__sightings_dot_py=text.split('@router.post("/members")')[0],
        migrations__1_dot_sql=(repository / "migrations/1.sql").read_text().split("\n")[0] + "\n",
    )
    ran = check(repository, "--json")
    assert violations(ran) == [("route", "physics.yaml", 6), ("table", "schema.md", 15)]


def test_a_column_that_the_schema_does_not_have_is_a_violation(repository: Path) -> None:
    commit(repository, migrations__1_dot_sql=CODE["migrations/1.sql"].replace("email TEXT", "email TEXT, phone TEXT"))
    ran = check(repository, "--json")
    assert violations(ran) == [("table", "migrations/1.sql", 1)]
    (clause,) = [each for each in ran.json["data"]["clauses"] if each["verdict"] == "violated"]
    assert (clause["clause"], clause["detail"]) == ("schema.members", "Schema lacks phone.")


def test_an_accepted_violation_is_silent_until_its_line_changes(repository: Path) -> None:
    file = "birdlog/services/counts.py"
    commit(repository, birdlog__services__counts_dot_py=f"# fastapi once\n{CODE[file]}")
    ran = check(repository)
    assert ran.code == 1
    name = next(line.split()[1] for line in ran.out.splitlines() if line.startswith("violated"))
    accepted = check(repository, "--accept", name)
    assert (accepted.code, accepted.out) == (0, "14 clauses: 13 hold, 0 violated, 0 unknown, 1 accepted\n")
    commit(repository, birdlog__services__counts_dot_py=f"\n\n# fastapi once\n{CODE[file]}")
    assert check(repository).code == 0
    commit(repository, birdlog__services__counts_dot_py=f"# fastapi twice\n{CODE[file]}")
    changed = check(repository, "--json")
    assert (changed.code, violations(changed)) == (1, [("pattern", file, 1)])
    commit(repository, birdlog__services__counts_dot_py=f"# fastapi once\nimport fastapi\n{CODE[file]}")
    assert violations(check(repository, "--json")) == [("pattern", file, 2)]
    commit(repository, birdlog__services__counts_dot_py=f"# fastapi once\n# fastapi once\n{CODE[file]}")
    assert violations(check(repository, "--json")) == [("pattern", file, 2)]


def test_what_cannot_be_decided_is_unknown_and_exits_with_3(repository: Path) -> None:
    git(repository, "rm", "-q", "-r", "migrations", "birdlog/repos")
    commit(repository, birdlog__services__counts_dot_py="def checked(count):\n    return count\n")
    ran = check(repository, "--json")
    assert (ran.code, ran.json["ok"]) == (3, False)
    assert verdicts(ran) == {"holds": 8, "violated": 0, "unknown": 6, "accepted": 0}
    details = {each["clause"]: each["detail"] for each in ran.json["data"]["clauses"] if each["verdict"] == "unknown"}
    assert details["boundaries.repos.imports.services"] == "No file matches `birdlog/repos/**/*.py`."
    assert details["schema.members"] == "No table was found in the code; its definition may not be one that is read."


def test_an_unknown_clause_can_be_accepted_too(repository: Path) -> None:
    git(repository, "rm", "-q", "-r", "migrations")
    git(repository, "commit", "-q", "-m", "Without tables")
    for name in ("schema.members", "schema.sightings", "schema.undeclared"):
        assert check(repository, "--accept", name).code in (0, 3)
    assert check(repository).code == 0
    # What was accepted is the reason: another one is unknown again.
    commit(repository, other_dot_sql="CREATE TABLE members (id INTEGER, email TEXT);\n", birdlog__big_dot_py="(" * 9)
    assert check(repository).code == 3


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("bird-logg",), 1, "unknown_project"),
        (("bird-log", "--ref", "nowhere"), 1, "unknown_ref"),
        (("bird-log", "--accept", "schema.birds"), 1, "unknown_clause"),
        (("bird-log", "--accept", "schema.members"), 1, "nothing_to_accept"),
        (("bird-log", "--contracts", "absent"), 2, "input_path_not_found"),
        (("bird-log", "--contracts", "birdlog"), 3, "no_contracts"),
        (("bird-log", "--contracts", "birdlog", "--accept", "x"), 2, "invalid_cli_args"),
    ],
)
def test_what_is_not_there_is_refused_by_name(repository: Path, words: tuple[str, ...], code: int, error: str) -> None:
    ran = run_aop(repository, "forge", "check", *words, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (code, error)


def exported(root: Path) -> Path:
    folder = root / "contracts"
    folder.mkdir()
    for each, text in sample.CONTRACTS.items():
        (folder / file_name(ContractType(each))).write_text(text)
    return folder


def test_a_folder_of_contracts_checks_the_files_as_they_are_without_a_record(repository: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    for name, text in CODE.items():
        (plain / name).parent.mkdir(parents=True, exist_ok=True)
        (plain / name).write_text(text)
    exported(plain)
    report = tmp_path / "report.xml"
    ran = run_aop(plain, "forge", "check", "bird-log", "--contracts", "contracts", "--junit", str(report))
    assert (ran.code, ran.out) == (0, "14 clauses: 14 hold, 0 violated, 0 unknown, 0 accepted\n")
    (plain / "birdlog/repos/store.py").write_text("def save(count):\n    print(count)\n")
    ran = run_aop(plain, "forge", "check", "bird-log", "--contracts", "contracts", "--junit", str(report))
    assert ran.code == 1
    assert "  birdlog/repos/store.py:2: print(count)\n" in ran.out
    suite = ElementTree.parse(report).getroot()[0]
    assert dict(suite.attrib) == {
        "name": "contracts of bird-log",
        "tests": "14",
        "failures": "1",
        "errors": "0",
        "skipped": "0",
    }
    (failed,) = [case for case in suite if case.find("failure") is not None]
    assert failed.get("name", "").startswith("boundaries.repos.pattern-")
    assert failed[0].text == "birdlog/repos/store.py:2: print(count)\n"
    assert not (plain / ".aop").exists()
    assert not (plain / ".git").exists()


VIOLATION = "def save(count):\n    print(count)\n"
HIDES_IT = [("*",), ("birdlog/repos/", "!contracts"), ("store.py", "**/repos/*")]


@pytest.mark.parametrize("rules", HIDES_IT)
def test_a_gitignore_hides_no_tracked_file_from_a_check_of_files(repository: Path, rules: tuple[str, ...]) -> None:
    exported(repository)
    (repository / "birdlog/repos/store.py").write_text(VIOLATION)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "A violation")
    (repository / "birdlog/repos/.gitignore").write_text("*\n")
    (repository / ".gitignore").write_text("\n".join(rules) + "\n")
    ran = check(repository, "--contracts", "contracts", "--json")
    assert (ran.code, violations(ran)) == (1, [("pattern", "birdlog/repos/store.py", 2)])


def test_a_check_of_files_reads_new_ones_and_leaves_out_what_is_ignored_and_not_tracked(repository: Path) -> None:
    exported(repository)
    (repository / ".gitignore").write_text("made.py\n")
    (repository / "birdlog/repos/made.py").write_text(VIOLATION)
    (repository / "gone").symlink_to(repository / "birdlog/services")
    assert check(repository, "--contracts", "contracts").code == 0
    (repository / "birdlog/repos/new.py").write_text(VIOLATION)
    ran = check(repository, "--contracts", "contracts", "--json")
    assert violations(ran) == [("pattern", "birdlog/repos/new.py", 2)]


def test_without_a_repository_a_check_of_files_reads_what_a_gitignore_names(repository: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(repository, plain, ignore=shutil.ignore_patterns(".git", ".aop"))
    exported(plain)
    (plain / "birdlog/repos/store.py").write_text(VIOLATION)
    (plain / ".gitignore").write_text("*\n")
    ran = run_aop(plain, "forge", "check", "bird-log", "--contracts", "contracts", "--json")
    assert (ran.code, violations(ran)) == (1, [("pattern", "birdlog/repos/store.py", 2)])


def test_a_folder_of_contracts_with_a_pipe_is_refused_by_name(repository: Path) -> None:
    boundaries = exported(repository) / file_name(ContractType.BOUNDARIES)
    boundaries.unlink()
    os.mkfifo(boundaries)
    ran = check(repository, "--contracts", "contracts", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "input_path_not_found")
    assert ran.json["error"]["message"] == "`contracts/boundaries.json` cannot be read: it is not a plain file."


def test_a_report_is_not_written_through_a_link(repository: Path) -> None:
    kept = repository / "kept.txt"
    kept.write_text("mine\n")
    (repository / "report.xml").symlink_to(kept)
    ran = check(repository, "--junit", "report.xml", "--json")
    assert (ran.code, ran.json["error"]["code"], kept.read_text()) == (2, "input_path_not_found", "mine\n")


def test_a_known_violation_of_the_contract_is_accepted(repository: Path) -> None:
    folder = exported(repository)
    known = (
        '"known_violations": [{"file": "birdlog/repos/*.py", "reason": "until the logger is there", "layer": "repos"}]'
    )
    text = sample.BOUNDARIES.replace('"known_violations": []', known)
    (folder / "boundaries.json").write_text(text)
    (repository / "birdlog/repos/store.py").write_text("def save(count):\n    print(count)\n")
    ran = check(repository, "--contracts", "contracts")
    assert (ran.code, ran.out) == (0, "14 clauses: 13 hold, 0 violated, 0 unknown, 1 accepted\n")


def test_a_secret_in_a_violating_line_is_masked(repository: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    commit(repository, birdlog__repos__store_dot_py=f'def save(count):\n    print("{secret}")\n')
    ran = check(repository)
    assert ran.code == 1
    assert "birdlog/repos/store.py:2: print(" in ran.out
    assert secret not in ran.out


def test_names_and_contents_that_are_not_text_do_not_stop_the_check(repository: Path) -> None:
    (repository / "birdlog/repos/blob.py").write_bytes(b"\0\xff" * 100)
    (repository / "birdlog/repos/loop.py").symlink_to("loop.py")
    (repository / "birdlog/services/hid\tden.py").write_text("print(1)\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "Odd files")
    ran = check(repository, "--json")
    assert ran.code == 3
    unknown = [each["detail"] for each in ran.json["data"]["clauses"] if each["verdict"] == "unknown"]
    assert "`birdlog/repos/blob.py` is not text, too large, or a link, and 1 more file." in unknown
    assert any("den.py" in each for each in unknown)


def installed(folder: Path) -> Path:
    """Install AOP as far as a check needs it, into a place that the sandbox of a gate shows; return its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    ours, theirs = Path(sysconfig.get_path("purelib")), next(folder.glob("lib/python*/site-packages"))
    for name in ("msgspec", "yaml", "_yaml", "re2", *(each.name for each in ours.glob("*re2*"))):
        if (ours / name).is_dir():
            shutil.copytree(ours / name, theirs / name, dirs_exist_ok=True)
        elif (ours / name).is_file():
            shutil.copy(ours / name, theirs / name)
    for grammar in ours.glob("tree_sitter*"):
        shutil.copytree(grammar, theirs / grammar.name, dirs_exist_ok=True)
    shutil.copytree(Path(aop.__file__).parent, theirs / "aop", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "bin" / "python"


@pytest.mark.slow
def test_a_gate_runs_it_in_its_sandbox_on_the_tree_of_a_feature(tmp_path: Path) -> None:
    command = [
        str(installed(tmp_path / "tool")),
        "-m",
        "aop.cli.main",
        "forge",
        "check",
        "bird-log",
        "--contracts",
        "contracts",
    ]
    contracts = {f"contracts/{file_name(each)}": text for each, text in sample.CONTRACTS.items()}
    gates = PASSING_GATES.replace("cmd: [sh, check.sh]", f"cmd: {json.dumps(command)}", 1)
    files = {**FILES, **CODE, **contracts, "agentic/orchestrator/gates.yaml": gates}
    world = World(make_repository(tmp_path / "repo", files))
    world.plan(allowed_areas=["src", "birdlog"], files=planned(create=("birdlog/repos/log.py",), modify=("src/a.txt",)))
    world.patch()
    assert world.ok("gates.run", feature_id="one", mode="fast")["verdict"] == "pass"
    added = "diff --git a/birdlog/repos/log.py b/birdlog/repos/log.py\nnew file mode 100644\n--- /dev/null\n"
    world.patch(diff=f"{added}+++ b/birdlog/repos/log.py\n@@ -0,0 +1 @@\n+print(1)\n")
    failed = world.call("gates.run", feature_id="one", mode="fast")
    assert failed.error is not None
    assert failed.error["details"]["steps"][0]["exit_code"] == 1
    log = (world.root / failed.evidence["log_path"]).read_text()
    assert "  birdlog/repos/log.py:1: print(1)\n" in log
    world.close()
