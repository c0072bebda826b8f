"""Staff: the worker and the prompt of each role in a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from aop.adapters.agents.model_access import key_of, model_provider_of
from aop.adapters.agents.scratch_trees import scratch_of
from aop.adapters.agents.vendors.acp_commands import metered_vendor
from aop.adapters.agents.vendors.catalogue import Vendor, vendors_of
from aop.adapters.agents.vendors.programs import installed_program
from aop.adapters.agents.workers.acp_session import AcpProgram, AcpWorker
from aop.adapters.agents.workers.command import (
    DEFAULT_VARIABLE,
    CommandContext,
    CustomWorker,
    command_from,
    split_command,
)
from aop.adapters.agents.workers.vendor_session import AgentProgram, SessionContext, SessionWorker
from aop.adapters.models.settings import MODELS, known_prices
from aop.brains.names import model_priority
from aop.brains.prices import Prices
from aop.core.errors import AgentProviderNotConfigured, MissingRolePrompt, ModelPriceUnknown
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.config.agents import Provider
from aop.kernel.config.in_force import Config
from aop.kernel.config.people import CostRules
from aop.kernel.gateway.calls import Kernel
from aop.kernel.ports.git import Git
from aop.supervisor import prompts
from aop.supervisor.workers import ProviderChoice, Worker

ACP = "acp:"
"""The prefix of a custom command that speaks the Agent Client Protocol."""
WORKERS = (Role.PLANNER, Role.BUILDER, Role.QA)


class ChosenStaff:
    """Implements `aop.supervisor.feature_run.Staff` with the chosen coding agents."""

    def __init__(
        self,
        choices: Mapping[Role, ProviderChoice],
        prompts: Mapping[Role, str],
        workers: Mapping[Role, Worker],
        providers: Mapping[Role, str],
        unpriced: Callable[[ProviderChoice], str] = lambda _choice: "",
    ) -> None:
        self._choices = choices
        self._providers = providers
        self._prompts = prompts
        self._workers = workers
        self._unpriced = unpriced

    def choice(self, role: Role) -> ProviderChoice:
        return self._choices[role]

    def model_provider(self, role: Role) -> str:
        return self._providers[role]

    def worker(self, feature_id: FeatureId, role: Role) -> Worker:
        return self._workers[role]

    def prompt(self, role: Role) -> str:
        return self._prompts[role]

    def unpriced_model(self, role: Role) -> str:
        return self._unpriced(self._choices[role])


def model_providers(
    choices: Mapping[Role, ProviderChoice], environ: Mapping[str, str], vendors: Mapping[str, Vendor]
) -> dict[Role, str]:
    """Return the provider of each role's models, as far as it is known; else the agent stands for it."""
    return {role: _model_provider(choices[role], environ, vendors) for role in WORKERS}


def _model_provider(choice: ProviderChoice, environ: Mapping[str, str], vendors: Mapping[str, Vendor]) -> str:
    if choice.provider == Provider.MODEL:
        named = (choice.model or environ.get(MODELS, "")).lstrip('[" ')
        return named.partition(":")[0] or choice.provider
    vendor = vendors.get(choice.provider)
    if vendor is None and speaks_acp(choice, environ):
        words = split_command(command_from(environ, choice.provider_config_ref).removeprefix(ACP))
        vendor = metered_vendor(words, environ, vendors)
    return choice.provider if vendor is None else model_provider_of(vendor)


def needs_mcp_server(choices: Mapping[Role, ProviderChoice], environ: Mapping[str, str]) -> bool:
    """Tell whether a worker of the run reaches AOP by MCP."""
    return any(
        choice.provider not in (Provider.CUSTOM, Provider.MODEL)
        or (choice.provider == Provider.CUSTOM and speaks_acp(choice, environ))
        for choice in map(choices.__getitem__, WORKERS)
    )


def speaks_acp(choice: ProviderChoice, environ: Mapping[str, str]) -> bool:
    """Tell whether the custom command has the prefix of the Agent Client Protocol."""
    return environ.get(choice.provider_config_ref or DEFAULT_VARIABLE, "").strip().startswith(ACP)


def chosen_workers(
    choices: Mapping[Role, ProviderChoice],
    environ: Mapping[str, str],
    command_context: CommandContext,
    session_context: SessionContext,
    model_worker: Callable[[str | None], Worker],
) -> dict[Role, Worker]:
    """Return the worker of each role; `model_worker` makes one from a plain model.

    Raises: ProviderAuthMissing, AgentProviderNotConfigured, and the refusals of a model that is not configured.
    """
    return {
        role: model_worker(choices[role].model)
        if choices[role].provider == Provider.MODEL
        else _worker(choices[role], environ, command_context, session_context)
        for role in WORKERS
    }


def _worker(
    choice: ProviderChoice, environ: Mapping[str, str], command_context: CommandContext, session_context: SessionContext
) -> Worker:
    vendors = vendors_of(session_context.kernel.config().agents, environ)
    vendor = vendors.get(choice.provider)
    if vendor is None:
        command = command_from(environ, choice.provider_config_ref)
        if speaks_acp(choice, environ):
            return AcpWorker(custom_acp_program(command, environ, vendors, session_context), session_context)
        return CustomWorker(split_command(command), command_context)
    if vendor.speaks_acp:
        return AcpWorker(acp_program(vendor, choice, environ, session_context), session_context)
    return SessionWorker(program_of(vendor, choice, environ, session_context))


