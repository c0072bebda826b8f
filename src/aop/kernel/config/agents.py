"""Agent configuration: the shape of agents.yaml. Each key: docs/configuration.md."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import field

from aop.core.text.suggestions import closest
from aop.kernel.config import checks as flaws
from aop.kernel.config.checks import Misfit, demand, demand_each
from aop.kernel.config.gates import Section, Texts

PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")
"""A gap in the texts of a provider, filled for each session."""
SESSION_VALUES = ("home", "tree", "tree_slug", "mcp_url", "model", "model_url", "model_key", "session")
"""The values of a session that a text of a provider may use."""
CONDITIONS = ("model", "reads", "edits", "shell", "sandbox", "resumes")


_Template: TypeAlias = tuple[tuple[str | int, ...], str, tuple[str, ...]]


class Provider(StrEnum):
    """A coding agent that AOP ships a row for, or drives without one."""

    CODEX = "codex"
    CLAUDE = "claude"
    GEMINI = "gemini"
    CLAUDE_ACP = "claude-acp"
    GEMINI_ACP = "gemini-acp"
    OPENCODE = "opencode"
    QWEN = "qwen"
    COPILOT = "copilot"
    CURSOR = "cursor"
    KIRO = "kiro"
    AMP = "amp"
    DROID = "droid"
    GOOSE = "goose"
    CLINE = "cline"
    CUSTOM = "custom"
    """A command of the user's."""
    MODEL = "model"
    """No coding agent: a model that AOP asks itself, named `provider:model`."""


