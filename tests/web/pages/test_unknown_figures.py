"""Unknown figures on the pages: a turn without a report is unknown, not zero, and it did happen."""

from __future__ import annotations

from aop.core.roles import Role
from tests.forge.builds.cycles import begun
from tests.mcpserver.clients import served
from tests.web.pages.page_visits import visit
from tests.world import World


def silent_turn(world: World, feature: str, worker: str) -> None:
    """Take a turn that reports nothing of itself."""
    said = {"feature_id": feature, "worker": worker, "run": "r", "provider": "codex"}
    turn = world.ok("usage.begin", role=Role.SYSTEM, **said)["turn"]
    world.ok("usage.record", role=Role.SYSTEM, **said, turn=turn)


def test_a_turn_that_reported_nothing_is_unknown_on_the_pages_of_a_feature(world: World) -> None:
    world.ready("one")
    silent_turn(world, "one", "builder")
    with served(world.root) as server, visit(world.root, server) as browser:
        cost = browser.get("/cost")
        assert (cost.text.count("No turn has a known cost."), "<polyline" in cost.html) == (2, False)
        log = browser.get("/features/one/log").text
        assert "Its agents left no words here." in log
        assert "No agent has taken a turn" not in log
        timeline = browser.get("/features/one/timeline").text
        assert "turn taken by the builder" in timeline
        assert "gates ran, full: pass" in timeline


def test_a_turn_that_reported_nothing_is_unknown_on_the_pages_of_a_build(world: World) -> None:
    begun(world)
    with served(world.root) as server, visit(world.root, server) as browser:
        assert "cost 0.00 USD" in browser.get("/builds/shop-b1").text
        silent_turn(world, "shop-b1", "coder")
        page = browser.get("/builds/shop-b1").text
        assert "cost unknown" in page
        assert "The coder took a turn, codex" in page
        assert "cost unknown" in browser.get("/builds").text