def custom_acp_program(
    command: str, environ: Mapping[str, str], vendors: Mapping[str, Vendor], session_context: SessionContext
) -> AcpProgram:
    """Return the program of a command with the `acp:` prefix; a known one gets its meter."""
    words = split_command(command.removeprefix(ACP))
    return AcpProgram(words, session_context, metered_vendor(words, environ, vendors))


def acp_program(
    vendor: Vendor, choice: ProviderChoice, environ: Mapping[str, str], session_context: SessionContext
) -> AcpProgram:
    """Return the installed program of an agent that speaks the Agent Client Protocol.

    Raises: ProviderAuthMissing, AgentProviderNotConfigured.
    """
    program = _installed(vendor, choice, environ)
    words = (program, *vendor.row.acp[1:])
    return AcpProgram(words, session_context, vendor, key_variable=choice.provider_config_ref)


def program_of(
    vendor: Vendor, choice: ProviderChoice, environ: Mapping[str, str], session_context: SessionContext
) -> AgentProgram:
    """Return the installed program of a coding agent.

    Raises: ProviderAuthMissing, AgentProviderNotConfigured, and the refusals of a log-in.
    """
    if session_context.logins.is_on(vendor):
        path = _found(vendor, environ)
        session_context.logins.check(vendor)
    else:
        path = _installed(vendor, choice, environ)
    return AgentProgram(vendor=vendor, path=path, context=session_context)


def _installed(vendor: Vendor, choice: ProviderChoice, environ: Mapping[str, str]) -> str:
    """Return the path of an agent that is installed, and has its key where one is needed."""
    program = _found(vendor, environ)
    if vendor.row.endpoint is not None:
        key_of(vendor, environ, choice.provider_config_ref)
    return program


def _found(vendor: Vendor, environ: Mapping[str, str]) -> str:
    program = installed_program(vendor, environ)
    if program is None:
        raise AgentProviderNotConfigured(
            f"The coding agent `{vendor.provider}` is not installed.",
            hint=f"Install it with: aop agents install {vendor.provider}",
            provider=vendor.provider,
        )
    return program


def unpriced_model(choice: ProviderChoice, vendors: Mapping[str, Vendor], environ: Mapping[str, str]) -> str:
    """Return the model of an agent that AOP counts, if it is known before the first request and has no price."""
    names = _known_models(choice, vendors, environ)
    prices = known_prices(environ) if names else Prices({})
    return next((name for name in names if prices.of(name) is None), "")


def _known_models(choice: ProviderChoice, vendors: Mapping[str, Vendor], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the models of an agent that are known before its first request, as `provider:model`."""
    if choice.provider == Provider.MODEL:
        return tuple(map(str, model_priority(text))) if (text := choice.model or environ.get(MODELS)) else ()
    vendor = vendors.get(choice.provider)
    if vendor is None or vendor.row.endpoint is None:
        return ()
    row, family = vendor.row, vendor.row.endpoint.family
    names = (choice.model,) if choice.model else (row.default_model or "", *row.side_models)
    # A name without a digit (`opus`) is an alias: the program knows the model that it stands for.
    return tuple(f"{family}:{name}" for name in names if any(map(str.isdigit, name)))


def refuse_unpriced_model(choice: ProviderChoice, cost: CostRules, unpriced: str) -> None:
    """Refuse an agent under a cap of cost whose model has no price. Raises: ModelPriceUnknown."""
    if unpriced and (cost.max_usd_per_feature or cost.max_usd_per_run):
        raise ModelPriceUnknown(
            f"The policy has a cap of cost, and AOP has no price for `{unpriced}`, the model of `{choice.provider}`.",
            model=unpriced,
        )


def role_prompts(git: Git, config: Config) -> dict[Role, str]:
    """Return each role's prompt: the file that agents.yaml names, or AOP's own. Raises: MissingRolePrompt."""
    base = git.branches.head(config.policy.worktree.base_branch)
    tree = None if base is None else git.objects.tree_of(base)
    found: dict[Role, str] = {}
    for role in WORKERS:
        path = getattr(config.agents.roles, role).system_prompt_path
        entry = git.objects.entry(tree, path) if tree and path else None
        if entry is None and path and config.agents.missing_prompt_behavior == "error":
            raise MissingRolePrompt(f"The prompt `{path}` of the {role} is not on the base branch.", path=path)
        found[role] = shipped_prompt(role) if entry is None else git.objects.blob(entry.oid).decode(errors="replace")
    return found


def shipped_prompt(role: Role) -> str:
    """Return AOP's own prompt of a role."""
    return (Path(str(prompts.__file__)).with_name(f"{role}.md")).read_text(encoding="utf-8")


def feature_scratch(kernel: Kernel) -> Callable[[FeatureId], AbstractContextManager[Path]]:
    """Return a context manager that checks out a temporary copy of a feature's tree."""

    @contextmanager
    def scratch(feature_id: FeatureId) -> Iterator[Path]:
        with scratch_of(kernel, feature_id) as made:
            yield made.folder

    return scratch
