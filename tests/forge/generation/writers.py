"""Models that write the contracts of the demo: scripts, endpoints of every family, and projects to write for."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from aop.adapters.projects.sample_repository import sample_files
from aop.core.ids import CommitId, ObjectId
from aop.core.text.yaml import parse_yaml
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType, file_name
from aop.forge.projects.documents import ForgeProject, ScoutRun
from aop.kernel.record.documents.base import revise
from tests.brains.endpoints import Call, Endpoint, Step
from tests.brains.subjects import KEY, MODELS
from tests.world import World, make_repository, run_aop

DEMO = Path(str(files("aop.cli.begin") / "demo_forge"))
SUBMIT = "submit_contract"
NAMES = {"greenfield": "Seed Library", "scout": "Parcel Desk"}
PROJECTS = {"greenfield": "seed-library", "scout": "parcel-desk"}
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

SCAN: Mapping[str, Any] = {
    "stack_profile": {"primary_language": "python", "backend": "Flask 1.1.4", "frontend": "none", "testing": "pytest"},
    "architecture": {
        "packages": [
            {
                "path": "parcels/web",
                "lines": 33,
                "functions": 5,
                "classes": 0,
                "layer": 1,
                "imports": ["parcels/db"],
                "modules": [{"name": "app.py", "lines": 33, "functions": 5, "classes": 0}],
            },
            {"path": "parcels/db", "lines": 50, "functions": 3, "classes": 2, "layer": 0, "imports": [], "modules": []},
        ],
    },
    "routes": [{"method": "GET", "path": "/parcels", "file": "parcels/web/app.py", "line": 15}],
    "tables": [{"name": "parcels", "columns": ["id", "shelf"], "file": "parcels/db/models.py", "line": 7}],
    "dossier": {
        "executive_summary": "A small desk application on old versions.",
        "intent": "Keeps track of parcels.",
        "quality_assessment": {"score": 61, "strengths": ["layers"], "weaknesses": ["few tests"]},
        "risk_areas": [{"area": "versions", "severity": "high", "detail": "Flask 1.1.4"}],
        "recommendations": [{"priority": 1, "suggestion": "Renew Flask"}],
    },
    "checks": [
        {"code": "A4", "name": "layers", "result": "fail", "detail": "parcels/web/app.py:32 opens the database"}
    ],
}
PLAN: Mapping[str, Any] = {
    "executive_brief": {
        "health_grade": "D",
        "headline": "Old versions, sound layers",
        "top_priorities": ["Flask", "SQLAlchemy", "tests"],
        "risk_summary": "Unsupported packages",
        "forge_automation_note": "Two tasks can be automated.",
    },
    "migration_recommendations": [
        {"id": "M1", "from_state": "Flask 1.1.4", "to_state": "Flask 3.1", "priority": 1, "effort": "medium",
         "forge_automatable": True},
    ],
    "version_report": {"outdated": [{"package": "Flask", "current": "1.1.4", "latest": "3.1"}], "current": []},
}  # fmt: skip


def contract_of(flow: str, contract_type: ContractType) -> str:
    """Return the text that the demo's model hands in."""
    return (DEMO / flow / "contracts" / file_name(contract_type)).read_text("utf-8")


def gathering(flow: str, contract_type: ContractType) -> tuple[Call, ...]:
    """Return the calls by which the demo's model learns what it needs."""
    script: Any = parse_yaml((DEMO / flow / "script.yaml").read_bytes()).value
    return tuple((name, given) for row in script[contract_type] for name, given in row.items())


def steps_of(flow: str, contract_type: ContractType) -> tuple[Step, Step]:
    """Return the two replies of a mission."""
    content = contract_of(flow, contract_type)
    return Step(calls=gathering(flow, contract_type)), Step(calls=((SUBMIT, {"content": content}),))


Reply = Callable[[ContractType, int], Step]


