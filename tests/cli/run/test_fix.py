"""`aop fix` and `aop new`: a sentence becomes a spec, and a run; real processes, a real agent command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shops import SECONDS, Shop, error_of
from tests.racing import until
from tests.world import make_repository, run_aop, run_aop_at_terminal

SECRET = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.slow
def test_a_sentence_becomes_a_ready_feature_and_the_same_one_again_another(shop: Shop) -> None:
    for name in ("greeting-ignores-the-name", "greeting-ignores-the-name-2"):
        ran = shop.aop("fix", "Greeting ignores the name", "--wait")
        assert ran.code == 0, ran.err
        assert (shop.root / f"agentic/features/{name}/spec.md").read_text() == "Greeting ignores the name\n"
    assert shop.statuses() == {
        "greeting-ignores-the-name": "ready_to_merge",
        "greeting-ignores-the-name-2": "ready_to_merge",
    }


@pytest.mark.slow
def test_a_fix_joins_the_run_that_goes_on(shop: Shop) -> None:
    shop.wants("held_one")
    assert shop.run("-fl", str(shop.specs)).code == 0
    added = shop.aop("fix", "Be brief", "--id", "brief", "--json")
    assert (added.code, added.json["data"]["features"]) == (0, ["brief"])
    until(lambda: shop.statuses().get("brief") == "ready_to_merge", seconds=SECONDS)
    (shop.agent / "go").touch()
    shop.until_supervisor_ended()


@pytest.mark.slow
def test_a_new_spec_is_run_by_its_path(shop: Shop) -> None:
    made = shop.aop("new", "greeting", "Greet by name.")
    assert (made.code, made.out) == (0, "agentic/features/greeting/spec.md\n")
    assert made.err == "Run it with: aop run --file agentic/features/greeting/spec.md\n"
    assert shop.aop("run", "--file", made.out.strip(), "--wait").code == 0
    assert shop.statuses() == {"greeting": "ready_to_merge"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


def test_a_spec_comes_from_standard_input_too(root: Path) -> None:
    made = run_aop(root, "new", "greeting", "-", "--json", stdin="# Greeting\n\nGreet by name.\n")
    assert (made.code, made.json["data"]) == (
        0,
        {"feature_id": "greeting", "spec_path": "agentic/features/greeting/spec.md"},
    )
    assert (root / made.json["data"]["spec_path"]).read_text() == "# Greeting\n\nGreet by name.\n"


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (("fix", " "), 2, "invalid_cli_args"),
        (("fix", f"Use {SECRET}"), 1, "secret_detected"),
        (("fix", "Greet", "--id", "Not An Id"), 2, "invalid_feature_slug"),
        (("new", "../escape", "Greet."), 2, "invalid_feature_slug"),
        (("new", "greeting", ""), 2, "invalid_cli_args"),
        (("new", "greeting"), 2, "invalid_cli_args"),
        (("new", "greeting", f"Use {SECRET}"), 1, "secret_detected"),
        (("new", "greeting", "x" * 300_000), 2, "spec_ingest_failed"),
    ],
)
def test_a_bad_text_or_name_is_refused_and_writes_nothing(
    root: Path, words: tuple[str, ...], exit_code: int, code: str
) -> None:
    stdin = words[2] if len(words) == 3 and len(words[2]) > 100_000 else ""
    ran = run_aop(root, *((*words[:2], "-") if stdin else words), "--json", stdin=stdin)
    assert (error_of(ran)["code"], ran.code) == (code, exit_code)
    assert not list((root / "agentic").glob("features/*"))


def test_a_name_that_is_taken_is_refused(root: Path) -> None:
    assert run_aop(root, "new", "greeting", "Greet.").code == 0
    for words in (("new", "greeting", "Again."), ("fix", "Again.", "--id", "greeting"), ("new", "main", "Again.")):
        ran = run_aop(root, *words, "--json")
        assert error_of(ran)["code"] in ("feature_slug_collision", "invalid_feature_slug")
    assert (root / "agentic/features/greeting/spec.md").read_text() == "Greet.\n"


@pytest.mark.parametrize(
    ("script", "code", "spec"),
    [
        ('sed -i "1s/.*/Greet by name./" "$1"', 0, "Greet by name.\n"),
        ("true", 2, None),
        ("exit 7", 2, None),
    ],
)
def test_a_spec_is_written_in_an_editor(root: Path, tmp_path: Path, script: str, code: int, spec: str | None) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o755)
    ran = run_aop_at_terminal(root, "new", "greeting", types="", env={"EDITOR": str(editor), "VISUAL": ""})
    written = root / "agentic/features/greeting/spec.md"
    assert (ran.code, written.read_text() if written.exists() else None) == (code, spec), ran.err


def test_an_editor_that_is_not_there_is_named(root: Path) -> None:
    ran = run_aop_at_terminal(root, "new", "greeting", types="", env={"VISUAL": "/nowhere/editor"})
    assert (ran.code, "The editor `/nowhere/editor` cannot be used" in ran.err) == (2, True)
