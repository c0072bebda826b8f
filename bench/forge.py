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
LINE = "A line of a contract, about as long as such lines are, with some words in it.\n"
CONTENT = LINE * 40
ROUTES = ("/api/mcp/context/p0", "/api/mcp/context/p0/physics")


def forge(effort: Effort) -> Iterator[Measurement]:
    """Measure the routes of contexts and the tool, with one project and with many, each of many versions."""
    with closing(Scene(effort.folder, files=20)) as scene:
        present = 0
        for count in effort.projects:
            put_projects(scene, present, count, versions=effort.versions)
            present, among = count, "1 project" if count == 1 else f"{count} projects"
            with serving((*AOP, "serve", "--port", "0", "--json", "--repo", str(scene.root))) as url:
                yield from _routes(url, effort, among)
                yield _tool(url, scene, effort, among)
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


def _tool(url: str, scene: Scene, effort: Effort, among: str) -> Measurement:
    order = TokenOrder(role=Role.SCOUT, project_id="p0")
    token = scene.app.tokens.issue(order, by="person:bench").text
    with (
        serving((*BARE, "http")) as bare_url,
        connected_over_http(url, token) as ours,
        connected_over_http(bare_url, "none") as bare,
    ):
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


def _routes(url: str, effort: Effort, among: str) -> Iterator[Measurement]:
    with httpx2.Client(base_url=url.removesuffix("/mcp"), headers={"Authorization": f"Bearer {KEY}"}) as ours:
        bodies = [effort.folder / f"body-{number}" for number in range(len(ROUTES))]
        for path, body in zip(ROUTES, bodies, strict=True):
            body.write_bytes(ours.get(path).raise_for_status().content)
        with serving((*BARE, "bytes", *map(str, bodies))) as bare, httpx2.Client() as floor:
            for path, body in zip(ROUTES, bodies, strict=True):
                same_bytes = bare.removesuffix("/mcp") + f"/{body.name}"
                took, same = in_turns(
                    lambda _, path=path: ours.get(path).raise_for_status(),  # type: ignore[misc]
                    lambda _, url=same_bytes: floor.get(url).raise_for_status(),  # type: ignore[misc]
                    turns=effort.turns * 8,
                )
                yield Measurement(
                    name=f"GET {path}, {among}",
                    ours=took,
                    floor=same,
                    floor_name="a bare route",
                    budget=Budget("times", 3.0),
                )


def put_projects(scene: Scene, first: int, last: int, *, versions: int) -> None:
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
                    batch=versions,
                ),
                name,
            )
            for version in range(1, versions + 1):
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
