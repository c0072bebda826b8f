"""Gated agents: a command, a vendor's program, an ACP agent or a model, per step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from aop.adapters.agents.model_access import model_provider_of
from aop.adapters.agents.scratch_trees import scratch_at
from aop.adapters.agents.staff import (
    acp_program,
    custom_acp_program,
    program_of,
    refuse_unpriced_model,
    speaks_acp,
    unpriced_model,
)
from aop.adapters.agents.vendors.catalogue import vendors_of
from aop.adapters.agents.vendors.launch import AgentSession
from aop.adapters.agents.workers.acp_protocol import AcpTurn
from aop.adapters.agents.workers.acp_session import AcpProgram
from aop.adapters.agents.workers.command import (
    SCHEMA,
    CommandContext,
    CustomCommand,
    TurnTimeouts,
    command_from,
    split_command,
)
from aop.adapters.agents.workers.gated_model import SteppingModel
from aop.adapters.agents.workers.model import ModelContext
from aop.adapters.agents.workers.vendor_session import (
    AgentProgram,
    ModelChoice,
    SessionContext,
    clearest_of,
    usage_of,
)
from aop.adapters.files.own_folders import held_folder
from aop.brains.ports import Brain
from aop.core.errors import AgentNotStarted, NoUsableAnswer, NoWorkflow, ProviderTrouble
from aop.core.exit_codes import exit_words
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.text.json import MalformedText, parse_json
from aop.gated.driver import Agent, TurnInput, TurnOutput, WantedCall
from aop.gated.session.documents import GatedWorkflow
from aop.kernel.config.agents import Provider
from aop.kernel.contracts.schemas import tool_schemas
from aop.kernel.gateway.calls import Kernel, Tool
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.ports.processes import CommandResult, Ending
from aop.kernel.record.documents.usage import Usage
from aop.supervisor.workers import ProviderChoice

if TYPE_CHECKING:  # it brings a web server along
    from aop.adapters.agents.logins.login_sessions import LoginSession
    from aop.adapters.models.metering.sessions import Meter

_EXCERPT = 300
_HINT = 'Answer with one JSON object: {"calls": [{"tool": "...", "arguments": {...}}]}.'


def persona() -> str:
    """Return the instructions that every gated agent gets first."""
    return (files("aop.gated") / "prompts" / "persona.md").read_text("utf-8")


class WantedCalls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer of a command: the tool calls to make for it, in this order."""

    calls: tuple[WantedCall, ...]
    usage: Usage | None = None
    note: str = ""


class CommandAgent:
    """Implements `aop.gated.driver.Agent` with a command that is started for each turn."""

    provider = "custom"

    def __init__(
        self, argv: tuple[str, ...], context: CommandContext, model: str | None, tools: tuple[Tool, ...]
    ) -> None:
        self._argv = argv
        self._context = context
        self.model = model
        self._tools = [
            {"name": tool.name, "description": tool.summary, "input_schema": tool_schemas(tool)[0]} for tool in tools
        ]

    def turn(self, given: TurnInput) -> TurnOutput:
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
        context = replace(self._context, timeouts=_capped(self._context.timeouts, given.seconds))
        output = CustomCommand(self._argv, context).answer(msgspec.json.encode(asked), given.feature_id, Role.SWE)
        wanted = _calls_of(output)
        return TurnOutput(calls=wanted.calls, usage=wanted.usage, note=wanted.note)


def _capped(timeouts: TurnTimeouts, seconds: float) -> TurnTimeouts:
    return replace(timeouts, seconds=max(1.0, min(timeouts.seconds, seconds)))


def _calls_of(output: bytes) -> WantedCalls:
    try:
        wanted: WantedCalls = msgspec.convert(parse_json(output.decode()), WantedCalls)
    except (UnicodeDecodeError, MalformedText, msgspec.ValidationError) as error:
        excerpt = output[:_EXCERPT].decode(errors="replace")
        raise NoUsableAnswer(f"The agent's answer names no calls: {error}.", hint=_HINT, begins_with=excerpt) from error
    return wanted


class SessionAgent:
    """Implements `aop.gated.driver.Agent` with a vendor's program, which runs until it exits.

    It runs in an empty folder without its own tools, so it reads and changes files only through the MCP server.
    """

    def __init__(self, program: AgentProgram, model: str | None, config_ref: str | None) -> None:
        self._program = program
        self.provider: str = program.vendor.provider
        self.model = model
        self._config_ref = config_ref

    def turn(self, given: TurnInput) -> TurnOutput:
        context = self._program.context
        program = replace(self._program, context=replace(context, timeouts=_capped(context.timeouts, given.seconds)))
        with (
            program.context.token(Role.SWE, given.feature_id) as token,
            context.model_access(
                program.vendor,
                given.feature_id,
                Role.SWE,
                ModelChoice(model=self.model, config_ref=self._config_ref),
            ) as access,
        ):
            ended = self._run_session(program, given, token, access)
            usage = usage_of(access)
            _refuse_unstarted(ended, usage)
            self._refuse_trouble(ended, access, usage)
        return TurnOutput(usage=usage, note=_ending_text(ended))

    def _refuse_trouble(self, ended: CommandResult, access: Meter | LoginSession, usage: Usage) -> None:
        """Refuse a turn that a trouble of the provider ended. Raises: ProviderTrouble."""
        if ended.ending is Ending.EXITED and not ended.exit_code:
            return
        failed = NoUsableAnswer(_ending_text(ended), ending=ended.ending, exit_code=ended.exit_code)
        clearest = clearest_of(failed, access, model_provider_of(self._program.vendor))
        if isinstance(clearest, ProviderTrouble):
            clearest.facts["usage"] = msgspec.to_builtins(usage)
            raise clearest

    def _run_session(
        self, program: AgentProgram, given: TurnInput, token: str, access: Meter | LoginSession
    ) -> CommandResult:
        context = program.context
        context.private.mkdir(parents=True, exist_ok=True)
        with held_folder(context.private) as folder:
            tree = folder / "empty"
            tree.mkdir()
            session = AgentSession(
                role=Role.SWE,
                model=self.model,
                home=folder / "home",
                tree=tree,
                mcp_url=context.mcp_url,
                token=token,
                model_url=access.base_url,
                model_key=access.placeholder_key,
                sandboxed=program.context.has_sandbox(),
            )
            prompt = _prompt_of(program.vendor.row.prompt.replace("submit_plan", "get_task"), given)
            return program.run(session, folder, prompt, given.feature_id, access=access)


