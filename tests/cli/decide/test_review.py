"""`aop review`, as a real process: text, colours, pager, JSON, and the parsed page."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.kernel.tools.worlds import configured, gates_of, patch_of, step
from tests.world import PATCH, World, files, git, make_repository, run_aop

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
IMAGE = "<img src=x onerror=alert(1)>"
TROJAN = "if access != 'user\u202e \u2066// admin\u2069 \u2066':"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a feature that is ready, and one that tries things; nothing here changes it."""
    world = configured(tmp_path_factory.mktemp("review") / "repo", gates=gates_of(full=step("echo fine")))
    world.ready("one")
    hostile = files(create=(f"src/{IMAGE}", "src/p\u0430ypal.txt", "src/rows.txt"), delete=("src/b.txt",))
    world.plan(
        "tricky", files=hostile, summary=f"Safe {IMAGE} \u202e\x1b[2J", acceptance_criteria=["</ol><script>x Größe"]
    )
    world.patch(
        "tricky",
        f"--- /dev/null\n+++ b/src/{IMAGE}\t\n@@ -0,0 +1,2 @@\n+{IMAGE}</table><script>alert(2)</script>\n+&amp;\n"
        + patch_of("src/p\u0430ypal.txt", TROJAN, "\x1b]0;title\x07", "sc\u043epe = 1")
        + patch_of("src/rows.txt", *(f"row {number}" for number in range(600)))
        + "--- a/src/b.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-alpha\n-beta\n",
    )
    world.ok("gates.run", feature_id="tricky", mode="fast")
    world.close()
    return world.root


