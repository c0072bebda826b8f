"""What specs say of each other: `depends_on`, and what of it is refused."""

from __future__ import annotations

import pytest

from aop.core.errors import SpecIngestFailed
from aop.core.ids import FeatureId
from aop.kernel.features.specs import dependencies_of
from aop.supervisor.specs.dependencies import check_dependencies

A, B, C = FeatureId("a"), FeatureId("b"), FeatureId("c")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Write it.\n", ()),
        ("---\ntitle: x\n---\nWrite it.\n", ()),
        ("---\ndepends_on: b\n---\n", (B,)),
        ("---\ndepends_on: [b, c]\n---\n", (B, C)),
        ("A line.\n---\ndepends_on: [b]\n---\n", ()),
    ],
)
def test_the_front_matter_says_what_must_come_before(text: str, found: tuple[FeatureId, ...]) -> None:
    assert dependencies_of(A, text) == found


@pytest.mark.parametrize(
    "text",
    ["---\ndepends_on: [1]\n---\n", "---\ndepends_on: {b: c}\n---\n", "---\ndepends_on: [Not A Slug]\n---\n", "---\nx"],
)
def test_what_is_no_list_of_features_is_refused(text: str) -> None:
    with pytest.raises(SpecIngestFailed):
        dependencies_of(A, text)


def test_a_chain_is_fine_and_so_is_a_feature_that_is_there_already() -> None:
    check_dependencies({A: (B,), B: (C,)}, frozenset({C}))


def test_a_dependency_on_nothing_is_refused() -> None:
    with pytest.raises(SpecIngestFailed, match="`a` depends on `b`, which is not a known spec or feature"):
        check_dependencies({A: (B,)}, frozenset())


def test_a_circle_is_refused_and_shown() -> None:
    with pytest.raises(SpecIngestFailed) as refused:
        check_dependencies({A: (B,), B: (C,), C: (A,)}, frozenset())
    assert refused.value.facts["circle"] == ["a", "b", "c", "a"]


def test_many_features_that_each_need_all_before_them_are_no_circle() -> None:
    names = [FeatureId(f"f{number}") for number in range(60)]
    check_dependencies({name: tuple(names[:number]) for number, name in enumerate(names)}, frozenset())


def test_a_circle_among_others_is_shown_without_those_that_only_lead_to_it() -> None:
    with pytest.raises(SpecIngestFailed) as refused:
        check_dependencies({A: (B,), B: (C,), C: (B,)}, frozenset())
    assert refused.value.facts["circle"] == ["b", "c", "b"]


def test_a_chain_may_be_as_long_as_a_backlog_is() -> None:
    names = [FeatureId(f"f{number}") for number in range(3000)]
    wanted = {name: (names[number + 1],) for number, name in enumerate(names[:-1])}
    check_dependencies({**wanted, names[-1]: ()}, frozenset())
