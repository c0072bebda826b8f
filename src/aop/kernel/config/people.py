"""Policy about people: costs, questions, reminders and notifications."""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.kernel.config import checks as flaws
from aop.kernel.config.checks import Misfit, demand, demand_each

Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]
Tokens = Annotated[int, Meta(ge=0, le=10**12)]
Hours = Annotated[float, Meta(ge=0, le=10_000)]


class NoticeKind(StrEnum):
    """Notifications that people get without asking."""

    QUESTION = "question"
    REMINDER = "reminder"
    READY = "ready"
    BLOCKED = "blocked"
    FAILED = "failed"


class PeopleSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of policy.yaml."""


class ApprovalRules(PeopleSection, frozen=True, kw_only=True):
    """`approval` of the policy."""

    signers: tuple[str, ...]
    """Lines in OpenSSH's format of allowed signers; one of them must sign each approval. Empty: nobody signs."""

    def __post_init__(self) -> None:
        demand_each(flaws.in_allowed_signer, self.signers, "signers")


class InboxRules(PeopleSection, frozen=True, kw_only=True):
    """`inbox` of the policy; 0 means no time limit and no reminder."""

    question_timeout_hours: Hours
    escalation_timeout_hours: Hours
    authorisation_timeout_hours: Hours
    remind_after_minutes: Annotated[float, Meta(ge=0, le=100_000)]
    remind_multiplier: Annotated[float, Meta(ge=1, le=10)]
    remind_max_minutes: Annotated[float, Meta(ge=1, le=100_000)]


class NotificationTarget(PeopleSection, frozen=True, kw_only=True):
    """One way to reach people; what is secret of it is in environment variables, which are named here."""

    type: Literal["bell", "desktop", "webhook", "slack", "ntfy"]
    url_env: str = ""
    secret_env: str = ""
    events: tuple[NoticeKind, ...] = tuple(NoticeKind)

    def __post_init__(self) -> None:
        needed = {"webhook": ("url_env", "secret_env"), "slack": ("url_env",), "ntfy": ("url_env",)}
        for key in ("url_env", "secret_env"):
            variable = getattr(self, key)
            if key in needed.get(self.type, ()) and not variable:
                raise Misfit(f"a target of type `{self.type}` needs it", key)
            demand(flaws.in_variable(variable) if variable else None, key)


class NotificationRules(PeopleSection, frozen=True, kw_only=True):
    """`notifications` of the policy."""

    targets: dict[str, NotificationTarget]
    timeout_seconds: Annotated[int, Meta(ge=1, le=60)]
    attempts: Annotated[int, Meta(ge=1, le=10)]
    retry_after_seconds: Annotated[float, Meta(ge=0, le=600)]

    def __post_init__(self) -> None:
        for name in self.targets:
            demand(flaws.in_stem(name), "targets", name)


class CostRules(PeopleSection, frozen=True, kw_only=True):
    """`cost` of the policy; 0 means no cap."""

    max_usd_per_feature: Dollars
    max_usd_per_run: Dollars
    max_tokens_per_feature: Tokens
    max_tokens_per_run: Tokens
