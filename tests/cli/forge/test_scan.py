"""`aop forge scan` and `map` as real processes, on repositories that are small, empty, hostile or unchanged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from tests.forge.scan.shop import FILES, SECRET
from tests.world import Ran, World, git, make_repository, run_aop


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "repo", FILES)
    assert forge(root, "new", "Shop").code == 0
    return root


def forge(root: Path, *words: str) -> Ran:
    return run_aop(root, "forge", *words)


def results(root: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = forge(root, "map", "shop", *words, "--json").json["data"]["results"]
    return found


def commit(root: Path, message: str = "More") -> str:
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)
    return git(root, "rev-parse", "HEAD").strip()


@pytest.mark.req("FORGE-226")
def test_a_scan_finds_routes_tables_and_packages_each_with_its_place(shop: Path) -> None:
    ran = forge(shop, "scan", "shop", "--json")
    assert ran.code == 0, ran.err
    data = ran.json["data"]
    head = git(shop, "rev-parse", "HEAD").strip()
    assert (data["run_id"], data["project_id"], data["head_sha"]) == ("shop-s1", "shop", head)
    found = results(shop)
    assert [(each["method"], each["path"], f"{each['file']}:{each['line']}") for each in found["routes"]] == [
        ("POST", "/api/orders", "shop/routes/orders.py:13"),
        ("GET", "/api/orders/{order_id}", "shop/routes/orders.py:8"),
        ("GET", "/cart/{id}", "web/cart.js:3"),
        ("PUT", "/cart/{id}", "web/cart.js:3"),
        ("GET", "/health", "shop/main.py:11"),
        ("GET", "/ping", "web/server.js:6"),
        ("GET", "/stock/{sku}", "api/src/main/java/shop/Stock.java:6"),
        ("DELETE", "/users/{name}", "shop/routes/users.py:6"),
    ]
    assert [(each["name"], each["columns"], f"{each['file']}:{each['line']}") for each in found["tables"]] == [
        ("customers", ["id", "name"], "migrations/001.sql:2"),
        ("orders", ["id", "total"], "shop/models.py:4"),
    ]
    assert found["head_sha"] == head
    assert found["stack_profile"]["primary_language"] == "python"
    assert found["stack_profile"]["backend"] == [
        {"name": "express", "version": "4.19.2", "file": "web/package.json", "line": 4},
        {"name": "fastapi", "version": "0.99.0", "file": "pyproject.toml", "line": 6},
    ]
    with_places = {"architecture", "dossier", "metrics", "checks", "warnings", "files_analysed", "metadata"}
    assert with_places <= found.keys()


def test_a_lock_file_that_lies_a_cycle_and_a_secret_are_found_at_their_lines(shop: Path) -> None:
    data = forge(shop, "scan", "shop", "--json").json["data"]
    checks = {each["code"]: (each["result"], each["places"]) for each in data["checks"]}
    assert checks["S05"] == ("fail", ["pyproject.toml:6"])
    assert checks["S02"] == ("warn", ["shop/models.py:1"])
    assert checks["S06"] == ("fail", ["shop/prices.py:3"])
    found = results(shop)
    assert found["architecture"]["cycles"] == [{"files": 2, "path": ["shop/models.py:1", "shop/prices.py:1"]}]
    assert [each for each in found["warnings"] if each["code"] == "lock_disagrees"] == [
        {
            "code": "lock_disagrees",
            "file": "pyproject.toml",
            "line": 6,
            "detail": "It asks for `fastapi` >=0.110; `uv.lock` pins 0.99.0.",
        }
    ]


def test_secrets_are_looked_for_in_settings_that_were_committed(shop: Path) -> None:
    settings = {
        ".env": "PORT=80\nDB_PASSWORD=hunter2xyz9\n",
        ".env.example": "DB_PASSWORD=your-password\n",
        "deploy/values.yaml": f"image: shop\ntoken: {SECRET}\n",
        "config.json": json.dumps({"key": SECRET}),
        "app.properties": f"a=b\n\nkey={SECRET}\n",
        "pyproject.toml": (shop / "pyproject.toml").read_text() + f"# {SECRET}\n",
        "node_modules/x/config.json": json.dumps({"key": SECRET}),
        "large.yaml": f"token: {SECRET}\n" + "a: b\n" * 60_000,
    }
    for name, text in settings.items():
        (shop / name).parent.mkdir(parents=True, exist_ok=True)
        (shop / name).write_text(text)
    commit(shop)
    ran = forge(shop, "scan", "shop", "--json")
    (check,) = [each for each in ran.json["data"]["checks"] if each["code"] == "S06"]
    line = settings["pyproject.toml"].count("\n")
    assert (check["result"], sorted(check["places"])) == (
        "fail",
        [
            ".env:2",
            "app.properties:3",
            "config.json:1",
            "deploy/values.yaml:2",
            f"pyproject.toml:{line}",
            "shop/prices.py:3",
        ],
    )
    assert SECRET not in ran.out
    assert "hunter2xyz9" not in ran.out + "".join(path.read_text("latin-1") for path in (shop / ".aop").glob("*.db*"))


def test_a_path_that_steers_a_terminal_is_shown_with_escapes(shop: Path) -> None:
    (shop / "shop" / "evil\x1b[2Jname\u202e.py").write_text("def f(:\n")
    commit(shop)
    for ran in (
        forge(shop, "scan", "shop"),
        forge(shop, "scan", "shop", "--json"),
        forge(shop, "map", "shop", "shop"),
        forge(shop, "map", "shop", "--json"),
    ):
        assert ran.code == 0
        assert not {"\x1b", "\u202e"} & set(ran.out + ran.err)
        assert "\\u001b" not in ran.out
    assert "evil\\\\u{1b}[2Jname\\\\u{202e}.py" in forge(shop, "map", "shop", "shop", "--json").out


def test_the_map_is_whole_at_package_level_and_a_path_shows_the_files(shop: Path) -> None:
    forge(shop, "scan", "shop")
    packages = results(shop)["architecture"]["packages"]
    assert [(each["path"], each["layer"], each["imports"], each["modules"]) for each in packages] == [
        ("api/src/main/java/shop", 0, [], []),
        ("shop", 0, ["shop/routes"], []),
        ("shop/routes", 0, ["shop"], []),
        ("tests", 1, ["shop"], []),
        ("web", 0, [], []),
    ]
    [web] = results(shop, "web")["architecture"]["packages"]
    assert [each["name"] for each in web["modules"]] == ["cart.js", "server.js"]
    shown = forge(shop, "map", "shop", "web")
    assert shown.code == 0
    assert "cart.js" in shown.out


def test_no_secret_of_the_repository_is_stored_or_shown(shop: Path) -> None:
    (shop / "shop" / f"{SECRET}.py").write_text(f'import {SECRET}\n@app.get("/{SECRET}")\ndef x(): ...\n')
    commit(shop)
    ran = forge(shop, "scan", "shop", "--json")
    assert ran.code == 0
    assert SECRET not in ran.out + ran.err + forge(shop, "map", "shop", "shop", "--json").out
    stored = b"".join(path.read_bytes() for path in (shop / ".aop").glob("record.db*"))
    assert SECRET.encode() not in stored


def test_the_intent_is_what_the_manifest_says_else_the_readme_else_unknown(shop: Path) -> None:
    def intent() -> str:
        assert forge(shop, "scan", "shop").code == 0
        told: str = results(shop)["dossier"]["intent"]
        return told

    assert intent() == "Sells things at the corner."
    (shop / "pyproject.toml").unlink()
    commit(shop)
    assert intent() == "Sells things."
    (shop / "README.md").unlink()
    commit(shop)
    assert intent() == "unknown"
    assert "The purpose of the repository: neither a manifest nor a README says it." in results(shop)["unknown"]


def test_the_tree_of_the_named_commit_is_read_and_never_the_checkout(shop: Path) -> None:
    old = git(shop, "rev-parse", "HEAD").strip()
    (shop / "shop/main.py").write_text("@app.get('/uncommitted')\ndef x(): ...\n")
    forge(shop, "scan", "shop")
    assert "/health" in [each["path"] for each in results(shop)["routes"]]
    (shop / "shop/main.py").write_text("")
    commit(shop)
    assert forge(shop, "scan", "shop", "--ref", old[:12], "--json").json["data"]["head_sha"] == old
    assert "/health" in [each["path"] for each in results(shop)["routes"]]
    assert forge(shop, "scan", "shop", "--ref", "main", "--json").json["data"]["run_id"] == "shop-s3"
    assert "/health" not in [each["path"] for each in results(shop)["routes"]]


def test_the_journal_says_how_far_a_scan_is_and_how_it_ended(shop: Path) -> None:
    head = forge(shop, "scan", "shop", "--json").json["data"]["head_sha"]
    world = World(shop)
    try:
        with world.app.record.read() as view:
            told = [(entry.event.kind, entry.event.payload) for entry in view.journal()]
    finally:
        world.close()
    assert [each for each in told if each[0].startswith("scout_")] == [
        (
            "scout_progress",
            {"project_id": "shop", "run_id": "shop-s1", "step": "12 source files read; computing the report"},
        ),
        (
            "scout_complete",
            {"project_id": "shop", "run_id": "shop-s1", "head_sha": head, "files": 16, "health_grade": "F"},
        ),
    ]


def test_a_second_scan_reads_only_what_changed(shop: Path) -> None:
    first = forge(shop, "scan", "shop", "--json")
    before = results(shop)
    again = forge(shop, "scan", "shop", "--json")
    assert "12 source files known from an earlier scan" in again.err
    assert (again.json["data"]["score"], results(shop)) == (first.json["data"]["score"], before)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("shop", "--ref", "nowhere"), "unknown_ref"),
        (("shop", "--ref=--help"), "invalid_arguments"),
        (("shop", "--ref", "main:README.md"), "unknown_ref"),
        (("shop", "--ref", "^main"), "unknown_ref"),
        (("nobody",), "unknown_project"),
    ],
    ids=["a ref that does not exist", "an option", "a blob", "commits left out", "a project that does not exist"],
)
def test_what_cannot_be_scanned_is_refused_and_nothing_changes(shop: Path, words: tuple[str, ...], code: str) -> None:
    ran = forge(shop, "scan", *words, "--json")
    assert (ran.code != 0, ran.json["error"]["code"]) == (True, code)
    assert forge(shop, "map", "shop", "--json").json["error"]["code"] == "not_scanned"


def test_a_ref_that_git_cannot_read_is_refused_with_the_words_of_git(shop: Path) -> None:
    ran = forge(shop, "scan", "shop", "--ref", "main^{tree}")
    assert (ran.code, ran.out, ran.err.splitlines()[0]) == (
        1,
        "",
        "aop: `main^{tree}` names no commit of this repository: git says `main^{tree}^{commit}: expected commit type,"
        " but the object dereferences to tree type`. [unknown_ref]",
    )


def test_a_repository_without_a_commit_or_without_a_file_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    forge(root, "new", "Shop")
    assert forge(root, "scan", "shop", "--json").json["error"]["code"] == "unknown_ref"
    git(root, "commit", "-q", "--allow-empty", "-m", "Nothing")
    assert forge(root, "scan", "shop", "--json").json["error"]["code"] == "nothing_to_scan"


def test_hostile_files_are_findings_and_never_end_the_scan(shop: Path) -> None:
    (shop / "huge.py").touch()
    os.truncate(shop / "huge.py", 200_000_000)
    os.symlink("loop", shop / "loop")
    os.symlink("../..", shop / "shop" / "up")
    (shop / "shop" / "nested.py").write_text("x = " + "(" * 20_000 + ")" * 20_000 + "\n")
    (shop / "shop" / "deep.py").write_text("x = " + "\n(" * 50_000 + "\n")
    (shop / "web" / "slow.js").write_text('"""a\n' * 100_000)
    (shop / "web" / "bundle.min.js").write_text("var a=1;" * 20_000)
    (shop / "shop" / "binary.py").write_bytes(bytes(range(256)) * 10)
    (shop / "package.json").write_text("[" * 100_000)
    (shop / "Cargo.toml").write_text("a = " + "[" * 50_000)
    (shop / "pom.xml").write_text('<!DOCTYPE x [<!ENTITY a "b">]><project>&a;</project>')
    named = os.fsencode(shop) + b"/shop/na\xffme.py"
    Path(os.fsdecode(named)).write_text("import os\n")
    commit(shop)
    ran = forge(shop, "scan", "shop", "--json")
    assert ran.code == 0, ran.err
    found = results(shop)
    told = {each["file"]: each["code"] for each in found["warnings"] if each["code"] != "lock_disagrees"}
    assert told.pop("web/slow.js") == "not_parsed"
    assert told == {
        "huge.py": "too_large",
        "shop/nested.py": "not_parsed",
        "web/bundle.min.js": "not_parsed",
        "shop/binary.py": "not_parsed",
        "package.json": "not_parsed",
        "Cargo.toml": "not_parsed",
        "pom.xml": "not_parsed",
    }
    modules = [each["name"] for each in results(shop, "shop")["architecture"]["packages"][0]["modules"]]
    assert "na\\xffme.py" in modules
    assert "/health" in [each["path"] for each in found["routes"]]