class WriterEndpoint(Endpoint):
    """A provider whose replies follow from the request alone, so that processes can come and go."""

    def __init__(self, family: str, reply: Reply) -> None:
        super().__init__(family, [])
        self._reply = reply
        self.asked: list[tuple[ContractType, int]] = []
        self.texts: list[str] = []
        self._lock = threading.Lock()

    def next_step(self) -> Step:
        with self._lock:
            text = json.dumps(self.heard[-1].body, ensure_ascii=False)
            found = re.search(r"Write contract [1-9] of 9: `([a-z_]+)`", text)
            assert found, text[:500]
            each, turn = ContractType(found.group(1)), 1 + replies_in(self.heard[-1].body)
            self.asked.append((each, turn))
            self.texts.append(text)
            return self._reply(each, turn)


def replies_in(body: Any) -> int:
    """Return how many replies of the model a request holds, in the protocol of any family."""
    turns = body.get("messages") or body.get("contents")
    if turns is not None:
        return sum(turn["role"] in ("assistant", "model") for turn in turns)
    kinds = [item.get("type") if item.get("role") != "assistant" else "function_call" for item in body["input"]]
    return sum(kind == "function_call" and before != kind for before, kind in zip(["", *kinds], kinds, strict=False))


def written(flow: str) -> Reply:
    """Return the replies of the demo's model."""
    return lambda each, turn: steps_of(flow, each)[min(turn, 2) - 1]


@contextmanager
def writing(family: str, reply: Reply) -> Iterator[WriterEndpoint]:
    """Serve a model that writes contracts."""
    server = WriterEndpoint(family, reply)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def env_for(family: str, server: Endpoint) -> dict[str, str]:
    """Return the environment in which `aop forge generate` asks this server."""
    from aop.adapters.models.endpoints import PROVIDERS

    provider = PROVIDERS[family]
    return {
        "FORGE_LLM_MODEL_PRIORITY": MODELS[family],
        provider.key_variables[0]: KEY,
        provider.url_variable: server.url,
        "AOP_MODEL_RETRIES": "0",
    }


def answered_project(root: Path) -> str:
    """Make the greenfield project of the demo, with all answers; return its id."""
    assert run_aop(root, "forge", "new", NAMES["greenfield"]).code == 0
    asked = run_aop(root, "forge", "ask", PROJECTS["greenfield"], "--from", str(DEMO / "greenfield/answers.yaml"))
    assert asked.code == 0, asked.err
    return PROJECTS["greenfield"]


def scanned_project(root: Path) -> str:
    """Make the scanned project of the demo in its repository, with its renovation plan; return its id."""
    for words in (("new", NAMES["scout"]), ("scan", PROJECTS["scout"]), ("plan", PROJECTS["scout"])):
        ran = run_aop(root, "forge", *words)
        assert ran.code == 0, ran.err
    return PROJECTS["scout"]


def unready_project(root: Path, **changes: Any) -> str:
    """Make a project with a scan that is recorded as it is told; return its id."""
    assert run_aop(root, "forge", "new", NAMES["scout"]).code == 0
    project_id, world = PROJECTS["scout"], World(root)
    try:
        now = world.app.gateway.kernel.now()
        given: dict[str, Any] = {"results": SCAN, "plan": PLAN, **changes}
        run = ScoutRun(
            version=1, run_id="scan-1", project_id=project_id, head_sha=CommitId(ObjectId("0" * 40)), created_at=now,
            updated_at=now, **given,
        )  # fmt: skip
        with world.app.record.write() as tx:
            project = tx.get(ForgeProject, project_id)
            assert project is not None
            tx.put(run, run.run_id)
            tx.put(revise(project, flow="scout", scan_run=run.run_id), project_id)
    finally:
        world.close()
    return project_id


def new_project(flow: str, root: Path) -> str:
    """Make a repository and a project of a flow; return the id of the project."""
    if flow == "greenfield":
        return answered_project(make_repository(root))
    texts = {name: content.decode() for name, content in sample_files(DEMO / "scout" / "repository").items()}
    return scanned_project(make_repository(root, texts))


def digests_in(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of each contract that a generation stored."""
    return {each["contract_type"]: each["sha256"] for each in data["contracts"]}


ALL_TURNS = [(each, turn) for each in CONTRACT_TYPES for turn in (1, 2)]
