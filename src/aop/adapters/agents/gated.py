"""Agents that work one step at a time: a command that says what it wants called, or a program that calls it by MCP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from aop.adapters.agents.scratch_trees import scratch_at
from aop.adapters.agents.staff import acp_program, program_of, speaks_acp
from aop.adapters.agents.vendors.catalogue import VENDORS, AgentSession
from aop.adapters.agents.workers.acp_protocol import AcpTurn
from aop.adapters.agents.workers.acp_session import OVERLAY, AcpProgram
from aop.adapters.agents.workers.command import (
    SCHEMA,
    CustomCommand,
    Surroundings,
    TurnPatience,
    command_from,
    words_of,
)
from aop.adapters.agents.workers.gated_model import SteppingModel
from aop.adapters.agents.workers.model import ModelDesk
from aop.adapters.agents.workers.vendor_session import AgentProgram, SessionDesk
from aop.adapters.files.own_folders import held_folder
from aop.brains.ports import Brain
from aop.core.errors import NoUsableAnswer, NoWorkflow
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.text.json import MalformedText, parse_json
from aop.gated.driver import Agent, Given, TurnTaken, WantedCall
from aop.gated.session.documents import GatedWorkflow
from aop.kernel.config.agents import Provider
from aop.kernel.contracts.schemas import tool_schemas
from aop.kernel.gateway.calls import Kernel, Tool
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.ports.processes import Ended, Ending
from aop.kernel.record.documents.usage import Usage
from aop.supervisor.workers import ProviderChoice

_EXCERPT = 300
_HINT = 'Answer with one JSON object: {"calls": [{"tool": "...", "arguments": {...}}]}.'


def persona() -> str:
    """Return what an agent is told before anything else."""
    return (files("aop.gated") / "prompts" / "persona.md").read_text("utf-8")


class CallsWanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a command answers: the calls that are to be made for it, in this order."""

    calls: tuple[WantedCall, ...]
    usage: Usage | None = None
    note: str = ""


class CommandAgent:
    """Implements `aop.gated.driver.Agent` with a command that is started once a turn."""

    provider = "custom"

    def __init__(self, argv: tuple[str, ...], around: Surroundings, model: str | None, tools: tuple[Tool, ...]) -> None:
        self._argv = argv
        self._around = around
        self.model = model
        self._tools = [
            {"name": tool.name, "description": tool.summary, "input_schema": tool_schemas(tool)[0]} for tool in tools
        ]

    def turn(self, given: Given) -> TurnTaken:
        asked = {
            "schema": SCHEMA,
            "role": Role.SWE,
            "feature_id": given.feature_id,
            "model": self.model,
            "instructions": persona(),
            "task": given.task,
            "last_tool_results": given.last_tool_results,
            "tools": self._tools,
        }
        around = replace(self._around, patience=_within(self._around.patience, given.seconds))
        said = CustomCommand(self._argv, around).answer(msgspec.json.encode(asked), given.feature_id, Role.SWE)
        wanted = _calls_of(said)
        return TurnTaken(calls=wanted.calls, usage=wanted.usage, note=wanted.note)


def _within(patience: TurnPatience, seconds: float) -> TurnPatience:
    return replace(patience, seconds=max(1.0, min(patience.seconds, seconds)))


def _calls_of(said: bytes) -> CallsWanted:
    try:
        wanted: CallsWanted = msgspec.convert(parse_json(said.decode()), CallsWanted)
    except (UnicodeDecodeError, MalformedText, msgspec.ValidationError) as error:
        excerpt = said[:_EXCERPT].decode(errors="replace")
        raise NoUsableAnswer(f"The agent's answer names no calls: {error}.", hint=_HINT, begins_with=excerpt) from error
    return wanted


class SessionAgent:
    """Implements `aop.gated.driver.Agent` with a program of a vendor's: it works until it ends by itself.

    It stands in an empty folder and has no tools of its own, so that what it sees and what it changes is the server's.
    """

    def __init__(self, program: AgentProgram, model: str | None, config_ref: str | None) -> None:
        self._program = program
        self.provider: str = program.vendor.provider
        self.model = model
        self._config_ref = config_ref

    def turn(self, given: Given) -> TurnTaken:
        desk = self._program.desk
        program = replace(self._program, desk=replace(desk, patience=_within(desk.patience, given.seconds)))
        with (
            program.desk.token(Role.SWE, given.feature_id) as token,
            desk.access(program.vendor, given.feature_id, Role.SWE, self._config_ref) as meter,
        ):
            ended = self._worked(program, given, token, (meter.base_url, meter.placeholder_key))
        usage = meter.report().turn_usage
        _refuse_unstarted(ended, usage)
        return TurnTaken(usage=usage, note=_how(ended))

    def _worked(self, program: AgentProgram, given: Given, token: str, model: tuple[str, str]) -> Ended:
        desk = program.desk
        desk.private.mkdir(parents=True, exist_ok=True)
        with held_folder(desk.private) as folder:
            tree = folder / "empty"
            tree.mkdir()
            session = AgentSession(
                role=Role.SWE,
                model=self.model,
                home=folder / "home",
                tree=tree,
                mcp_url=desk.mcp_url,
                token=token,
                model_url=model[0],
                model_key=model[1],
                enclosed=program.desk.is_enclosed(),
            )
            return program.ran(
                session,
                folder,
                _told(program.vendor.overlay.replace("submit_plan", "get_task"), given),
                given.feature_id,
            )


