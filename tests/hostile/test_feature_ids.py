"""Group N through the real door: an id that git, a shell or a file system reads otherwise makes no feature.

N17 to N19 are about remotes.
"""

from __future__ import annotations

import pytest

from tests.hostile.arena import Arena
from tests.hostile.test_names_and_paths import IDS
from tests.world import git


@pytest.mark.series(8)
@pytest.mark.req("AOP-305")
@pytest.mark.parametrize(("row", "name"), IDS)
def test_no_feature_is_made_by_such_a_name(arena: Arena, row: str, name: str) -> None:
    # Half of a surrogate pair cannot come in as JSON at all.
    code = "invalid_feature_slug" if name.encode(errors="ignore").decode() == name else "invalid_arguments"
    assert arena.refusal("feature.init", feature_id=name)["code"] == code


@pytest.mark.hostile("N02")
def test_a_name_like_an_option_deletes_no_branch(arena: Arena) -> None:
    git(arena.root, "branch", "other")
    arena.refusal("feature.init", feature_id="-D")
    assert git(arena.root, "branch", "--format=%(refname:short)").split() == ["main", "one", "other"]


@pytest.mark.hostile("N14")
def test_of_two_names_that_differ_only_in_case_the_second_is_refused(arena: Arena) -> None:
    arena.init("foo-1")
    assert arena.refusal("feature.init", feature_id="Foo-1")["code"] == "invalid_feature_slug"


@pytest.mark.hostile("N14")
def test_a_branch_that_differs_only_in_case_is_no_reason_to_take_it_over(arena: Arena) -> None:
    git(arena.root, "branch", "Foo-1")
    before = git(arena.root, "rev-parse", "Foo-1")
    arena.call("feature.init", feature_id="foo-1")
    assert git(arena.root, "rev-parse", "refs/heads/Foo-1") == before


@pytest.mark.hostile("N15")
@pytest.mark.parametrize("branch", ["two/part", "two/part/of/it"])
def test_a_branch_below_the_name_of_a_feature_is_a_refusal_and_not_a_breakage(arena: Arena, branch: str) -> None:
    git(arena.root, "branch", branch)
    assert arena.refusal("feature.init", feature_id="two")["code"] == "branch_exists"