def test_a_model_cannot_scan_whatever_its_role(shop: Path) -> None:
    world = World(shop)
    try:
        agent = Principal(role=Role.ORCHESTRATOR, actor="agent:one")
        answer = world.app.gateway.call(agent, "forge.scan", {"project_id": "shop"})
    finally:
        world.close()
    assert answer.error is not None
    assert answer.error["code"] == "forbidden_tool_for_role"


def test_a_damaged_cache_is_only_empty(shop: Path) -> None:
    forge(shop, "scan", "shop")
    before = results(shop)
    for path in (shop / ".aop").glob("scan.db*"):
        path.write_bytes(b"this is no database" * 1000)
    assert forge(shop, "scan", "shop").code == 0
    assert results(shop) == before


def test_scan_and_plan_fit_a_terminal_of_80_columns_and_shorten_nothing(shop: Path) -> None:
    for action in ("scan", "plan"):
        ran = run_aop(shop, "forge", action, "shop", env={"COLUMNS": "80"})
        assert ran.code == 0, ran.err
        title = next(at for at, line in enumerate(ran.out.splitlines()) if line.startswith(("Check ", "Priority ")))
        rows = [line for line in ran.out.splitlines()[title:] if line.startswith(("S", "high", "medium", "low", "   "))]
        assert rows
        assert [line for line in rows if len(line) > 80 or "…" in line] == []