def on_terminal(folder: Path, *words: str, **env: str) -> str:
    """Run `aop` with a terminal as its stdout, and return what arrives there."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "USER": "ada", "TERM": "xterm", "PAGER": "cat", **env}
    command = [sys.executable, "-m", "aop.cli.main", *words]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, env=environment):
        os.close(theirs)
        with os.fdopen(ours, "rb", buffering=0) as screen:
            return b"".join(_arriving(screen.fileno())).decode()


def _arriving(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:
            # Linux says so once the other side is closed.
            return
        if not chunk:
            return
        yield chunk


@pytest.mark.req("AOP-010", "AOP-265")
def test_the_text_says_what_is_missing_what_ran_what_was_planned_and_shows_the_whole_diff(repository: Path) -> None:
    ran = run_aop(repository, "review", "one")
    tree, base = git(repository, "rev-parse", "refs/heads/main^{tree}", "main").split()
    assert (ran.code, ran.err) == (0, "")
    assert COLOUR.search(ran.out) is None
    shown = re.sub(r"gate-\w+-\w+", "RUN", re.sub(r"\d\.\d\d s", "TIME", ran.out)).replace(base, "BASE")
    assert tree not in shown
    head, gates, plan, changed, diff = shown.split("\n\n")
    assert re.sub("Tree      [0-9a-f]{40}", "Tree      TREE", head).splitlines() == [
        "Feature   one, ready_to_merge",
        "Tree      TREE",
        "Base      main at BASE",
        "Worktree  .worktrees/one",
        "Blocking  No person has approved `one` as it is now.",
        "Next      aop merge one",
    ]
    assert re.sub("sandbox \\w+", "sandbox LEVEL", gates).splitlines() == [
        "Gates, run by AOP",
        "  fast   passed on this tree, TIME, profile default, sandbox LEVEL",
        "           check: passed, TIME, agentic/features/one/logs/RUN-check.log",
        "             sh check.sh",
        "  full   passed on this tree, TIME, profile default, sandbox LEVEL",
        "           check: passed, TIME, agentic/features/one/logs/RUN-check.log",
        "             sh -c echo fine",
    ]
    assert plan.splitlines() == [
        "Plan 1, by person:ada",
        "  Written by the planner. AOP checked the form, not the content.",
        "  Change the first file",
        "  Acceptance criteria",
        "    1. The file says so",
    ]
    assert changed.splitlines() == ["Files, 1 changed, +1 -1", "  modify  src/a.txt     +1     -1"]
    assert diff.endswith("@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n")


@pytest.mark.hostile("B17", "I10")
def test_characters_that_deceive_are_shown_as_escapes_below_a_warning(repository: Path) -> None:
    out = run_aop(repository, "review", "tricky").out
    assert "\u202e" not in out
    assert "\u0430" not in out.partition("diff --git")[0]
    assert "\x1b" not in out
    assert 'create  "src/p\\u{430}ypal.txt"' in out
    assert "+if access != 'user\\u{202e} \\u{2066}// admin\\u{2069} \\u{2066}':\n" in out
    assert "+\\u{1b}]0;title\\u{7}\n+sc\\u{43e}pe = 1\n" in out
    assert f"  Safe {IMAGE} \\u{{202e}}\\u{{1b}}[2J\n" in out
    assert [line for line in out.splitlines() if line.startswith("Warning")] == [
        "Warning   The plan has characters that are invisible or imitate others; they are shown as escapes.",
        'Warning   The name "src/p\\u{430}ypal.txt" has characters that are invisible or imitate others.',
        'Warning   "src/p\\u{430}ypal.txt" has characters that are invisible or imitate others: 7'
        " (the first in line 1), shown as \\u{1b}, \\u{202e}, \\u{2066}, \\u{2069}, \\u{43e}.",
    ]


def test_who_approves_is_warned_as_who_reviews(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo"))
    world.ready(diff=PATCH.replace("+TWO", f"+{TROJAN}"))
    world.close()
    ran = run_aop(world.root, "approve", "one", "--yes")
    warning = "src/a.txt has characters that are invisible or imitate others: 4 (the first in line 2)"
    assert (ran.code, f"Warning  {warning}, shown as " in ran.err) == (0, True), ran


@pytest.mark.req("AOP-267")
def test_gates_that_failed_or_ran_on_another_tree_are_called_so(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", gates=gates_of(full=step("exit 3")))
    world.plan("one", files=files(modify=("src/a.txt",), delete=("src/b.txt",)), risk=["It may rain"])
    world.patch("one")
    world.ok("gates.run", feature_id="one", mode="fast")
    world.call("gates.run", feature_id="one", mode="full")
    failed = run_aop(world.root, "review", "one").out
    assert "  full   failed on this tree, " in failed
    assert "\n           The step `check` did not pass: it ended with exit code 3: sh -c exit 3\n" in failed
    assert "  Risk: It may rain\n" in failed
    world.patch("one", "--- a/src/b.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-alpha\n-beta\n")
    world.close()
    assert "  fast   stale  on another tree, " in run_aop(world.root, "review", "one").out
    assert "faststaleon another tree, " in Page(written(world.root, "one")).text


def test_an_approval_and_then_the_merge_are_named(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo")
    world.ready("one")
    token = world.approval("one")
    approved = run_aop(world.root, "review", "one").out
    assert "Blocking  nothing (the merge runs the gates again)\n" in approved
    assert re.search(r"  \S+Z person:ada, tree [0-9a-f]{12}: valid for one merge\n", approved)
    merged = world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=token)
    world.close()
    out = run_aop(world.root, "review", "one").out
    assert f"Merged    {merged['merge_commit']} (merge_commit)\n" in out
    assert "stale" not in out
    assert ": void: it was used already, and the base branch moved after it\n" in out
    assert f"Base      main at {merged['merge_commit']}; the feature started at " in out
    assert f"Merged by merge_commit as {merged['merge_commit']}" in Page(written(world.root, "one")).text


def test_what_the_gates_counted_and_measured_is_shown_and_their_findings_are_warnings(tmp_path: Path) -> None:
    cases = "<testcase name='a'/><testcase name='b'><skipped/></testcase>"
    script = (
        f"""mkdir out; n=$(grep -c two src/a.txt); echo "<testsuite>{cases}" > out/t.xml; """
        """[ $n = 0 ] || echo "<testcase name='c'/>" >> out/t.xml; echo '</testsuite>' >> out/t.xml; """
        """printf 'SF:a\\nDA:1,1\\nDA:2,0\\nend_of_record\\n' > out/lcov.info"""
    )
    parsers = {
        "tests": {"type": "junit_xml", "path": "out/t.xml"},
        "coverage": {"type": "lcov", "path": "out/lcov.info"},
    }
    world = configured(
        tmp_path / "repo",
        policy={"testing": {"allow_fewer_tests": True, "coverage": {"minimums": {"line": 0, "branch": 0}}}},
        gates=gates_of(fast=step(script), parsers=parsers, capabilities=["lcov", "junit_xml"]),
    )
    world.plan("one")
    world.patch("one")
    world.ok("gates.run", feature_id="one", mode="fast")
    world.close()
    out = run_aop(world.root, "review", "one").out
    assert "           tests: 1 passed, 0 failed, 1 skipped; 2 ran on the base\n" in out
    assert "           line coverage: 50.00 %\n           branch coverage: not measured\n" in out
    assert "Warning   The fast gates: 1 test of the base did not run and pass: " in out
    page = Page(written(world.root, "one"))
    assert "1 passed, 0 failed, 1 skipped; 2 ran on the base" in page.text
    assert "50.00 %" in page.text


def test_a_diff_that_is_cut_says_how_to_see_the_rest(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo")
    half = "".join(f"+{number:01000d}\n" for number in range(600))
    world.plan("one", files=files(create=("src/large.txt",)))
    world.patch("one", f"--- /dev/null\n+++ b/src/large.txt\n@@ -0,0 +1,600 @@\n{half}")
    world.patch("one", f"--- a/src/large.txt\n+++ b/src/large.txt\n@@ -1,1 +1,601 @@\n{half} {0:01000d}\n")
    world.close()
    out = run_aop(world.root, "review", "one").out
    left = re.search(r"Warning   (\d+) lines of the diff of src/large.txt not shown\.", out)
    assert left is not None
    call = 'aop call repo.diff \'{"feature_id": "one", "options": {"paths": ["src/large.txt"]}}\''
    assert out.endswith(f"\n[{left[1]} more lines: {call}]\n")
    assert f"  create  src/large.txt  +1200     -0  {left[1]} lines not shown\n" in out
    assert f"{left[1]} more lines: {call}" in Page(written(world.root, "one")).text


def test_a_file_without_lines_is_listed_with_what_changed(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo")
    world.plan("one")
    world.patch("one", "diff --git a/src/a.txt b/src/a.txt\nold mode 100644\nnew mode 100755\n")
    world.close()
    assert "  modify  src/a.txt     +0     -0  mode 100644 to 100755\n" in run_aop(world.root, "review", "one").out
    page = Page(written(world.root, "one"))
    assert "mode 100644 to 100755" in page.text
    assert "No lines differ." in page.text


def test_a_binary_file_is_said_to_differ(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", policy={"patch_policy": {"allow_binary": True}})
    (world.root / "src" / "picture.bin").write_bytes(bytes(range(256)))
    git(world.root, "add", "src/picture.bin")
    git(world.root, "commit", "-qm", "A picture")
    world.plan("one", files=files(delete=("src/picture.bin",)))
    world.patch("one", git(world.root, "diff", "--binary", "--full-index", "HEAD", "HEAD^"))
    world.close()
    assert "  delete  src/picture.bin     +0     -0  binary\n" in run_aop(world.root, "review", "one").out
    assert "Binary content differs." in Page(written(world.root, "one")).text


def test_a_feature_that_has_only_begun_can_be_looked_at(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo")
    world.init("one")
    world.close()
    out = run_aop(world.root, "review", "one").out
    assert "Gates, run by AOP\n  no gate has run\n\nFiles, 0 changed, +0 -0\n" in out
    assert "No gates have run." in Page(written(world.root, "one")).text


def test_a_terminal_gets_colours_and_nothing_but_colours(repository: Path) -> None:
    seen = on_terminal(repository, "review", "one")
    assert "\x1b[32m+TWO\x1b[0m" in seen
    assert "\x1b[31m-two\x1b[0m" in seen
    assert COLOUR.sub("", seen).replace("\r\n", "\n") == run_aop(repository, "review", "one").out


@pytest.mark.parametrize(
    ("words", "env"),
    [((), {"NO_COLOR": "1"}), ((), {"TERM": "dumb"}), (("--color", "never"), {})],
    ids=["NO_COLOR", "a dumb terminal", "--color never"],
)
def test_no_colours_with(repository: Path, words: tuple[str, ...], env: dict[str, str]) -> None:
    assert "\x1b" not in on_terminal(repository, "review", "one", *words, **env)


def test_colours_can_be_asked_for_without_a_terminal(repository: Path) -> None:
    ran = run_aop(repository, "review", "tricky", "--color", "always", env={"NO_COLOR": "1"})
    assert "'user\x1b[0m\x1b[1;35;7m\\u{202e}\x1b[0m\x1b[32m " in ran.out
    assert COLOUR.sub("", ran.out) == run_aop(repository, "review", "tricky").out


def test_a_terminal_gets_the_text_through_its_pager_unless_told_otherwise(repository: Path, tmp_path: Path) -> None:
    pager = f"sh -c 'cat > \"$0\"' {tmp_path}/paged"
    assert on_terminal(repository, "review", "one", PAGER=pager) == ""
    paged = (tmp_path / "paged").read_text()
    assert COLOUR.sub("", paged) == run_aop(repository, "review", "one").out
    (tmp_path / "paged").unlink()
    assert "+TWO" in on_terminal(repository, "review", "one", "--no-pager", PAGER=pager)
    assert not (tmp_path / "paged").exists()


@pytest.mark.parametrize("pager", ["", "cat", "no-such-pager --at-all"])
def test_without_a_pager_the_text_is_printed(repository: Path, pager: str) -> None:
    assert "+TWO" in on_terminal(repository, "review", "one", PAGER=pager)


def test_a_pager_that_is_left_early_is_no_failure(repository: Path) -> None:
    assert on_terminal(repository, "review", "tricky", PAGER="true") == ""


def test_a_terminal_that_cannot_show_a_letter_gets_an_escape(repository: Path) -> None:
    ran = run_aop(repository, "review", "tricky", env={"PYTHONIOENCODING": "ascii"})
    assert (ran.code, ran.err) == (0, "")
    assert "Gr\\xf6\\xdfe" in ran.out


@pytest.mark.req("AOP-265")
def test_json_holds_both_answers_whole(repository: Path) -> None:
    data = run_aop(repository, "review", "one", "--json").json["data"]
    called = {
        name: run_aop(repository, "call", tool, '{"feature_id": "one"}').json["data"]
        for name, tool in (("summary", "report.feature_summary"), ("bundle", "repo.diff_bundle"))
    }
    assert data == called


def test_a_feature_that_is_not_there_is_refused_in_text_and_in_json(repository: Path) -> None:
    ran = run_aop(repository, "review", "nobody")
    assert (ran.code, ran.out) == (1, "")
    assert "[unknown_feature]" in ran.err
    assert run_aop(repository, "review", "nobody", "--json").json["error"]["code"] == "unknown_feature"


VOID = frozenset(["meta", "br", "wbr"])
TAGS = VOID | set(
    "html head title style body nav main aside section footer details summary table tr td pre code div span a "
    "h1 h2 h3 h4 i b p ul ol li dl dt dd small ins del".split()
)
ATTRIBUTES = frozenset(
    ["class", "id", "href", "lang", "open", "aria-label", "charset", "content", "http-equiv", "name"]
)


class Page(HTMLParser):
    """A page as a browser without scripts reads it; refuses what this page must not have."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.text = ""
        self.style = ""
        self.links: list[str] = []
        self.ids: list[str] = []
        self.policy = ""
        self.folded: dict[str, bool] = {}
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        if tag not in VOID:
            self._open.append(tag)
        values = dict(attrs)
        assert values.keys() <= ATTRIBUTES
        if "href" in values:
            self.links.append(str(values["href"]))
        if "id" in values:
            self.ids.append(str(values["id"]))
            self.folded[str(values["id"])] = "open" not in values
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(values["content"])

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.style += data
        else:
            self.text += data


