"""A program that is the coder of a team: it builds Notes with the tools of a coder, over MCP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.forge.builds.notes_app import PHASE_0, PHASE_1
from tests.mcpserver.clients import Mcp


class Host:
    """A program that builds Notes with the tools of a coder, and nothing else."""

    def __init__(self, client: Mcp) -> None:
        self._client = client

    def report(self, **event: Any) -> Any:
        return self._client.call("forge_report_progress", {"event": event} if event else {}).data

    def wait(self) -> Any:
        """Ask what comes next until it is the coder's turn, or the build is complete."""
        while (state := self.report())["at_work"] not in ("coder", "") or "being judged" in state["text"]:
            pass
        return state

    def write(self, files: Mapping[str, str]) -> None:
        for path, content in files.items():
            assert self._client.call("write_file", {"path": path, "content": content}).data["changed"]

    def phase(self, files: Mapping[str, str], tasks: list[str]) -> None:
        """Plan a phase, write it and say that its tasks are done."""
        plan = [{"number": number, "text": text} for number, text in enumerate(tasks, start=1)]
        assert "must call forge_get_phase_window" in self.report(type="plan", tasks=plan)["text"]
        self.write(files)
        for task in plan:
            self.report(type="task_done", number=task["number"])

    def sign_off(self, phase: int, evidence: list[dict[str, Any]]) -> Any:
        told = self.report(type="sign_off", phase=phase, tests="PASS", evidence=evidence)
        assert "being judged" in told["text"]
        return self.wait()


TASKS_0 = ["Write the store and its tests", "Write the application and its test"]
TASKS_1 = ["Answer for notes, and say how to run it"]
EVIDENCE_0 = [
    {"deliverable": 1, "paths": ["notes/store.py", "tests/test_store.py"]},
    {"deliverable": 2, "paths": ["notes/app.py", "tests/test_app.py"]},
]
EVIDENCE_1 = [
    {"deliverable": 1, "paths": ["notes/app.py", "tests/test_app.py"]},
    {"deliverable": 2, "paths": ["README.md"], "no_test_because": "it is prose"},
]


def build_notes(host: Host) -> Any:
    """Build both phases; return what the host is told at the end."""
    host.wait()
    host.phase(PHASE_0, TASKS_0)
    assert host.sign_off(0, EVIDENCE_0)["phase"] == 1
    host.phase(PHASE_1, TASKS_1)
    return host.sign_off(1, EVIDENCE_1)