def test_a_folder_that_the_scan_does_not_know_is_refused_with_the_closest_one(shop: Path) -> None:
    forge(shop, "scan", "shop")
    assert forge(shop, "map", "shop", "shpo") == Ran(
        1,
        "",
        "aop: The scan has no source file in `shpo`. Did you mean `shop`? [unknown_package]\n"
        "  See all packages with `aop forge map shop`, and name a folder of those.\n",
    )
    whole, below = (results(shop, path)["architecture"]["packages"] for path in (".", "shop"))
    assert [each["path"] for each in whole] == [each["path"] for each in results(shop)["architecture"]["packages"]]
    assert [each for each in whole if each["path"] == "shop"] == [each for each in below if each["path"] == "shop"]


def test_show_and_plan_name_the_next_command(shop: Path) -> None:
    assert "aop forge ask shop; or read a repository: aop forge scan shop\n" in forge(shop, "show", "shop").out
    forge(shop, "scan", "shop")
    assert "aop forge plan shop; then: aop forge generate shop\n" in forge(shop, "show", "shop").out
    assert forge(shop, "plan", "shop").out.endswith("Generate the contracts with: aop forge generate shop\n")
    shown = forge(shop, "show", "shop").out.splitlines()
    assert shown[-2:] == [
        "Scan: shop-s1 (with renovation plan)",
        "Contracts: none yet. Generate them with: aop forge generate shop",
    ]


def test_routes_that_are_registered_in_an_unread_form_are_unknown(tmp_path: Path) -> None:
    code = "from flask import Flask\nfrom views import VIEWS\nfor each in VIEWS:\n    each.on(Flask(__name__))\n"
    root = make_repository(tmp_path / "repo", {"app.py": code, "README.md": "Lends books.\n"})
    forge(root, "new", "Shop")
    data = forge(root, "scan", "shop", "--json").json["data"]
    unknown = ["The routes of `flask`, imported at app.py:1: none was found in a form that is read."]
    assert (data["routes"], data["unknown"][:1]) == (0, unknown)