def known_providers(own: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of all providers: those that AOP ships, and these."""
    return tuple(dict.fromkeys([*map(str, Provider), *own]))


class Package(Section, frozen=True, kw_only=True):
    """The npm package that a program is installed from."""

    name: str
    version: str

    def __post_init__(self) -> None:
        demand(flaws.in_argument(self.name), "name")
        demand(flaws.in_stem(self.version), "version")


class ModelEndpoint(Section, frozen=True, kw_only=True):
    """The models of a program: their protocol, and the address that AOP's meter forwards to."""

    family: Literal["anthropic", "openai", "google"]
    url: str
    url_variable: str
    """The user's variable with another address."""

    def __post_init__(self) -> None:
        demand(flaws.in_variable(self.url_variable), "url_variable")
        demand(None if self.url.startswith(("https://", "http://")) else "it is not an address", "url")


class Login(Section, frozen=True, kw_only=True):
    """A program's own log-in."""

    files: Texts
    """The files in the user's home that it leaves."""

    def __post_init__(self) -> None:
        demand_each(flaws.in_path, self.files, "files")


class ConditionalText(Section, frozen=True, kw_only=True):
    """A text that holds under conditions."""

    when: Texts = ()
    """Conditions that must hold: `model`, `reads`, `edits`, `shell`, `sandbox`, `resumes`, each also with `not `."""
    text: str
    """The text to use."""

    def __post_init__(self) -> None:
        demand_each(_in_condition, self.when, "when")


class ConditionalWords(Section, frozen=True, kw_only=True):
    """Arguments that are handed over under conditions."""

    when: Texts
    """Conditions that must hold."""
    words: Texts
    """The arguments to hand over then."""

    def __post_init__(self) -> None:
        demand_each(_in_condition, self.when, "when")


class ProviderRow(Section, frozen=True, kw_only=True):
    """One coding agent as data: how it is started, and where it takes its model and AOP's tools from."""

    title: str
    command: Texts = ()
    """The program and its first words; it reads its prompt from standard input."""
    acp: Texts = ()
    """In place of `command`: the program and its words, if it speaks the Agent Client Protocol."""
    tried: bool = False
    """Whether AOP's own tests start it."""
    package: Package | None = None
    endpoint: ModelEndpoint | None = None
    """Without it there is no meter: the program sees its key, and its usage is what it reports itself."""
    key_variable: str | None = None
    default_model: str | None = None
    """The model that this version takes by itself: for its price, and to show; it is not handed over."""
    side_models: tuple[str, ...] = ()
    """The models that it asks beside that one, for their prices."""
    login: Login | None = None
    prompt: str = ""
    """A line of the prompt: how its model finds AOP's tools."""
    values: dict[str, tuple[ConditionalText, ...]] = field(default_factory=dict)
    """Names for `{{...}}`: the first text whose conditions hold; it may use the values before it."""
    words: tuple[str | ConditionalWords, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Files to write into its private home first."""
    session_folder: str = ""
    """The folder of its private home that has its sessions; empty if it cannot go on with one."""

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.acp):
            raise Misfit("it needs either `command` or `acp`")
        demand(flaws.in_word(self.title), "title")
        for key, words in (("command", self.command), ("acp", self.acp)):
            demand_each(flaws.in_argument, words, key)
        if self.key_variable is not None:
            demand(flaws.in_variable(self.key_variable), "key_variable")
        if self.default_model is not None:
            demand(flaws.in_word(self.default_model), "default_model")
        demand_each(flaws.in_word, self.side_models, "side_models")
        for name in self.environment:
            demand(flaws.in_variable(name), "environment", name)
        for name in self.files:
            demand(flaws.in_path(name), "files", name)
        if self.session_folder:
            demand(flaws.in_path(PLACEHOLDER.sub("x", self.session_folder)), "session_folder")
        self._demand_texts()
        self._demand_endpoint()

    def uses(self, name: str) -> bool:
        """Tell whether a text takes a value of the session."""
        return any(f"{{{{{name}}}}}" in text for _, text, _ in self._texts())

    def _demand_texts(self) -> None:
        for path, text, known in self._texts():
            demand(_in_template(text, known), *path)
        if self.acp and self.words:
            raise Misfit("an `acp` program has its words there", "words")
        if self.command and not self.uses("mcp_url"):
            raise Misfit("no text hands it `{{mcp_url}}`, the address of AOP's tools")

    def _demand_endpoint(self) -> None:
        if self.endpoint is None:
            if self.command:
                raise Misfit("a `command` needs it: its model is reached through AOP's meter", "endpoint")
            return
        if self.key_variable is None:
            raise Misfit("with an `endpoint`, AOP must know the variable of the key", "key_variable")
        for name in ("model_url", "model_key"):
            if not self.uses(name):
                raise Misfit(f"no text hands it `{{{{{name}}}}}`, which leads to AOP's meter", "endpoint")

    def _texts(self) -> list[_Template]:
        """Return every text with placeholders, its place, and the values that it may use."""
        found: list[_Template] = []
        known: tuple[str, ...] = SESSION_VALUES
        for name, choices in self.values.items():
            found += [(("values", name, index, "text"), choice.text, known) for index, choice in enumerate(choices)]
            known = (*known, name)
        for index, word in enumerate(self.words):
            group = (word,) if isinstance(word, str) else word.words
            found += [(("words", index), text, known) for text in group]
        found.append((("session_folder",), self.session_folder, ("tree_slug",)))
        for key, texts in (("environment", self.environment), ("files", self.files)):
            found += [((key, name), text, known) for name, text in texts.items()]
        return found


def _in_condition(text: str) -> str | None:
    name = text.removeprefix("not ")
    if name in CONDITIONS:
        return None
    near = closest(name, CONDITIONS)
    return f"there is no such condition; did you mean `{near}`?" if near else "there is no such condition"


def _in_template(text: str, known: Iterable[str]) -> str | None:
    for name in PLACEHOLDER.findall(text):
        if name not in known:
            near = closest(name, known)
            return f"there is no value `{name}`" + (f"; did you mean `{near}`?" if near else "")
    # The rules for secrets are compiled: only for a file that has such a row.
    from aop.core.redaction.redactor import Redactor

    if Redactor().secrets_in(text):
        return "it holds a secret; a key stays in a variable, which `key_variable` names"
    return "it has a NUL in it" if "\0" in text else None


class ProviderFile(Section, frozen=True, kw_only=True):
    """A file of providers alone: those that AOP ships, and those of a user."""

    version: Literal[1]
    providers: dict[str, ProviderRow]

    def __post_init__(self) -> None:
        _demand_provider_names(self.providers)


def _demand_provider_names(rows: Iterable[str]) -> None:
    for name in rows:
        demand(flaws.in_stem(name), "providers", name)
        if name in (Provider.CUSTOM, Provider.MODEL):
            raise Misfit("AOP uses this name itself", "providers", name)


class AgentRole(Section, frozen=True, kw_only=True):
    system_prompt_path: str | None = None

    def __post_init__(self) -> None:
        if self.system_prompt_path is not None:
            demand(flaws.in_path(self.system_prompt_path), "system_prompt_path")


class AgentRoles(Section, frozen=True, kw_only=True):
    planner: AgentRole = AgentRole()
    builder: AgentRole = AgentRole()
    qa: AgentRole = AgentRole()


class ProviderOverride(Section, frozen=True, kw_only=True):
    """Settings of one role in place of the runtime's defaults."""

    provider: str | None = None
    model: str | None = None
    provider_config_env: str | None = None

    def __post_init__(self) -> None:
        if self.model is not None:
            demand(flaws.in_word(self.model), "model")
        if self.provider_config_env is not None:
            demand(flaws.in_variable(self.provider_config_env), "provider_config_env")


class Runtime(Section, frozen=True, kw_only=True):
    default_provider: str | None = None
    default_model: str | None = None
    provider_config_env: str | None = None
    role_provider_overrides: dict[Literal["orchestrator", "planner", "builder", "qa"], ProviderOverride] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        if self.default_model is not None:
            demand(flaws.in_word(self.default_model), "default_model")
        if self.provider_config_env is not None:
            demand(flaws.in_variable(self.provider_config_env), "provider_config_env")


class Agents(Section, frozen=True, kw_only=True):
    """agents.yaml: who does the work, and what each role is told."""

    version: Literal[1]
    roles: AgentRoles
    missing_prompt_behavior: Literal["ignore", "error"]
    runtime: Runtime
    providers: dict[str, ProviderRow] = field(default_factory=dict)
    """The repository's own coding agents, and its own rows for those that AOP ships."""
    login: dict[Literal["claude", "codex", "gemini"], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _demand_provider_names(self.providers)
        known, runtime = known_providers(self.providers), self.runtime
        if runtime.default_provider is not None:
            demand(_in_provider(runtime.default_provider, known), "runtime", "default_provider")
        for role, override in runtime.role_provider_overrides.items():
            if override.provider is not None:
                demand(_in_provider(override.provider, known), "runtime", "role_provider_overrides", role, "provider")

    def uses_login(self, provider: str) -> bool:
        """Tell whether a coding agent works with its own log-in."""
        return any(name == provider and is_on for name, is_on in self.login.items())


def _in_provider(name: str, known: tuple[str, ...]) -> str | None:
    if name in known:
        return None
    *most, last = (f"`{each}`" for each in known)
    return f"it must be {', '.join(most)} or {last}, not {name[:80]!r}"
