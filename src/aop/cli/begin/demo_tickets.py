"""`aop demo tickets`: from a ticket to a reviewed merge request."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aop.adapters.git.repository import open_repository
from aop.adapters.models.rehearsed import RehearsedBrain
from aop.adapters.projects.sample_repository import sample_files
from aop.adapters.storage.run_files import RunFiles
from aop.adapters.tickets.ledger import LEDGER, TicketLedger
from aop.adapters.tickets.sample import STANDARDS, SampleTickets, below
from aop.adapters.tickets.setup.assembly import ticket_desk
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.errors import Fault, Json
from aop.core.redaction.redactor import Redactor
from aop.core.text.counts import count
from aop.tickets.review.answer import TicketReview
from aop.tickets.runs.runner import PRODUCTS, TicketRunner
from aop.tickets.scaffold_plan import ScaffoldPlan

KEY = "SHOP-12"


def play(arguments: argparse.Namespace, terminal: Terminal, folder: Path) -> int:
    """Play the demo in a folder; report what LOCAL and git show afterwards."""
    began = time.monotonic()
    story = _Story(folder, terminal, began)
    report = story.play()
    report["seconds"] = round(time.monotonic() - began, 2)
    if not arguments.keep:
        terminal.say("Everything was removed. Keep it with: aop demo tickets --keep")
    return terminal.result(report, _report_text(report, keep=arguments.keep))


class _Story:
    """The acts of the demo, in order."""

    def __init__(self, folder: Path, terminal: Terminal, began: float) -> None:
        self._terminal = terminal
        self._began = began
        self._files = sample_files(Path(__file__).with_name("demo_ticket"))
        self._sample = SampleTickets(folder, os.environ)
        self._ledger = TicketLedger(self._sample.root / LEDGER)
        self._environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "VCS_PROVIDER": "LOCAL",
            "TRACKER_PROVIDER": "LOCAL",
            "KNOWLEDGE_PROVIDER": "LOCAL",
            "AOP_LOCAL_FOLDER": str(self._sample.local_folder),
            "WORKFLOW_STATE_INITIAL": "To Do",
            "WORKFLOW_STATE_SUCCESS": "In Review",
            "ARCHITECTURE_DOC_PAGE_ID": STANDARDS,
        }

    def play(self) -> dict[str, Any]:
        """Take the ticket from `To Do` to a reviewed merge request."""
        self._sample.make(KEY, self._files)
        open_repository(self._sample.root, os.environ).exclude_runtime_files()
        self._say(f"made a tracker, code hosting and documentation: {self._sample.local_folder}")
        self._say(f"{KEY}: {self._sample.ticket(KEY)['summary']}; aop ticket scaffold {KEY}")
        scaffolded = self._work("scaffold")
        request = scaffolded["merge_request"]
        self._say(f"{KEY}: branch {scaffolded['branch']}, commit {scaffolded['commit'][:12]}, {request['url']}")
        self._say(f"{KEY}: the ticket is `{self._sample.ticket(KEY)['status']}`; aop ticket review {KEY}")
        reviewed = self._work("review")
        verdict, findings = reviewed["report"]["verdict"], reviewed["report"]["findings"]
        dropped = len(msgspec.json.decode(self._files["report.json"])["findings"]) - len(findings)
        self._say(f"{KEY}: {verdict}, {count(len(findings), 'finding')}; dropped {dropped} that the diff contradicts")
        return self._read_back(scaffolded, reviewed["report"])

    def _work(self, kind: str) -> Mapping[str, Any]:
        redact = Redactor()
        with ticket_desk(self._environ, PRODUCTS[kind], RehearsedBrain(self._answers()), self._ledger, redact) as desk:

            async def work() -> Mapping[str, Any]:
                runner = TicketRunner(kind, desk, self._ledger, RunFiles(self._ledger.working_folder))
                run_id, ticket = await runner.start(KEY)
                return await runner.carry_out(run_id, KEY, ticket)

            ending = asyncio.run(work())
        if ending["outcome"] == "failed":
            raise CallRefused(ending["error"], {"step": ending["step"]})
        return ending

    def _answers(self) -> dict[type[msgspec.Struct], Json]:
        texts = below({path: content.decode() for path, content in self._files.items()}, "scaffold")
        files = [{"path": path, "name": Path(path).name, "content": text} for path, text in texts.items()]
        report: Json = msgspec.json.decode(self._files["report.json"])
        return {ScaffoldPlan: {"files": [*files], "summary": "A service of one module."}, TicketReview: report}

    def _read_back(self, scaffolded: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
        """Read everything back from LOCAL and git, which may not hold what was reported."""
        ticket = self._sample.ticket(KEY)
        request = self._sample.merge_request(scaffolded["merge_request"]["number"])
        commit = self._sample.fetch(scaffolded["branch"])
        written = " ".join(note["body"] for note in request["notes"])
        if commit != scaffolded["commit"]:
            raise Fault("The branch is not at the commit that was reported.")
        if not all(finding["description"] in written for finding in report["findings"]):
            raise Fault("The merge request does not have every finding that was reported.")
        return {
            "ticket": {"key": KEY, "status": ticket["status"], "comments": ticket["comments"]},
            "branch": scaffolded["branch"],
            "commit": commit,
            "merge_request": {"url": request["url"], "state": request["state"]},
            "review": {"verdict": report["verdict"], "findings": report["findings"]},
            "repository": str(self._sample.root),
            "run": self._ledger.runs()[-1]["run_id"],
        }

    def _say(self, line: str) -> None:
        self._terminal.say(f"{time.monotonic() - self._began:6.2f} s  {line}")


def _report_text(report: Mapping[str, Any], *, keep: bool) -> str:
    findings = [
        f"  {found['severity']:<8} {found['file_path']}:{found['line_number']}  {found['description']}"
        for found in report["review"]["findings"]
    ]
    root, request = shlex.quote(report["repository"]), report["merge_request"]
    around = [
        f"  git -C {root} show {report['branch']}",
        f"  aop ticket runs --repo {root}",
        f"  aop ticket show {report['run']} --repo {root}",
    ]
    return "\n".join(
        [
            f"\nDone in {report['seconds']} s. {KEY} is `{report['ticket']['status']}`, {request['url']}"
            f" is {request['state']}, and its review says {report['review']['verdict']}:",
            *findings,
            "Where to look:" if keep else "What to try next:",
            *(around if keep else ["  aop demo tickets --keep    the same, and keep everything"]),
            "  aop ticket --help    your own tickets",
        ]
    )
