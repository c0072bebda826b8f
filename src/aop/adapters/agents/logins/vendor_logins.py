"""Vendor logins: where each program keeps its log-in, and what a turn needs of it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from aop.adapters.agents.logins.credential_files import Content, credentials_in
from aop.adapters.agents.logins.self_reports import ReadLine, claude_report, codex_report, gemini_report
from aop.adapters.agents.vendors.catalogue import Vendor, shipped_rows
from aop.adapters.agents.vendors.install import LoginState
from aop.adapters.agents.vendors.launch import Launch
from aop.core.errors import AgentLoginAmbiguous, AgentLoginMissing, AgentNotLoggedIn
from aop.kernel.config.agents import Provider

_Shape = TypeVar("_Shape")


class LoginCopy(Struct, frozen=True, kw_only=True):
    """The part of a log-in that a turn gets."""

    files: Mapping[str, Content]
    """By their names below the folder of the log-in."""
    account: str
    """As the log-in names it; empty if it does not."""
    expires_at: float | None
    """In seconds of the epoch; None if the program renews it in the turn."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the values that must not be logged."""
        return tuple(text for content in self.files.values() for text in _texts(content) if len(text) >= _SHORTEST)

    def __repr__(self) -> str:
        return f"LoginCopy({self.account!r})"


_SHORTEST = 20
"""Shorter texts in the file of a log-in are names and dates."""


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [text for each in inner for text in _texts(each)]


class VendorLogin(Struct, frozen=True, kw_only=True):
    """The own log-in of one coding agent."""

    provider: Provider
    folder: str
    """Below the user's home."""
    folder_variable: str
    """The variable that names another folder."""
    files: tuple[str, ...]
    copy: Callable[[Mapping[str, Content]], LoginCopy | None]
    """Takes what a turn needs of the files; None if they hold no log-in. Raises: AgentLoginAmbiguous."""
    hosts: frozenset[str]
    """The hosts that the program needs with a log-in."""
    command: tuple[str, ...]
    """The words of its own log-in."""
    renewal: tuple[str, ...]
    """The words of its smallest run, in which it renews a log-in that expires; empty if it does so in a turn."""
    adapt: Callable[[Launch], Launch]
    """Changes a launch with a key into one with a log-in."""
    report: ReadLine
    sessions: str = ""
    """The folder of its home whose files have the usage of each reply; empty if the program prints that."""

    def folder_in(self, environ: Mapping[str, str]) -> Path:
        """Return the folder of the log-in."""
        named = environ.get(self.folder_variable, "") if self.folder_variable else ""
        return Path(named) if named else Path(environ.get("HOME") or "/") / self.folder

    def copy_from(self, environ: Mapping[str, str]) -> LoginCopy:
        """Take what a turn needs. Raises: AgentLoginMissing, AgentLoginUnsafe, AgentLoginAmbiguous."""
        folder = self.folder_in(environ)
        read = {name: credentials_in(folder, name) for name in self.files}
        found = {name: content for name, content in read.items() if content is not None}
        copy = self.copy(found) if self.files[0] in found else None
        if copy is None:
            raise AgentLoginMissing(
                f"`{folder / self.files[0]}` holds no log-in of `{self.provider}`.",
                hint=f"Log in with `aop agents login {self.provider}`.",
                provider=self.provider,
            )
        return copy


# --- Claude Code -----------------------------------------------------------------------------------


class _ClaudeTokens(Struct, frozen=True, kw_only=True, rename="camel"):
    access_token: str
    expires_at: int
    scopes: list[str] = []
    subscription_type: str | None = None
    rate_limit_tier: str | None = None


def _claude_copy(files: Mapping[str, Content]) -> LoginCopy | None:
    tokens = _converted(files[".credentials.json"].get("claudeAiOauth"), _ClaudeTokens)
    if tokens is None or not tokens.access_token:
        return None
    kept = {**msgspec.to_builtins(tokens), "refreshToken": ""}
    return LoginCopy(
        files={".credentials.json": {"claudeAiOauth": kept}},
        account=tokens.subscription_type or "",
        expires_at=tokens.expires_at / 1000,
    )


def _without_key(*names: str) -> Callable[[Launch], Launch]:
    return lambda launch: replace(launch, env={name: text for name, text in launch.env.items() if name not in names})


# --- Codex -----------------------------------------------------------------------------------------


class _CodexTokens(Struct, frozen=True, kw_only=True):
    id_token: str
    access_token: str
    account_id: str | None = None


class _CodexClaims(Struct, frozen=True, kw_only=True):
    exp: float | None = None
    email: str = ""
    auth: Mapping[str, object] = msgspec.field(name="https://api.openai.com/auth", default_factory=dict)


def _codex_copy(files: Mapping[str, Content]) -> LoginCopy | None:
    content = files["auth.json"]
    tokens = _converted(content.get("tokens"), _CodexTokens)
    if tokens is None or not tokens.access_token:
        return None
    person, access = _claims(tokens.id_token), _claims(tokens.access_token)
    named = person.auth.get("chatgpt_account_id")
    if tokens.account_id and named and named != tokens.account_id:
        raise AgentLoginAmbiguous(
            f"The log-in of `codex` names two accounts: `{tokens.account_id}` and `{named}`.", provider="codex"
        )
    kept = {**msgspec.to_builtins(tokens), "refresh_token": ""}
    auth = {"OPENAI_API_KEY": None, "auth_mode": "chatgpt", "tokens": kept, "last_refresh": content.get("last_refresh")}
    return LoginCopy(files={"auth.json": auth}, account=person.email, expires_at=access.exp or 0.0)


