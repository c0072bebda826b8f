"""Kept sessions: what of an agent's home is there in its next turn, and what is not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from aop.adapters.agents.kept_sessions import LARGEST_SESSION, KeptSession, drop_sessions
from aop.core.ids import FeatureId
from aop.core.roles import Role

ID = "0b7c9a52-1d2e-4f3a-8b4c-5d6e7f809102"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a turn, with one session and credentials beside it."""
    sessions = tmp_path / "home/sessions"
    (sessions / "2026").mkdir(parents=True)
    (sessions / f"2026/rollout-{ID}.jsonl").write_text("said: SECRET\n")
    (tmp_path / "home/auth.json").write_text("{}")
    return tmp_path / "home"


def kept_in(root: Path, role: Role = Role.BUILDER, agent: str = "codex") -> KeptSession:
    return KeptSession(root, FeatureId("one"), role, agent)


def masked(text: str) -> str:
    return text.replace("SECRET", "[REDACTED]")


@pytest.mark.req("AOP-090", "AOP-231")
def test_a_session_goes_on_in_the_next_home_without_secrets_and_without_the_rest(tmp_path: Path, home: Path) -> None:
    kept = kept_in(tmp_path)
    assert kept.keep(home, "sessions", masked) == ID
    again = tmp_path / "again"
    again.mkdir()
    kept.restore(again, "other")
    assert [path.relative_to(again).as_posix() for path in again.rglob("*") if path.is_file()] == [
        f"other/2026/rollout-{ID}.jsonl"
    ]
    assert (again / f"other/2026/rollout-{ID}.jsonl").read_text() == "said: [REDACTED]\n"
    assert kept_in(tmp_path).session_id == ID


def test_no_other_user_can_read_it(tmp_path: Path, home: Path) -> None:
    kept_in(tmp_path).keep(home, "sessions", masked)
    folder = tmp_path / ".aop/sessions"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *files)] == [0o700, 0o600, 0o600]


def test_another_role_or_agent_has_its_own(tmp_path: Path, home: Path) -> None:
    kept_in(tmp_path).keep(home, "sessions", masked)
    assert (kept_in(tmp_path, Role.QA).session_id, kept_in(tmp_path, agent="claude").session_id) == ("", "")


@pytest.mark.parametrize("place", ["sessions/2026", "sessions"])
def test_a_link_of_the_agent_leads_nowhere(tmp_path: Path, home: Path, place: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / f"{ID}.jsonl").write_text("of the user")
    os.rename(home / place, tmp_path / "moved")
    (home / place).symlink_to(outside, target_is_directory=True)
    assert kept_in(tmp_path).keep(home, "sessions", masked) == ""
    assert "of the user" not in "".join(path.read_text() for path in (tmp_path / ".aop").rglob("*") if path.is_file())


def test_what_is_too_large_is_not_kept_and_an_earlier_session_is_forgotten(tmp_path: Path, home: Path) -> None:
    kept = kept_in(tmp_path)
    kept.keep(home, "sessions", masked)
    with (home / "sessions/large").open("wb") as file:
        file.truncate(LARGEST_SESSION)
    assert (kept.keep(home, "sessions", masked), kept.session_id) == ("", "")


def test_an_agent_that_leaves_no_session_has_none(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    assert kept_in(tmp_path).keep(tmp_path / "home", "sessions", masked) == ""


def test_sessions_of_features_that_have_ended_are_removed(tmp_path: Path, home: Path) -> None:
    kept = kept_in(tmp_path)
    kept.keep(home, "sessions", masked)
    drop_sessions(tmp_path, ["one"])
    assert kept.session_id == ID
    drop_sessions(tmp_path, ["two"])
    assert list((tmp_path / ".aop/sessions").iterdir()) == []