class AcpAgent:
    """Implements `aop.gated.driver.Agent` with a custom agent that speaks the Agent Client Protocol.

    Like a vendor's program, it runs in an empty folder; changes that it makes there are discarded.
    """

    def __init__(
        self, provider: str, seated: Callable[[SessionContext], AcpProgram], context: SessionContext, model: str | None
    ) -> None:
        self.provider = provider
        self._program_for = seated
        self._context = context
        self.model = model

    def turn(self, given: TurnInput) -> TurnOutput:
        context = replace(self._context, timeouts=_capped(self._context.timeouts, given.seconds))
        program = self._program_for(context)
        context.private.mkdir(parents=True, exist_ok=True)
        with context.token(Role.SWE, given.feature_id) as token, held_folder(context.private) as folder:
            tree = folder / "empty"
            tree.mkdir()
            asked = AcpTurn(
                prompt=_prompt_of(program.prompt.replace("submit_plan", "get_task"), given),
                tree=str(tree),
                mcp_url=context.mcp_url,
                token=token,
                model=self.model,
                edits=False,
                shell=False,
                is_over=program.cap_check(given.feature_id),
            )
            result = program.run_turn(asked, Role.SWE, given.feature_id, folder)
        if result.broken is not None:
            result.broken.facts["usage"] = msgspec.to_builtins(result.usage)
            raise result.broken
        _refuse_unstarted(result.ended, result.usage)
        return TurnOutput(usage=result.usage, note=_ending_text(result.ended))


def _prompt_of(names: str, given: TurnInput) -> str:
    here = "All these tools belong to the MCP server `aop`. You have no other tools and no files."
    return "\n\n".join([persona(), here, names, f"You work on `{given.feature_id}`. Begin with `get_task`."]) + "\n"


def _refuse_unstarted(ended: CommandResult, usage: Usage) -> None:
    if ended.ending is Ending.NOT_STARTED:
        facts: Mapping[str, Any] = {"usage": msgspec.to_builtins(usage)}
        raise AgentNotStarted(f"The agent did not start: {ended.problem}", ending=ended.ending, **facts)


def _ending_text(ended: CommandResult) -> str:
    if ended.ending is Ending.EXITED:
        return f"The agent ended with {exit_words(ended.exit_code)}."
    return f"The agent was stopped: {ended.problem}"


def chosen_agent(
    choice: ProviderChoice,
    environ: Mapping[str, str],
    commands: CommandContext,
    sessions: SessionContext,
    *,
    gateway: Gateway,
    brain: Callable[[str | None], Brain],
) -> Agent:
    """Return the gated agent that a choice names.

    Raises: ProviderAuthMissing, AgentProviderNotConfigured, and the refusals of a model that is not configured.
    """
    vendors = vendors_of(sessions.kernel.config().agents, environ)
    refuse_unpriced_model(choice, sessions.kernel.config().policy.cost, unpriced_model(choice, vendors, environ))
    if choice.provider == Provider.MODEL:
        seconds = commands.timeouts.seconds
        context = ModelContext(gateway=gateway, scratches=sessions.scratches, logs=commands.logs, seconds=seconds)
        return SteppingModel(brain(choice.model), choice.model, context, persona())
    vendor = vendors.get(choice.provider)
    if vendor is not None and vendor.speaks_acp:
        return AcpAgent(vendor.provider, partial(acp_program, vendor, choice, environ), sessions, choice.model)
    if vendor is not None:
        program = program_of(vendor, choice, environ, sessions)
        return SessionAgent(program, choice.model, choice.provider_config_ref)
    command = command_from(environ, choice.provider_config_ref)
    if speaks_acp(choice, environ):
        return AcpAgent(choice.provider, partial(custom_acp_program, command, environ, vendors), sessions, choice.model)
    own = tuple(tool for tool in gateway.tools.values() if Role.SWE in tool.roles)
    return CommandAgent(split_command(command), commands, choice.model, own)


def workflow_scratch(kernel: Kernel) -> Callable[[FeatureId], AbstractContextManager[Path]]:
    """Return a context manager that checks out a temporary copy of a workflow's tree."""

    @contextmanager
    def scratch(name: FeatureId) -> Iterator[Path]:
        with kernel.record.read() as view:
            known = view.get(GatedWorkflow, name)
        if known is None:
            raise NoWorkflow(f"There is no workflow `{name}`.")
        with scratch_at(kernel.git, known.base_commit, known.tree) as made:
            yield made.folder

    return scratch
