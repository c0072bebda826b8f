"""Shots: pictures of every page, in both themes, on a desktop and on a phone.

`python -m tests.web.browser.shots FOLDER` writes one PNG for each; `make shots` calls it. What the pages show has
happened: `aop demo` that waits for a person, a ticket at the LOCAL systems, a workflow of one agent that asks for help,
and the build of `aop demo forge`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from playwright.sync_api import Browser, Page

from aop.web.pages.feature.feature import TABS
from aop.web.pages.page_list import PAGES
from aop.web.pages.work.builds import TABS as BUILD_TABS
from tests.cli.begin.test_demo_pages import demo
from tests.gated.agents import RUN, Agent, active_pr, gated_repository
from tests.mcpserver.clients import served
from tests.racing import until
from tests.tickets.local_worlds import KEY
from tests.web.browser.windows import Scheme, launched
from tests.web.pages.page_visits import link_to
from tests.web.pages.test_ticket_page import made_place
from tests.world import World, run_aop

FEATURE = "volume_discount"
BUILD = "shelf-labels-b1"
WORK = ("/tickets", "/gated", "/contracts", "/builds")
"""The pages that the demo of features leaves empty."""
FEW = {"hypothesize_max": 1, "instrumentation_max": 1, "unlock_scope_reduction_at": 2, "unlock_escalation_at": 2}
SECONDS = 300.0
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        made = [worked(Path(temporary)) for worked in (_tickets, _workflow, _builds)]
        with launched() as browser:
            _take_demo(browser, Path(temporary), folder)
            for root, addresses in made:
                with served(root):
                    page = _opened(browser, link_to(root))
                    _take(page, _origin(page), addresses, folder)
    return 0


def _take_demo(browser: Browser, temporary: Path, folder: Path) -> None:
    """Take pictures of the demo while it waits for a person."""
    with demo(temporary) as (process, link):
        page = _opened(browser, link)
        origin = _origin(page)
        until(lambda: _is_waiting(page, origin), seconds=SECONDS)
        plain = {each.menu.lower(): each.path for each in PAGES if each.menu and each.path not in WORK}
        _take(page, origin, {**plain, **{f"feature-{tab}": f"/features/{FEATURE}/{tab}" for tab in TABS}}, folder)
        process.terminate()
        process.communicate(timeout=SECONDS)


def _opened(browser: Browser, link: str) -> Page:
    page = browser.new_context().new_page()
    page.goto(link)
    return page


def _origin(page: Page) -> str:
    return page.url.partition("/board")[0].rstrip("/")


def _is_waiting(page: Page, origin: str) -> bool:
    """Tell whether the question is asked and the other four features wait for an approval."""
    page.goto(f"{origin}/")
    return page.locator("#main .row").count() == 5


def _take(page: Page, origin: str, addresses: Mapping[str, str], folder: Path) -> None:
    for scheme in get_args(Scheme):
        for size, (width, height) in SIZES.items():
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": height})
            for name, address in addresses.items():
                page.goto(origin + address)
                page.screenshot(path=folder / f"{name}-{size}-{scheme}.png")


def _tickets(folder: Path) -> tuple[Path, Mapping[str, str]]:
    """Try a ticket and then work on it, at LOCAL systems and with a recorded answer of a model."""
    place = made_place(folder / "tickets")
    assert place.aop("scaffold", KEY, "--dry-run").code == 0
    ran = place.aop("scaffold", KEY, "--json")
    return place.repo, {"tickets": "/tickets", "ticket-run": f"/tickets/{ran.json['data']['run']}"}


def _workflow(folder: Path) -> tuple[Path, Mapping[str, str]]:
    """Take an agent through a red and a green step, until it asks for help."""
    world = World(gated_repository(folder / "gated", gated=FEW))
    world.ok("gated.start", feature_id="gated")
    agent = Agent(world)
    agent.plan(active_pr("feat: Say one", "Say it in the file", "Say it to who asks"))
    agent.task()
    agent.red("tests/test_one.sh", 'test "$(cat src/said.txt)" = one\n')
    agent.task()
    agent.green("src/said.txt", "one\n")
    agent.task()
    for _attempt in range(2):
        agent.submit(test_command=RUN, expectation="FAIL", summary="The test should fail, and does not.")
    report = "# No test that fails\n\nEvery test I can think of passes already. Which file answers those who ask?"
    agent.call("escalate_for_external_help", markdown_report=report)
    world.close()
    return world.root, {"gated": "/gated"}


def _builds(folder: Path) -> tuple[Path, Mapping[str, str]]:
    """Play the demo of contracts and a build."""
    ran = run_aop(folder, "demo", "forge", "--keep", env={"TMPDIR": str(folder)})
    assert ran.code == 0, ran.err
    builds = {f"build-{tab}": f"/builds/{BUILD}/{tab}" for tab in BUILD_TABS}
    contracts = {
        "contract": "/contracts/seed-library/manifesto",
        "contract-changes": "/contracts/seed-library/manifesto?before=1&after=2",
        "drift": "/contracts/parcel-desk/drift",
    }
    return next(folder.glob("aop-demo-*/parcels")), {
        "builds": "/builds", "contracts": "/contracts", **builds, **contracts,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
