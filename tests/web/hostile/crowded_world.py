"""Crowded world: a repository in which everything that others write is a payload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from aop.core.roles import Role
from aop.forge.contracts.types import ContractType
from aop.tickets.scaffold_plan import ScaffoldPlan
from aop.web.pages.feature.feature import TABS as FEATURE_TABS
from aop.web.pages.page_list import PAGES
from aop.web.pages.work.builds import TABS as BUILD_TABS
from tests.cli.tickets.test_ticket import Place
from tests.forge.broker.shelves import edit
from tests.forge.builds.cycles import begun, coder, commit
from tests.forge.sample_contracts import CONTRACTS
from tests.gated.agents import RUN as RUN_TESTS
from tests.gated.agents import Agent, active_pr, gated_repository
from tests.tickets.local_worlds import KEY
from tests.tickets.mission.test_blocks import BLOCK, fenced
from tests.tickets.recorded_plans import record_plan
from tests.tickets.test_plans_and_modes import file
from tests.web.hostile.payloads import FILE_NAMES, PAYLOADS
from tests.world import World, files

FEATURE, BUILD, PROJECT, CONTRACT = "one", "shop-b1", "shop", ContractType.MANIFESTO
RUN = "RUN"
"""Stands in an address for the run of a ticket, whose id is made anew each time."""
_PARTS = {
    "feature_id": (FEATURE,),
    "project_id": (PROJECT,),
    "contract_type": (CONTRACT,),
    "build_id": (BUILD,),
    "run_id": (RUN,),
}
_TABS = {"/features/": FEATURE_TABS, "/builds/": BUILD_TABS}
NUMBERED = tuple(f"{number}: {text}" for number, text in enumerate(PAYLOADS.values(), start=1))
"""The payloads; the number tells which one a page shows."""
SHORT = tuple(text for text in NUMBERED if len(text) < 120)
FEW = {"hypothesize_max": 1, "instrumentation_max": 1, "unlock_scope_reduction_at": 2, "unlock_escalation_at": 2}


def addresses() -> tuple[str, ...]:
    """Return the address of every page, with two versions of a contract compared; `at` completes it."""
    return (*_filled(), f"/contracts/{PROJECT}/{CONTRACT}?before=1&after=2")


def _filled() -> Iterator[str]:
    for page in PAGES:
        words = [part[1:-1].partition(":")[0] for part in page.path.split("/") if part.startswith("{")]
        tabs = next((tabs for start, tabs in _TABS.items() if page.path.startswith(start)), ())
        for values in product(*(_PARTS.get(word) or tabs for word in words)):
            path = page.path
            for value in values:
                start, end = path.index("{"), path.index("}")
                path = path[:start] + value + path[end + 1 :]
            yield path


class CrowdedWorld(World):
    """A repository in which everything that others write is a payload."""

    ticket_run = ""

    def at(self, address: str) -> str:
        """Return an address with the run of the ticket in it."""
        return address.replace(RUN, self.ticket_run)


def crowded_world(folder: Path) -> CrowdedWorld:
    """Make a repository with payloads in every place that an agent, a model, a ticket or a file name can fill."""
    prints = "cat src/a.txt; test ! -e src/broken.txt\n"
    world = CrowdedWorld(gated_repository(folder, extra={"tests/test_begin.sh": prints}, gated=FEW))
    _features(world)
    _build(world)
    _workflow(world)
    _ticket(world, folder.parent / "tickets")
    return world


def _features(world: World) -> None:
    """Fill spec, plan, file names, lines, gate logs, questions, notes and reasons."""
    lines = [line for text in NUMBERED for line in text.splitlines() if "\x00" not in line]
    _spec(world.root, lines)
    names = tuple(f"src/{name}" for name in FILE_NAMES)
    plan = {"summary": NUMBERED[0], "acceptance_criteria": list(NUMBERED), "risk": list(NUMBERED)}
    world.plan(FEATURE, files=files(create=(*names, "src/broken.txt"), modify=("src/a.txt",)), **plan)
    world.patch(FEATURE, _diff(lines, (*names, "src/broken.txt")))
    world.call("gates.run", feature_id=FEATURE, mode="fast")
    for text in NUMBERED:
        world.ok("feature.log_append", role=Role.BUILDER, feature_id=FEATURE, note=text)
    for start in range(0, len(NUMBERED), 20):
        chosen = [text[:200] for text in NUMBERED[start : start + 20]]
        text = "\n".join(NUMBERED[start : start + 20])
        world.ok("inbox.ask", feature_id=FEATURE, gate="question", text=text[:4000], choices=chosen)
    world.ok("feature.request_changes", feature_id=FEATURE, text="\n".join(NUMBERED[:20]))
    world.plan("two", files=files(create=("src/two.txt",)))
    version = world.ok("feature.state_get", feature_id="two")["front_matter"]["version"]
    patch = {"status": "blocked", "status_reason": NUMBERED[7]}
    world.ok("feature.state_patch", feature_id="two", expected_version=version, patch=patch)


def _build(world: World) -> None:
    """Fill two versions of a contract, and the question, errors, commits and notes of a build."""
    begun(world, PROJECT)
    text = "\n\n".join((CONTRACTS[CONTRACT], *NUMBERED))
    edit(world, PROJECT, CONTRACT, text)
    words = "\n".join(SHORT)
    asked = {"question": words[:200], "context": words[200:500], "options": list(SHORT[:4])}
    answer = world.app.gateway.call(coder(BUILD), "forge_ask_clarification", asked)
    assert answer.ok, answer.error
    names = [f"src/{name}" for name in FILE_NAMES]
    errors = [
        {"message": text[:500], "phase": 0, "file_path": names[number % len(names)], "source": "test"}
        for number, text in enumerate(NUMBERED)
    ]
    world.ok("forge.error_track", build_id=BUILD, errors=errors)
    world.ok("forge.note_put", project_id=PROJECT, content="\n".join(NUMBERED))
    for number, text in enumerate(NUMBERED[:10]):
        assert commit(world, path=names[number % len(names)], subject=text[:60], text=text).ok


def _workflow(world: World) -> None:
    """Fill the plan, the summaries and the call for help of a workflow of one agent."""
    world.ok("gated.start", feature_id="gated")
    agent = Agent(world)
    agent.plan(active_pr("feat: Say one", *SHORT[:20]))
    agent.task()
    for text in (NUMBERED[7], NUMBERED[12]):
        agent.submit(test_command=RUN_TESTS, expectation="FAIL", summary=text)
    agent.call("escalate_for_external_help", markdown_report="# Stuck\n\n" + "\n\n".join(NUMBERED))


def _ticket(world: CrowdedWorld, folder: Path) -> None:
    """Fill the description of a ticket and the plan of a model, dry and for real, with LOCAL and a recorded model."""
    more = "\n\n" + "\n\n".join(SHORT)
    place = Place(folder, fenced(BLOCK) + more)
    place.repo = world.root
    plan = ScaffoldPlan(
        files=tuple(file(f"src/orders/evil_{number}.txt", text) for number, text in enumerate(SHORT[:20])),
        summary="\n".join(SHORT)[:2000],
    )
    record_plan(Path(place.env["AOP_MODEL_REPLAY"]), plan, more=more)
    assert place.aop("scaffold", KEY, "--dry-run").code == 0
    ran = place.aop("scaffold", KEY, "--json")
    assert ran.code == 0, ran.err
    world.ticket_run = ran.json["data"]["run"]


def _spec(root: Path, lines: Sequence[str]) -> None:
    spec = root / "agentic/features" / FEATURE / "spec.md"
    spec.parent.mkdir(parents=True)
    spec.write_text("# A spec\n\n" + "".join(f"- It must {line}\n" for line in lines))


def _diff(lines: Sequence[str], names: Sequence[str]) -> str:
    changed = f"--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,{len(lines)} @@\n-one\n-two\n-three\n"
    changed += "".join(f"+{line}\n" for line in lines)
    return changed + "".join(
        f"--- /dev/null\n+++ {_quoted('b/' + name)}\n@@ -0,0 +1,1 @@\n+{lines[0]}\n" for name in names
    )


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if '"' in name else name
