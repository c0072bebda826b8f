"""repo.search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import plain, state_of
from tests.world import World, git

SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"

FILES = {
    "src/one.py": "def greet(name):\n    return f'Hello {name}'\n\n# greet politely\n",
    "src/two.py": "import one\none.greet('Ada')\none.GREET\n",
    "src/odd.txt": "-e option\n--output=x\n$(touch x)\na.c abc\n.*\n",
    "src/crlf.txt": "first\r\nsecond greet\r\n",
    "src/long.txt": "x" * 5000 + "needle" + "y" * 5000 + "\n",
    "src/secret.txt": f"token = {SECRET}\nplain needle\n",
    "docs/größe.md": "Die Größe zählt.\nDIE GRÖSSE\n",
    "src-evil/one.py": "greet\n",
    "empty.txt": "",
}


@pytest.fixture(scope="module")
def world(make_shared_world: MakeWorld) -> World:
    made = make_shared_world(files=FILES)
    (made.root / "src/image.bin").write_bytes(b"greet\0greet\n")
    (made.root / "src/latin.txt").write_bytes(b"caf\xe9 greet\n")
    (made.root / "src/huge.txt").write_text("greet\n" * 800_000)
    (made.root / "src/link").symlink_to("one.py")
    (made.root / "src/out").symlink_to("/etc/passwd")
    git(made.root, "add", "-A")
    git(made.root, "commit", "-qm", "More")
    made.init()
    return made


def search(world: World, query: str, **options: Any) -> Any:
    return plain(world.ok("repo.search", role=Role.BUILDER, feature_id="one", query=query, **options))


def places(world: World, query: str, **options: Any) -> list[tuple[str, int]]:
    return [(match["path"], match["line"]) for match in search(world, query, **options)["matches"]]


@pytest.mark.req("AOP-181")
def test_a_text_is_found_with_its_file_and_line(world: World) -> None:
    assert search(world, "greet", paths=["src/one.py", "src/two.py"]) == {
        "feature_id": "one",
        "tree": state_of(world).tree,
        "matches": [
            {"path": "src/one.py", "line": 1, "column": 5, "text": "def greet(name):", "cut": False},
            {"path": "src/one.py", "line": 4, "column": 3, "text": "# greet politely", "cut": False},
            {"path": "src/two.py", "line": 2, "column": 5, "text": "one.greet('Ada')", "cut": False},
        ],
        "truncated": False,
        "binary_files": 0,
        "large_files": [],
    }


@pytest.mark.parametrize(
    ("query", "options", "found"),
    [
        ("a.c", {}, [("src/odd.txt", 4)]),
        ("-e option", {}, [("src/odd.txt", 1)]),
        ("--output=x", {}, [("src/odd.txt", 2)]),
        ("$(touch x)", {}, [("src/odd.txt", 3)]),
        (".*", {"paths": ["src/odd.txt"]}, [("src/odd.txt", 5)]),
        ("GREET", {"paths": ["src/two.py"]}, [("src/two.py", 3)]),
        ("gReEt", {"paths": ["src/two.py"], "ignore_case": True}, [("src/two.py", 2), ("src/two.py", 3)]),
        ("Größe", {}, [("docs/größe.md", 1)]),
        ("zählt", {"ignore_case": True}, [("docs/größe.md", 1)]),
        ("second greet", {"paths": ["src/crlf.txt"]}, [("src/crlf.txt", 2)]),
        ("nowhere at all", {}, []),
        (r"^def \w+\(", {"regex": True}, [("src/one.py", 1)]),
        (r"greet$", {"regex": True, "paths": ["src/crlf.txt"]}, [("src/crlf.txt", 2)]),
        (r"^$", {"regex": True, "paths": ["src/one.py"]}, [("src/one.py", 3)]),
        (r"(a+)+$", {"regex": True, "paths": ["src/long.txt"]}, []),
        (r"(?i)hello|ADA", {"regex": True}, [("src/one.py", 2), ("src/two.py", 2)]),
    ],
    ids=str,
)
def test_a_query_is_a_text_unless_it_is_called_a_pattern(
    world: World, query: str, options: dict[str, Any], found: list[tuple[str, int]]
) -> None:
    assert places(world, query, **options) == found


@pytest.mark.parametrize("query", ["--files-with-matches", "-f/etc/passwd", "--open-files-in-pager=touch pwned", "-O"])
def test_no_query_is_ever_an_option(world: World, query: str) -> None:
    assert places(world, query) == []
    assert not list(world.root.rglob("pwned"))


@pytest.mark.hostile("P01")
def test_a_folder_is_searched_and_not_what_begins_like_it(world: World) -> None:
    assert places(world, "greet", paths=["src-evil"]) == [("src-evil/one.py", 1)]
    assert "src-evil/one.py" not in {path for path, _ in places(world, "greet", paths=["src"])}


def test_binaries_links_and_huge_files_are_left_out_and_counted(world: World) -> None:
    answer = search(world, "greet", paths=["src"])
    assert {match["path"] for match in answer["matches"]} == {
        "src/crlf.txt",
        "src/latin.txt",
        "src/one.py",
        "src/two.py",
    }
    assert (answer["binary_files"], answer["large_files"]) == (1, ["src/huge.txt"])
    assert places(world, "root:") == []


def test_a_long_line_is_cut_around_the_match(world: World) -> None:
    (match,) = search(world, "needle", paths=["src/long.txt"])["matches"]
    assert (match["line"], match["column"], match["cut"]) == (1, 5001, True)
    assert match["text"] == "x" * 100 + "needle" + "y" * 294


def test_a_secret_is_neither_shown_nor_guessed_letter_by_letter(world: World) -> None:
    assert places(world, "plain needle") == [("src/secret.txt", 2)]
    assert SECRET not in str(search(world, "token"))
    for query in (SECRET, SECRET[:8], SECRET[8:20]):
        assert places(world, query) == []
        assert places(world, query, ignore_case=True) == []
    assert places(world, "ghp_[A-Z]", regex=True) == []


def test_no_more_matches_come_than_were_asked_for(world: World) -> None:
    answer = search(world, "greet", max_matches=2)
    assert (len(answer["matches"]), answer["truncated"]) == (2, True)
    assert search(world, "def greet")["truncated"] is False


def test_the_tree_is_searched_and_not_what_lies_in_the_worktree(world: World) -> None:
    stray = world.root / ".worktrees/one/src/stray.txt"
    stray.write_text("only on disk\n")
    changed = world.root / ".worktrees/one/src/one.py"
    before = changed.read_text()
    changed.write_text("only on disk\n")
    try:
        assert places(world, "only on disk") == []
        assert places(world, "def greet") == [("src/one.py", 1)]
    finally:
        stray.unlink()
        changed.write_text(before)


@pytest.mark.hostile("Y22", "Y25")
@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("(", {"regex": True}),
        (r"(?=x)", {"regex": True}),
        (r"(a)\1", {"regex": True}),
        ("a{5000}", {"regex": True}),
        ("((((a{30}){30}){30}){30})", {"regex": True}),
        ("two\nlines", {}),
        ("nul\0", {}),
        ("", {}),
        ("x" * 1001, {}),
        ("x", {"max_matches": 0}),
        ("x", {"max_matches": 10_000}),
        ("x", {"options": ["--hidden"]}),
    ],
    ids=str,
)
def test_a_query_that_cannot_be_is_refused(world: World, query: str, options: dict[str, Any]) -> None:
    assert world.refusal("repo.search", feature_id="one", query=query, **options)["code"] == "invalid_arguments"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../outside", "path_out_of_bounds"),
        ("/etc", "path_out_of_bounds"),
        (".git/config", "path_out_of_bounds"),
        ("src/../..", "path_out_of_bounds"),
        ("no/such", "file_not_found"),
    ],
)
def test_a_path_that_is_not_in_the_tree_is_refused(world: World, path: str, code: str) -> None:
    assert world.refusal("repo.search", feature_id="one", query="x", paths=[path])["code"] == code


def test_a_name_that_is_no_text_hides_only_its_own_file(make_world: MakeWorld) -> None:
    world = make_world()
    Path(world.root, b"\xff.txt".decode("utf-8", "surrogateescape")).write_text("greet\n")
    (world.root / "good.txt").write_text("greet\n")
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "More")
    world.init()
    assert places(world, "greet") == [("good.txt", 1)]
    assert places(world, "GREET", ignore_case=True) == [("good.txt", 1)]
