"""`aop forge edit`, `history`, `diff`, `export` and `pin` as real processes, at the record of a project."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from aop.forge.contracts.types import CONTRACT_TYPES, ContractType, file_name
from tests.forge.projects import NINE, stored
from tests.world import Ran, World, git, make_repository, run_aop, run_aop_at_terminal

UI = ContractType.UI
EDITED = NINE[UI] + "\nButtons are large.\n"
SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_repository(tmp_path_factory.mktemp("template") / "repo")
    world = World(root)
    world.ok("forge.project_new", name="Shop")
    stored(world, "shop")
    world.ok("forge.project_new", name="Empty")
    world.close()
    return root


@pytest.fixture
def repository(template: Path, tmp_path: Path) -> Path:
    root = shutil.copytree(template, tmp_path / "repo", symlinks=True)
    git(root, "update-index", "--refresh")
    return root


def forge(root: Path, *words: str, stdin: str = "") -> Ran:
    return run_aop(root, "forge", *words, stdin=stdin)


def edit(root: Path, text: str = EDITED, *words: str) -> Ran:
    return forge(root, "edit", "shop", "ui", "--file", "-", *words, stdin=text)


def events(root: Path) -> list[str]:
    world = World(root)
    with world.app.record.read() as view:
        kinds = [entry.event.kind for entry in view.journal()]
    world.close()
    return kinds


def test_an_edit_is_a_new_version_that_history_diff_and_show_know(repository: Path) -> None:
    assert edit(repository) == Ran(0, "", "Stored version 2 of ui, in batch 2.\n")
    rows = forge(repository, "history", "shop", "ui", "--json").json["data"]["versions"]
    assert [(row["version"], row["author"]) for row in rows] == [(1, "generated"), (2, "person:ada")]
    titles, first, second = forge(repository, "history", "shop", "ui").out.splitlines()
    assert titles.split() == ["Version", "Stored", "Author", "Characters", "SHA-256"]
    assert (first.split()[0], second.split()[2]) == ("1", "person:ada")
    shown = forge(repository, "diff", "shop", "ui", "1", "2").out.splitlines()
    assert shown[:2] == ["--- ui.md (version 1)", "+++ ui.md (version 2)"]
    assert shown[-2:] == ["+", "+Buttons are large."]
    assert forge(repository, "show", "shop", "ui").out == EDITED
    assert forge(repository, "show", "shop", "ui", "--version", "1").out == NINE[UI]
    copy = json.dumps({"project_id": "shop", "type": "contract", "key": "ui"})
    assert run_aop(repository, "call", "forge_get_artifact", copy).json["data"]["content"] == EDITED


def on_screen(root: Path, *words: str) -> str:
    """Run `aop forge` with a terminal as its standard output, and return what appears there."""
    ours, theirs = os.openpty()
    with subprocess.Popen([sys.executable, "-m", "aop.cli.main", "forge", *words], cwd=root, stdout=theirs) as process:
        os.close(theirs)
        shown = b""
        # The end of a terminal is an error on Linux.
        with suppress(OSError):
            while part := os.read(ours, 65536):
                shown += part
        assert process.wait(60) == 0
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def test_a_contract_cannot_steer_a_screen_and_is_whole_in_a_pipe(repository: Path) -> None:
    text = EDITED + "\x1b]0;title\x07 and \u202e back\n"
    assert edit(repository, text).code == 0
    assert forge(repository, "show", "shop", "ui").out == text
    shown = EDITED + "\\u{1b}]0;title\\u{7} and \\u{202e} back\n"
    assert on_screen(repository, "show", "shop", "ui") == shown
    assert on_screen(repository, "diff", "shop", "ui", "1", "2").endswith("+\\u{1b}]0;title\\u{7} and \\u{202e} back\n")


def test_versions_with_the_same_content_have_no_difference(repository: Path) -> None:
    assert forge(repository, "diff", "shop", "ui", "1", "1") == Ran(0, "", "The two versions have the same content.\n")


def test_the_same_text_again_stores_nothing(repository: Path) -> None:
    before = events(repository)
    ran = edit(repository, NINE[UI])
    assert ran == Ran(0, "", "The text is what the contract already was. Nothing changed.\n")
    assert events(repository) == before


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("I am sorry, but I cannot write this contract.", "contract_refused"),
        ("", "contract_refused"),
        ("x" * 2_000_000, "contract_refused"),
        (NINE[ContractType.PHASES], "contract_refused"),
        (f"{EDITED}\nThe key is {SECRET}.\n", "secret_detected"),
    ],
    ids=["apology", "empty", "2 MB", "another type", "secret"],
)
def test_a_text_that_is_no_such_contract_is_refused_and_nothing_changed(repository: Path, text: str, code: str) -> None:
    before = events(repository)
    ran = edit(repository, text, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (1, code)
    assert SECRET not in ran.out + ran.err
    assert events(repository) == before
    kept = b"".join(path.read_bytes() for path in (repository / ".aop").rglob("*") if path.is_file())
    assert SECRET.encode() not in kept


def test_an_edit_of_an_old_version_is_refused(repository: Path) -> None:
    assert edit(repository, EDITED, "--expect", "1").code == 0
    ran = edit(repository, EDITED + "More.\n", "--expect", "1")
    assert ran.code == 6
    assert ran.err == (
        "aop: The ui contract of `shop` is at version 2, not 1. [version_conflict]\n"
        "  See what changed with `aop forge diff shop ui 1 2`, get the newest text with `aop forge show shop ui`,"
        " and change that: `aop forge edit shop ui --file FILE --expect 2`.\n"
    )


def test_of_two_edits_at_once_one_is_stored_and_the_other_is_refused(repository: Path) -> None:
    words = [sys.executable, "-m", "aop.cli.main", "forge", "edit", "shop", "ui", "--expect", "1", "--file"]
    files = [repository.parent / f"{name}.md" for name in ("a", "b")]
    for file in files:
        file.write_text(f"{EDITED}By {file.stem}.\n")
    both = [subprocess.Popen([*words, str(file)], cwd=repository, stderr=subprocess.DEVNULL) for file in files]
    assert sorted(one.wait(60) for one in both) == [0, 6]
    assert events(repository).count("contracts_stored") == 2
    assert len(forge(repository, "history", "shop", "ui", "--json").json["data"]["versions"]) == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("edit", "shop", "ui", "--file", "gone.md"), "input_path_not_found"),
        (("edit", "shop", "ui", "--file", "."), "input_path_not_found"),
        (("edit", "shop", "ui"), "invalid_cli_args"),
        (("edit", "shop", "ui", "--file", "-", "--expect", "0"), "invalid_arguments"),
        (("edit", "gone", "ui", "--file", "-"), "unknown_project"),
        (("edit", "empty", "ui", "--file", "-"), "no_contracts"),
        (("history", "empty", "ui"), "no_contracts"),
        (("history", "gone", "ui"), "unknown_project"),
        (("diff", "shop", "ui", "1", "9"), "unknown_version"),
        (("diff", "shop", "ui", "0", "1"), "invalid_arguments"),
        (("show", "shop", "ui", "--version", "9"), "unknown_version"),
        (("show", "shop", "--version", "1"), "invalid_cli_args"),
        (("export", "empty", "out"), "no_contracts"),
        (("pin", "empty"), "no_contracts"),
        (("pin", "gone"), "unknown_project"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_is_not_there_is_refused_by_name(repository: Path, words: tuple[str, ...], code: str) -> None:
    before = events(repository)
    ran = forge(repository, *words, "--json")
    assert (ran.code == 0, ran.json["error"]["code"]) == (False, code)
    assert events(repository) == before
    assert git(repository, "status", "--porcelain") == ""


def test_a_type_that_does_not_exist_is_a_usage_error(repository: Path) -> None:
    ran = forge(repository, "history", "shop", "phase")
    assert (ran.code, "Did you mean `phases`?" in ran.err) == (2, True)


# --- the editor ----------------------------------------------------------------------------------


def editor(folder: Path, script: str) -> dict[str, str]:
    path = folder / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"VISUAL": "", "EDITOR": str(path)}


def at_terminal(root: Path, env: dict[str, str], types: str = "") -> Ran:
    return run_aop_at_terminal(root, "forge", "edit", "shop", "ui", types=types, env=env)


def test_an_editor_gets_the_newest_text_and_its_result_is_stored(repository: Path, tmp_path: Path) -> None:
    env = editor(tmp_path, 'printf "\\nButtons are large.\\n" >> "$1"')
    assert at_terminal(repository, env) == Ran(0, "", "Stored version 2 of ui, in batch 2.\n")
    assert forge(repository, "show", "shop", "ui").out == EDITED


def test_a_refused_text_is_edited_again(repository: Path, tmp_path: Path) -> None:
    good = tmp_path / "good.md"
    good.write_text(EDITED)
    env = editor(tmp_path, f'if [ -e {tmp_path}/once ]; then cp {good} "$1"; else touch {tmp_path}/once; : > "$1"; fi')
    ran = at_terminal(repository, env, types="y\n")
    assert (ran.code, "[contract_refused]" in ran.err) == (0, True)
    assert forge(repository, "show", "shop", "ui").out == EDITED


def test_a_refused_text_is_not_lost(repository: Path, tmp_path: Path) -> None:
    ran = at_terminal(repository, {**editor(tmp_path, 'echo short > "$1"'), "TMPDIR": str(tmp_path)}, types="n\n")
    assert ran.code == 1
    assert ran.err.count("[contract_refused]") == 1
    assert Path(ran.err.partition("Your text is kept in ")[2].strip()).read_text() == "short\n"


def test_a_refused_secret_is_kept_nowhere(repository: Path, tmp_path: Path) -> None:
    env = editor(tmp_path, f'echo "Key: {SECRET}" >> "$1"')
    ran = at_terminal(repository, {**env, "TMPDIR": str(tmp_path)})
    assert (ran.code, "[secret_detected]" in ran.err, "is kept in" in ran.err) == (1, True, False)
    assert not list(tmp_path.glob("aop-*"))


def test_an_editor_that_fails_changes_nothing(repository: Path, tmp_path: Path) -> None:
    before = events(repository)
    ran = at_terminal(repository, editor(tmp_path, "exit 3"))
    assert (ran.code, "failed with code 3; nothing was written" in ran.err) == (2, True)
    assert events(repository) == before


# --- export --------------------------------------------------------------------------------------


def test_an_export_writes_nine_files_into_a_new_or_an_empty_folder(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        folder = tmp_path / name
        ran = forge(repository, "export", "shop", str(folder))
        assert ran == Ran(0, f"{folder}\n", "Wrote 9 contracts of batch 1.\n")
        found = {path.name: path.read_text() for path in folder.iterdir()}
        assert found == {file_name(each): NINE[each] for each in CONTRACT_TYPES}


@pytest.mark.parametrize("kind", ["full", "file", "link"])
def test_an_export_never_replaces_what_exists(repository: Path, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "out"
    if kind == "full":
        folder.mkdir()
        (folder / "ui.md").write_text("Mine.\n")
    elif kind == "file":
        folder.write_text("Mine.\n")
    else:
        folder.symlink_to(repository)
    before = sorted(os.listdir(tmp_path))
    ran = forge(repository, "export", "shop", str(folder), "--yes")
    assert (ran.code, "already exists and is not an empty folder" in ran.err) == (2, True)
    assert sorted(os.listdir(tmp_path)) == before
    assert not (repository / "ui.md").exists()


def test_an_export_into_the_checkout_is_asked_for(repository: Path) -> None:
    refused = forge(repository, "export", "shop", "contracts", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (2, "invalid_cli_args")
    assert forge(repository, "export", "shop", "contracts") == Ran(
        2,
        "",
        f"aop: `{repository / 'contracts'}` lies in the checkout of this repository. [invalid_cli_args]\n"
        "  Name a folder elsewhere, or pass `--yes`.\n",
    )
    no = run_aop_at_terminal(repository, "forge", "export", "shop", "contracts", types="n\n")
    assert (no.code, no.err.endswith("Nothing was written.\n")) == (3, True)
    assert git(repository, "status", "--porcelain") == ""
    yes = run_aop_at_terminal(repository, "forge", "export", "shop", "contracts", types="y\n")
    assert (yes.code, git(repository, "status", "--porcelain")) == (0, "?? contracts/\n")


def test_an_export_of_a_build_has_the_contracts_that_it_pinned(repository: Path, tmp_path: Path) -> None:
    build = forge(repository, "pin", "shop").out.strip()
    assert edit(repository).code == 0
    ran = forge(repository, "export", "shop", str(tmp_path / "pinned"), "--build", build, "--json")
    assert {name: ran.json["data"][name] for name in ("build_id", "batch")} == {"build_id": build, "batch": 1}
    assert (tmp_path / "pinned/ui.md").read_text() == NINE[UI]
    assert forge(repository, "export", "shop", str(tmp_path / "newest")).code == 0
    assert (tmp_path / "newest/ui.md").read_text() == EDITED
    foreign = forge(repository, "export", "empty", str(tmp_path / "foreign"), "--build", build, "--json")
    assert (foreign.code, foreign.json["error"]["code"]) == (1, "unknown_build")
    assert not (tmp_path / "foreign").exists()


def test_an_export_that_cannot_be_written_leaves_nothing(repository: Path) -> None:
    ran = forge(repository, "export", "shop", "/proc/contracts")
    assert (ran.code, "[input_path_not_found]" in ran.err) == (2, True)


# --- pin -----------------------------------------------------------------------------------------


@pytest.mark.req("FORGE-095")
def test_a_pinned_build_keeps_its_batch_whatever_is_edited(repository: Path) -> None:
    pinned = forge(repository, "pin", "shop", "--json").json["data"]
    assert (pinned["build_id"], pinned["project_id"], pinned["batch"]) == ("shop-b1", "shop", 1)
    assert edit(repository).code == 0
    again = forge(repository, "pin", "shop")
    assert again.out == "shop-b2\n"
    project = forge(repository, "show", "shop", "--json").json["data"]
    assert [(each["build_id"], each["batch"]) for each in project["builds"]] == [("shop-b1", 1), ("shop-b2", 2)]
    assert (project["builds"][0], project["build_count"]) == (
        {name: value for name, value in pinned.items() if name != "project_id"},
        2,
    )
    assert events(repository)[-4:] == [
        "contracts_pinned",
        "contracts_stored",
        "contract_consistency",
        "contracts_pinned",
    ]
    lines = forge(repository, "show", "shop").out.splitlines()
    assert [line.split()[:2] for line in lines[-2:]] == [["shop-b1", "1"], ["shop-b2", "2"]]


def test_the_contracts_of_a_project_fit_a_terminal_of_80_columns(repository: Path) -> None:
    lines = run_aop(repository, "forge", "show", "shop", env={"COLUMNS": "80"}).out.splitlines()
    title = next(at for at, line in enumerate(lines) if line.startswith("Contract "))
    assert lines[title].split() == ["Contract", "Version", "SHA-256", "Author", "Stored"]
    assert [line for line in lines[title : title + 10] if len(line) > 80 or "…" in line] == []