class AcpAgent:
    """Implements `aop.gated.driver.Agent` with an agent of the user's that speaks the Agent Client Protocol.

    As the programs of vendors, it stands in an empty folder: what it changes by itself is nobody's.
    """

    provider = "custom"

    def __init__(self, seated: Callable[[SessionDesk], AcpProgram], desk: SessionDesk, model: str | None) -> None:
        self._seated = seated
        self._desk = desk
        self.model = model

    def turn(self, given: Given) -> TurnTaken:
        desk = replace(self._desk, patience=_within(self._desk.patience, given.seconds))
        program = self._seated(desk)
        desk.private.mkdir(parents=True, exist_ok=True)
        with desk.token(Role.SWE, given.feature_id) as token, held_folder(desk.private) as folder:
            tree = folder / "empty"
            tree.mkdir()
            asked = AcpTurn(
                prompt=_told(OVERLAY, given),
                tree=str(tree),
                mcp_url=desk.mcp_url,
                token=token,
                model=self.model,
                edits=False,
                shell=False,
                is_over=program.cap(given.feature_id),
            )
            spoken = program.spoken(asked, Role.SWE, given.feature_id, folder)
        if spoken.broken is not None:
            spoken.broken.facts["usage"] = msgspec.to_builtins(spoken.usage)
            raise spoken.broken
        _refuse_unstarted(spoken.ended, spoken.usage)
        return TurnTaken(usage=spoken.usage, note=_how(spoken.ended))


def _told(names: str, given: Given) -> str:
    here = "All these tools are those of the MCP server `aop`. You have no others, and no files of your own."
    return "\n\n".join([persona(), here, names, f"You work on `{given.feature_id}`. Begin with `get_task`."]) + "\n"


def _refuse_unstarted(ended: Ended, usage: Usage) -> None:
    if ended.ending is Ending.NOT_STARTED:
        facts: Mapping[str, Any] = {"usage": msgspec.to_builtins(usage)}
        raise NoUsableAnswer(f"The agent did not start: {ended.problem}", ending=ended.ending, **facts)


def _how(ended: Ended) -> str:
    if ended.ending is Ending.EXITED:
        return f"The agent ended with {ended.exit_code}."
    return f"The agent was ended: {ended.problem}"


class GatedAgents:
    """What an agent is made of, whichever somebody chooses."""

    def __init__(
        self,
        environ: Mapping[str, str],
        around: Surroundings,
        desk: SessionDesk,
        gateway: Gateway,
        brain: Callable[[str | None], Brain],
    ) -> None:
        self._environ = environ
        self._around = around
        self._desk = desk
        self._gateway = gateway
        self._brain = brain

    def chosen(self, choice: ProviderChoice) -> Agent:
        """Return the agent that somebody chose.

        Raises: ProviderAuthMissing, AgentProviderNotConfigured, and the refusals of a model that is not configured.
        """
        if choice.provider == Provider.MODEL:
            return self._model(choice.model)
        vendor = VENDORS.get(Provider(choice.provider))
        if vendor is not None:
            program = program_of(vendor, choice, self._environ, self._desk)
            return SessionAgent(program, choice.model, choice.provider_config_ref)
        command = command_from(self._environ, choice.provider_config_ref)
        if speaks_acp(choice, self._environ):
            return AcpAgent(partial(acp_program, command, self._environ), self._desk, choice.model)
        own = tuple(tool for tool in self._gateway.tools.values() if Role.SWE in tool.roles)
        return CommandAgent(words_of(command), self._around, choice.model, own)

    def _model(self, model: str | None) -> SteppingModel:
        around = self._around
        desk = ModelDesk(
            gateway=self._gateway,
            scratches=self._desk.scratches,
            logs=around.logs,
            seconds=around.patience.seconds,
        )
        return SteppingModel(self._brain(model), model, desk, persona())


def workflow_scratch(kernel: Kernel) -> Callable[[FeatureId], AbstractContextManager[Path]]:
    """Return what gives a copy of a workflow's tree that is gone afterwards."""

    @contextmanager
    def scratch(name: FeatureId) -> Iterator[Path]:
        with kernel.record.read() as view:
            known = view.get(GatedWorkflow, name)
        if known is None:
            raise NoWorkflow(f"There is no workflow `{name}`.")
        with scratch_at(kernel.git, known.base_commit, known.tree) as made:
            yield made.folder

    return scratch
