"""Trial of a coding agent: one turn with one tool call, in a scratch repository."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from aop.adapters.agents.vendors.catalogue import Vendor, row_text
from aop.adapters.agents.workers.vendor_session import ModelChoice
from aop.adapters.config.locations import FOLDER
from aop.adapters.machine.clock import new_id
from aop.adapters.projects.sample_repository import SampleRepository
from aop.cli.shell.mcp_server import serve_mcp
from aop.core.errors import NoUsableAnswer
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.record.documents.usage import Usage
from aop.supervisor.providers import ROLES
from aop.supervisor.workers import Note, ProviderChoice, WorkerInput
from aop.wiring.agents import agent_staff, mcp_server_for
from aop.wiring.build import App, Settings, build

_FEATURE = FeatureId("trial")


class Trial(Struct, frozen=True, kw_only=True):
    """The result of one turn."""

    provider: str
    model: str | None
    seconds: float
    sandbox: str
    usage: Usage | None


def run_trial(
    vendor: Vendor, settings: Settings, log: Callable[[str], None], wanted: ModelChoice, *, uses_login: bool
) -> Trial:
    """Let an agent call one tool. Raises: NoUsableAnswer, AgentProviderNotConfigured, ProviderAuthMissing."""
    choice = ProviderChoice(provider=vendor.provider, model=wanted.model, provider_config_ref=wanted.config_ref)
    with tempfile.TemporaryDirectory(prefix="aop-agent-") as folder:
        sample = SampleRepository(Path(folder) / "repository", settings.environ)
        login = f"login: {{{vendor.provider}: true}}\n" if uses_login else ""
        row = f"{row_text(vendor)}{login}".encode()
        sample.make({"README.md": b"A repository to try an agent in.\n", f"{FOLDER}/agents.yaml": row})
        with build(sample.root, settings) as app:
            return _turn(app, log, choice)


def _turn(app: App, log: Callable[[str], None], choice: ProviderChoice) -> Trial:
    choices, word = dict.fromkeys(ROLES, choice), new_id("word")
    app.gateway.call(app.person, "feature.init", {"feature_id": _FEATURE})
    began = time.monotonic()
    with mcp_server_for(app, choices, serve_mcp, log) as mcp_url:
        worker = agent_staff(app, choices, mcp_url).worker(_FEATURE, Role.PLANNER)
        output = worker.turn(_trial_input(choice, word))
    if not isinstance(output, Note) or word not in output.note:
        raise NoUsableAnswer(f"`{choice.provider}` answered, but not with the note that was asked for.")
    kernel = app.gateway.kernel
    return Trial(
        provider=choice.provider,
        model=choice.model,
        seconds=time.monotonic() - began,
        sandbox=kernel.processes.sandbox_level(kernel.config().policy.execution.sandbox),
        usage=output.usage,
    )


def _trial_input(choice: ProviderChoice, word: str) -> WorkerInput:
    return WorkerInput(
        role=Role.PLANNER,
        feature_id=_FEATURE,
        context_bundle={},
        instructions=f"This is a trial: plan nothing. Call the tool `submit_note` with the note `{word}`, and end.",
        last_tool_results=(),
        provider=choice.provider,
        model=choice.model,
        provider_config_ref=choice.provider_config_ref,
    )
