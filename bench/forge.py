"""What reading a contract costs over HTTP, by a route and by a tool over MCP; and what writing one costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from statistics import median

import httpx2

from aop.cli.begin.demo_contracts import DATA, rehearsed_brain
from aop.core.digests import sha256_hex
from aop.core.roles import Role
from aop.core.text.yaml import parse_yaml
from aop.forge.contracts.types import CONTRACT_TYPES
from aop.forge.projects.documents import (
    BatchEntry,
    ContractBatch,
    ContractVersion,
    ForgeKey,
    ForgeProject,
    batch_digest,
    batch_key,
    contract_key,
)
from aop.forge.projects.keys import key_digest, key_prefix
from aop.kernel.gateway.tokens import TokenOrder
from aop.wiring.forge.generation import ContractGeneration
from bench.bare import NOTHING
from bench.effort import Effort
from bench.mcp import AOP, BARE, connected_over_http, serving
from bench.measurements import Budget, Measurement, in_turns
from bench.scenes import Scene

KEY = "fg_" + "bench" * 8
NOW = "2026-01-02T08:00:00.000Z"
VERSIONS = 50
LINE = "A line of a contract, about as long as such lines are, with some words in it.\n"
CONTENT = LINE * 40
ROUTES = ("/api/mcp/context/p0", "/api/mcp/context/p0/physics")


def forge(effort: Effort) -> Iterator[Measurement]:
    """Measure the routes of contexts and the tool, with one project and with 200 of 50 versions each."""
    with closing(Scene(effort.folder, files=20)) as scene:
        for first, last, among in ((0, 1, "1 project"), (1, 200, "200 projects")):
            put_projects(scene, first, last)
            yield from _routes(scene, effort, among)
            yield _tool(scene, effort, among)
        yield _generation(scene, effort)


def _generation(scene: Scene, effort: Effort) -> Measurement:
    """Measure nine contracts, each in two turns of a model that answers at once."""
    answers = parse_yaml((DATA / "greenfield" / "answers.yaml").read_bytes()).value
    taken = []
    for number in range(effort.slow_turns + 1):
        project = scene.call("forge.project_new", name=f"Seed {number}")["project_id"]
        scene.call("forge.answer", project_id=project, answers=answers)
        generation = ContractGeneration(scene.app, scene.app.person, project, lambda _line: None)
        began = time.perf_counter()
        stored = generation.generate(rehearsed_brain("greenfield"))
        turns = sum(used["turns"] for used in stored["usage"].values())
        taken.append((time.perf_counter() - began) * 1000 / turns)
    return Measurement(
        name="nine contracts, a model that answers at once, each turn",
        ours=median(taken[1:]),
        budget=Budget("at most", 20.0),
    )


def _tool(scene: Scene, effort: Effort, among: str) -> Measurement:
    order = TokenOrder(role=Role.SCOUT, project_id="p0")
    token = scene.app.tokens.issue(order, by="person:bench").text
    serve = (*AOP, "serve", "--port", "0", "--json", "--repo", str(scene.root))
    with connected_over_http(serve, token) as ours, connected_over_http((*BARE, "http"), "none") as bare:
        took, floor = in_turns(
            lambda _: ours("forge_get_project_contract", {"contract_type": "physics"}),
            lambda _: bare(NOTHING, {}),
            turns=effort.turns * 8,
        )
    return Measurement(
        name=f"forge_get_project_contract over MCP, HTTP, {among}",
        ours=took,
        floor=floor,
        floor_name="an empty tool",
        budget=Budget("over", 2.0),
    )


def _routes(scene: Scene, effort: Effort, among: str) -> Iterator[Measurement]:
    with (
        serving((*AOP, "serve", "--port", "0", "--json", "--repo", str(scene.root))) as url,
        httpx2.Client(base_url=url.removesuffix("/mcp"), headers={"Authorization": f"Bearer {KEY}"}) as ours,
    ):
        for path in ROUTES:
            body = ours.get(path).raise_for_status().content
            (scene.root / "body").write_bytes(body)
            with serving((*BARE, "bytes", str(scene.root / "body"))) as bare, httpx2.Client() as floor:
                took, same = in_turns(
                    lambda _, path=path: ours.get(path).raise_for_status(),  # type: ignore[misc]
                    lambda _, bare=bare: floor.get(bare).raise_for_status(),  # type: ignore[misc]
                    turns=effort.turns * 8,
                )
            yield Measurement(
                name=f"GET {path}, {among}",
                ours=took,
                floor=same,
                floor_name="a bare route",
                budget=Budget("times", 3.0),
            )


def put_projects(scene: Scene, first: int, last: int) -> None:
    """Put projects with all their versions into the record, as many edits would."""
    with scene.app.record.write() as tx:
        if first == 0:
            tx.put(
                ForgeKey(version=1, prefix=key_prefix(KEY), sha256=key_digest(KEY), owner="local", created_at=NOW),
                key_prefix(KEY),
            )
        for number in range(first, last):
            name = f"p{number}"
            tx.put(
                ForgeProject(
                    version=1,
                    project_id=name,
                    name=name,
                    status="contracts_generated",
                    created_at=NOW,
                    updated_at=NOW,
                    batch=VERSIONS,
                ),
                name,
            )
            for version in range(1, VERSIONS + 1):
                content = f"{name}, version {version}.\n{CONTENT}"
                digest = sha256_hex(content.encode())
                for each in CONTRACT_TYPES:
                    tx.put(
                        ContractVersion(
                            version=1,
                            project_id=name,
                            contract_type=each,
                            number=version,
                            content=content,
                            sha256=digest,
                            author="generated",
                            created_at=NOW,
                        ),
                        contract_key(name, each, version),
                    )
                entries = {each: BatchEntry(number=version, sha256=digest) for each in CONTRACT_TYPES}
                tx.put(
                    ContractBatch(
                        version=1,
                        project_id=name,
                        number=version,
                        contracts=entries,
                        sha256=batch_digest(entries),
                        created_at=NOW,
                    ),
                    batch_key(name, version),
                )
