"""What a person has to see before they approve stands above the diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from aop.core.roles import Role
from tests.kernel.tools.worlds import configured, gates_of, patch_of, step
from tests.mcpserver.clients import served
from tests.web.pages.page_visits import visit
from tests.world import files


def lcov(hit: int) -> str:
    """Return the command that reports so many of ten lines as run."""
    lines = "".join(f"DA:{line},{int(line <= hit)}\\n" for line in range(1, 11))
    return f"printf 'TN:\\nSF:a\\n{lines}LF:10\\nLH:{hit}\\nend_of_record\\n' > cov.lcov"


COVERED = f"if test -e src/new.txt; then {lcov(7)}; else {lcov(9)}; fi"
POLICY = {
    "protected_areas": ["src/secret"],
    "testing": {"coverage": {"minimums": {"line": 0.5, "branch": 0}}},
}
PARSERS = {"coverage": {"type": "lcov", "path": "cov.lcov"}}
FILES = ("src/new.txt", "src/secret/key.txt", "conftest.py", "tools/check.py")
RUN = {"name": "own", "cmd": ["sh", "-c", "test ! -e tools/check.py || python3 tools/check.py"]}


@pytest.mark.parametrize("merge_mode", ["merge", "full"])
def test_guarded_files_lowered_coverage_and_deceptive_characters_stand_above_the_diff(
    tmp_path: Path, merge_mode: str
) -> None:
    gates = gates_of([*step(COVERED), RUN], step(COVERED), step(COVERED), parsers=PARSERS)
    world = configured(tmp_path / "repo", policy={**POLICY, "required_merge_mode": merge_mode}, gates=gates)
    world.ready("first")
    merged = world.ok("feature.ready_to_merge", feature_id="first", user_approval_token=world.approval("first"))
    assert merged["status"] == "merged"
    world.init("one")
    for number, path in enumerate(FILES[1:], 1):
        asked = world.call_as_worker(
            "inbox.ask_path", Role.BUILDER, "one", feature_id="one", path=path, reason="It must."
        )
        assert asked.ok, (number, asked.error)
        world.ok("inbox.answer", feature_id="one", question_id=asked.data["question_id"], answer="yes")
    world.plan("one", files=files(create=FILES), allowed_areas=["src", "conftest.py", "tools"])
    texts = ("a\u202eb", "k", "x = 1", "print()")
    world.patch("one", "".join(map(patch_of, FILES, texts)))
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)
    with served(world.root) as server, visit(world.root, server) as browser:
        page = browser.get("/features/one")
    above = page.html[: page.html.index('class="panel file"')]
    for warning in (
        "src/secret/key.txt is changed: it lies in a protected area; opened by person:ada.",
        "conftest.py is changed: it steers the tests; opened by person:ada.",
        "tools/check.py is changed: a gate runs it; opened by person:ada.",
        "The line coverage is 70.00 %; it was 90.00 % on the base",
        "src/new.txt has characters that are invisible or imitate others: 1 (the first in line 1), shown as \\u{202e}.",
    ):
        assert warning in above
    world.close()
