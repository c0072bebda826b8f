"""Exclusion: the words of contracts that a file of the product may not hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aop.core.ids import OperationId
from aop.core.roles import Role
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.workspace.exclusion import contract_words_in
from aop.forge.contracts.types import ContractType
from aop.kernel.gateway.calls import Call
from aop.kernel.ports.git import FileMode
from tests.forge.broker.shelves import Agent
from tests.forge.builds.begun import begun
from tests.forge.builds.cycles import commit
from tests.forge.sample_contracts import CONTRACTS
from tests.kernel.tools.worlds import configured, state_of

PROSE = "The shop greets every guest by name before it shows the first of its many pages to them."
MANIFESTO = f"""# Manifesto

{PROSE}

```sql
CREATE TABLE guests (id INTEGER, name TEXT, street TEXT, town TEXT, country TEXT, born TEXT, seen TEXT, rank TEXT);
```

| one two three four five six seven eight nine ten eleven twelve thirteen |
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    world = configured(tmp_path_factory.mktemp("exclusion") / "repo", files={"docs/old.md": f"Said before: {PROSE}\n"})
    build = begun(world, "shop", {**CONTRACTS, ContractType.MANIFESTO: MANIFESTO})
    yield Agent(world, Role.CODER, project="shop", build=build)
    world.close()


def call_and_cycle(agent: Agent) -> tuple[Call, BuildCycle]:
    gateway, build = agent.world.app.gateway, agent.principal.build
    call = Call(
        kernel=gateway.kernel,
        principal=agent.principal,
        tool=gateway.tools["write_file"],
        operation_id=OperationId("op-look"),
        report=lambda _line: None,
    )
    with agent.world.app.record.read() as view:
        cycle = view.get(BuildCycle, str(build))
    assert cycle is not None
    return call, cycle


@pytest.mark.req("FORGE-058")
@pytest.mark.parametrize(
    ("path", "content", "found"),
    [
        ("README.md", f"# Shop\n\n{PROSE}\n", [("README.md", 3, "prose of manifesto")]),
        (
            "src/page.py",
            "# the shop greets every guest,\n# by name before it\n# shows the FIRST of its pages\n",
            [("src/page.py", 1, "prose of manifesto")],
        ),
        ("src/page.py", "# as forge_get_contract says\n", [("src/page.py", 1, "forge_get_contract")]),
        ("src/page.py", "x = 1\n# made in shop-b1\n", [("src/page.py", 2, "shop-b1")]),
        ("src/page.py", "# Greets every guest by name, and shows the first of its many pages.\n", []),
        ("src/page.py", "forge_get_contracts = 1\nshop-b12\n", []),
        ("schema.sql", MANIFESTO.split("```sql\n")[1].split("```", maxsplit=1)[0], []),
        ("docs/old.md", f"Said before: {PROSE}\nAnd more.\n", []),
    ],
    ids=["prose", "over comment lines", "tool", "build", "own words", "longer names", "schema", "baseline"],
)
def test_words_of_contracts_are_found_in_the_files_that_a_build_changed(
    agent: Agent, path: str, content: str, found: list[tuple[str, int, str]]
) -> None:
    call, cycle = call_and_cycle(agent)
    tree = call.kernel.git.objects.tree_with(
        state_of(agent.world, cycle.build_id).tree, {path: (FileMode.FILE, content.encode())}
    )
    assert [(each.path, each.line, each.found) for each in contract_words_in(call, cycle, tree)] == found


@pytest.mark.req("FORGE-058")
def test_a_commit_with_such_words_is_refused_and_names_the_places(agent: Agent) -> None:
    before = agent.world.fingerprint()
    error = commit(agent.world, path="docs/new.md", text=f"# Shop\n\n{PROSE}\n").error
    assert error is not None
    assert (error["code"], error["details"]["places"]) == (
        "contract_quoted",
        ["`docs/new.md` line 3 (prose of manifesto)"],
    )
    assert agent.world.fingerprint() == before
