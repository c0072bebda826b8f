"""The collision matrix finds what comparing every plan with every other one finds."""

from __future__ import annotations

from itertools import combinations, product

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aop.core.ids import FeatureId
from aop.core.paths.names import overlap, parse_planned
from aop.kernel.config.guarded_areas import GuardedAreas
from aop.kernel.plans.collision_matrix import ComparedPlan, shared_places
from aop.kernel.record.documents.plans import Plan
from tests.world import files, plan_for

NOTHING_GUARDED = GuardedAreas(protected=(), steering=(), exclusive=(), permitted=())

NAMES = st.sampled_from(["a", "b", "ab", "A", "*", "?", "a*", "*b", "a*b", "**", "ß", "s?"])
ENTRY = st.builds(
    lambda parts, end: "/".join(parts) + end,
    st.lists(
        st.sampled_from(["a", "b", "ab", "A", "*", "?", "a*", "*b", "a*b", "**", "ß", "s?"]), min_size=1, max_size=4
    ),
    st.sampled_from(["", "/"]),
)


@settings(max_examples=500)
@given(st.lists(st.lists(ENTRY, min_size=1, max_size=3), min_size=2, max_size=5))
@example([["a"], ["a/b/"], ["a/"], ["**"]])
@example([["a/*/b"], ["a/b"], ["a/b/b"]])
def test_two_features_share_a_place_exactly_when_entries_of_them_overlap(entries: list[list[str]]) -> None:
    plans = [ComparedPlan(feature_id=FeatureId(f"f{n}"), plan=plan_of(f"f{n}", own)) for n, own in enumerate(entries)]

    found = shared_places(plans, NOTHING_GUARDED, {})

    together = {
        (a.feature_id, b.feature_id)
        for place in found
        for a, b in combinations(place.holders, 2)
        if a.feature_id < b.feature_id and overlap(parse_planned(a.planned), parse_planned(b.planned))
    }
    assert together == {
        (f"f{a}", f"f{b}")
        for a, b in combinations(range(len(entries)), 2)
        if any(overlap(parse_planned(x), parse_planned(y)) for x, y in product(entries[a], entries[b]))
    }


def plan_of(feature: str, entries: list[str]) -> Plan:
    return msgspec.convert(plan_for(feature, files=files(create=tuple(entries))), Plan)