def _claims(token: str) -> _CodexClaims:
    """Return the claims of a token; they are shown and compared, never believed."""
    part = token.split(".")[1] if token.count(".") > 1 else ""
    try:
        data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        return msgspec.json.decode(data, type=_CodexClaims)
    except (ValueError, msgspec.DecodeError):
        return _CodexClaims()


_CODEX_PLAIN = ("--disable", "enable_request_compression")
"""Requests as with a key; a test's double of the vendor reads both."""


def _codex_launch(launch: Launch) -> Launch:
    *words, prompt = launch.words
    # The last setting of a name counts: its own provider, which uses the log-in.
    own = ["-c", 'model_provider="openai"', "-c", 'cli_auth_credentials_store="file"', *_CODEX_PLAIN]
    return replace(_without_key("OPENAI_API_KEY")(launch), words=(*words, *own, prompt))


# --- Gemini CLI ------------------------------------------------------------------------------------


class _GeminiTokens(Struct, frozen=True, kw_only=True, omit_defaults=True):
    access_token: str
    refresh_token: str
    expiry_date: int
    scope: str = ""
    token_type: str = "Bearer"
    id_token: str = ""


def _gemini_copy(files: Mapping[str, Content]) -> LoginCopy | None:
    tokens = _converted(files["oauth_creds.json"], _GeminiTokens)
    if tokens is None or not tokens.refresh_token:
        return None
    active = str(files.get("google_accounts.json", {}).get("active") or "")
    email = _claims(tokens.id_token).email
    if active and email and active != email:
        raise AgentLoginAmbiguous(
            f"The log-in of `gemini` names two accounts: `{email}` and `{active}`.", provider="gemini"
        )
    kept: dict[str, Content] = {"oauth_creds.json": msgspec.to_builtins(tokens)}
    if active:
        kept["google_accounts.json"] = {"active": active, "old": []}
    return LoginCopy(files=kept, account=active or email, expires_at=None)


def _gemini_launch(launch: Launch) -> Launch:
    name = ".gemini/settings.json"
    settings = msgspec.json.decode(launch.files[name])
    settings["security"]["auth"]["selectedType"] = "oauth-personal"
    bare = _without_key("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL")(launch)
    return replace(bare, files={**launch.files, name: msgspec.json.encode(settings).decode()})


def _converted(content: object, shape: type[_Shape]) -> _Shape | None:
    try:
        return msgspec.convert(content, shape)
    except msgspec.ValidationError:
        return None


LOGINS: Mapping[str, VendorLogin] = {
    Provider.CLAUDE: VendorLogin(
        provider=Provider.CLAUDE,
        folder=".claude",
        folder_variable="CLAUDE_CONFIG_DIR",
        files=(".credentials.json",),
        copy=_claude_copy,
        hosts=frozenset({"api.anthropic.com"}),
        command=("auth", "login"),
        renewal=("-p", "--setting-sources", "", "--strict-mcp-config", "--tools", "", "--model", "haiku", "Say ok."),
        adapt=_without_key("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        report=claude_report,
    ),
    Provider.CODEX: VendorLogin(
        provider=Provider.CODEX,
        folder=".codex",
        folder_variable="CODEX_HOME",
        files=("auth.json",),
        copy=_codex_copy,
        hosts=frozenset({"chatgpt.com"}),
        command=("login",),
        renewal=("exec", "--skip-git-repo-check", "--ignore-user-config", *_CODEX_PLAIN, "-s", "read-only", "Say ok."),
        adapt=_codex_launch,
        report=codex_report,
        sessions=".codex/sessions",
    ),
    Provider.GEMINI: VendorLogin(
        provider=Provider.GEMINI,
        folder=".gemini",
        folder_variable="",
        files=("oauth_creds.json", "google_accounts.json"),
        copy=_gemini_copy,
        hosts=frozenset({"cloudcode-pa.googleapis.com", "oauth2.googleapis.com"}),
        command=(),
        renewal=(),
        adapt=_gemini_launch,
        report=gemini_report,
        sessions=".gemini/tmp",
    ),
}
"""Claude's and Codex's refresh tokens are used up by each renewal, so they stay in the user's home: a copy that renewed
itself would log the user out. Google's stay valid, and its access tokens last one hour, so the turn gets them."""


def login_of(vendor: Vendor) -> VendorLogin | None:
    """Return the log-in of an agent that is started as AOP ships it; another program must not get its credentials."""
    is_own = vendor.row == shipped_rows().get(vendor.provider)
    return LOGINS.get(vendor.provider) if is_own else None


def login_state(vendor: Vendor, environ: Mapping[str, str]) -> LoginState:
    """Return the state of an agent's own log-in, for people."""
    login = login_of(vendor)
    if login is None:
        return LoginState(problem=f"AOP does not know the log-in of this row of `{vendor.provider}`.")
    try:
        return LoginState(account=login.copy_from(environ).account)
    except AgentNotLoggedIn as refusal:
        return LoginState(problem=refusal.message)