def written(repository: Path, feature: str) -> str:
    """Return the page of a feature."""
    target = repository.parent / f"{feature}.html"
    ran = run_aop(repository, "review", feature, "--html", str(target), "--force")
    assert (ran.code, ran.out, ran.err) == (0, f"{target}\n", "")
    return target.read_text(encoding="utf-8")


@pytest.mark.hostile("B05", "B17", "I10")
def test_the_page_holds_no_tag_no_link_and_no_request_that_somebody_else_wrote(repository: Path) -> None:
    source = written(repository, "tricky")
    page = Page(source)
    assert page.policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert page.links == [f"#{name}" for name in page.ids] == ["#f1", "#f2", "#f3", "#f4"]
    assert "url(" not in page.style
    assert "@import" not in page.style
    assert "://" not in source
    assert page.text.count(IMAGE) == 4
    assert f"{IMAGE}</table><script>alert(2)</script>" in page.text
    assert "</ol><script>x" in page.text
    assert "&amp;" in page.text
    assert '"src/p\\u{430}ypal.txt"' in page.text
    assert "'user\\u{202e} \\u{2066}// admin\\u{2069} \\u{2066}':" in page.text
    assert "Warnings" in page.text
    assert all(letter not in source for letter in "\u202e\u2066\u2069\x1b\x07")


