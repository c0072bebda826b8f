"""feature.discover_specs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from tests.kernel.tools.worlds import plain
from tests.world import World

FEATURES = "agentic/features"


def write_spec(world: World, name: str, text: str = "# Wanted\n") -> Path:
    spec = world.root / FEATURES / name / "spec.md"
    spec.parent.mkdir(parents=True)
    spec.write_text(text)
    return spec


@pytest.mark.req("AOP-160")
def test_every_spec_is_found_whether_or_not_its_feature_was_made(world: World) -> None:
    write_spec(world, "two")
    write_spec(world, "one")
    world.init("one")
    world.init("three")
    assert plain(world.ok("feature.discover_specs")) == {
        "specs": [
            {"feature_id": "one", "spec_path": "agentic/features/one/spec.md"},
            {"feature_id": "two", "spec_path": "agentic/features/two/spec.md"},
        ],
        "unusable": [],
    }


def test_a_repository_without_specs_has_none(world: World) -> None:
    assert plain(world.ok("feature.discover_specs")) == {"specs": [], "unusable": []}


@pytest.mark.req("AOP-305")
@pytest.mark.hostile("N01", "N02", "N06", "N09", "N10", "N11")
@pytest.mark.parametrize(
    "name", ["-D", "--upload-pack=touch x", "A", "a b", "HEAD", "main", "ünï", "a;rm", "\u202eeno", "x" * 64]
)
def test_a_folder_whose_name_is_no_feature_id_is_named_and_not_used(world: World, name: str) -> None:
    write_spec(world, name)
    answer = world.ok("feature.discover_specs")
    assert answer["specs"] == []
    (unusable,) = answer["unusable"]
    assert unusable["code"] == "invalid_feature_slug"
    assert unusable["spec_path"].isascii()


def test_a_name_that_is_no_text_is_shown_as_escapes(world: World) -> None:
    folder = os.fsencode(world.root / FEATURES) + b"/\xff\xfe"
    os.makedirs(folder)
    Path(os.fsdecode(folder), "spec.md").write_text("x")
    (unusable,) = world.ok("feature.discover_specs")["unusable"]
    assert unusable["spec_path"] == "agentic/features/\\udcff\\udcfe/spec.md"


def linked_spec(world: World) -> None:
    (world.root / FEATURES / "one").mkdir(parents=True)
    (world.root / FEATURES / "one/spec.md").symlink_to("/etc/hostname")


def linked_folder(world: World) -> None:
    outside = world.root.parent / "outside"
    outside.mkdir()
    (outside / "spec.md").write_text("Secret plans.\n")
    (world.root / FEATURES).mkdir(parents=True)
    (world.root / FEATURES / "one").symlink_to(outside)


def huge_spec(world: World) -> None:
    write_spec(world, "one", "x" * 300_000)


def folder_for_spec(world: World) -> None:
    (world.root / FEATURES / "one/spec.md").mkdir(parents=True)


def pipe_for_spec(world: World) -> None:
    (world.root / FEATURES / "one").mkdir(parents=True)
    os.mkfifo(world.root / FEATURES / "one/spec.md")


@pytest.mark.parametrize("make", [linked_spec, linked_folder, huge_spec, folder_for_spec, pipe_for_spec])
def test_a_spec_that_would_not_be_read_is_named_with_the_reason(world: World, make: Callable[[World], None]) -> None:
    make(world)
    answer = world.ok("feature.discover_specs")
    assert answer["specs"] == []
    assert [each["spec_path"] for each in answer["unusable"]] == ["agentic/features/one/spec.md"]
    assert "/etc" not in str(answer)
    assert "outside" not in str(answer)


def test_a_linked_folder_of_all_features_is_refused(world: World) -> None:
    outside = world.root.parent / "outside"
    outside.mkdir()
    (world.root / FEATURES).parent.mkdir(exist_ok=True)
    (world.root / FEATURES).symlink_to(outside)
    assert world.refusal("feature.discover_specs")["code"] == "file_not_found"


def test_a_token_of_one_feature_sees_its_spec_alone(world: World) -> None:
    write_spec(world, "one")
    write_spec(world, "two")
    who = Principal(role=Role.BUILDER, actor="builder:one", features=frozenset({FeatureId("one")}))
    found = world.app.gateway.call(who, "feature.discover_specs", {}).data["specs"]
    assert [spec["feature_id"] for spec in found] == ["one"]