@pytest.mark.req("AOP-265", "AOP-047")
def test_the_page_shows_status_gates_plan_files_and_what_is_missing(repository: Path) -> None:
    page = Page(written(repository, "one"))
    for words in (
        "ready to merge",
        "No person has approved `one` as it is now.",
        "by person:ada",
        "AOP checked the form, not the content.",
        "The file says so",
        "src/a.txt",
        "agentic/features/one/evidence/gate-",
    ):
        assert words in page.text
    assert page.folded == {"f1": False}


def test_a_file_with_more_than_500_lines_is_folded(repository: Path) -> None:
    assert Page(written(repository, "tricky")).folded == {"f1": False, "f2": False, "f3": False, "f4": True}


@pytest.mark.hostile("G34")
def test_the_page_shows_why_a_gate_failed_with_the_end_of_its_log_as_plain_text(tmp_path: Path) -> None:
    script = "printf '\\033[31m<b>boom</b>\\033[0m \\033]8;;https://example.org\\007link\\033]8;;\\007\\n'; exit 1"
    world = configured(tmp_path / "repo", gates=gates_of(fast=step(script)))
    world.plan("one")
    world.patch("one")
    world.call("gates.run", feature_id="one", mode="fast")
    world.close()
    source = written(world.root, "one")
    assert (
        "\n<b>boom</b> link\n"
        in Page(source.replace('<pre class="log">', "<pre>\n").replace("</pre>", "\n</pre>")).text
    )
    assert "\x1b" not in source


def test_a_file_that_is_there_is_replaced_only_by_force_and_nothing_else_is_left(
    repository: Path, tmp_path: Path
) -> None:
    target = tmp_path / "page.html"
    target.write_text("mine")
    refused = run_aop(repository, "review", "one", "--html", str(target))
    assert (refused.code, target.read_text()) == (2, "mine")
    assert "already exists. [invalid_cli_args]\n  Pass `--force` to replace it.\n" in refused.err
    assert run_aop(repository, "review", "one", "--html", str(target), "--force").code == 0
    assert target.read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_page_is_written_only_where_a_folder_is(repository: Path, tmp_path: Path) -> None:
    ran = run_aop(repository, "review", "one", "--html", str(tmp_path / "no" / "page.html"))
    assert (ran.code, list(tmp_path.iterdir())) == (2, [])
    assert "[input_path_not_found]" in ran.err


def test_looking_in_every_way_changes_nothing(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo")
    world.ready("one", diff=PATCH)
    before = world.fingerprint()
    for words in ((), ("--json",), ("--html", str(tmp_path / "page.html"))):
        assert run_aop(world.root, "review", "one", *words).code == 0
    assert world.fingerprint() == before
    world.close()
