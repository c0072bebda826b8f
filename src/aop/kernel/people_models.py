"""The shape of what policy.yaml says about people: what they pay, what they are asked, how they are told."""

from typing import Annotated

from msgspec import Meta, Struct

Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]
Tokens = Annotated[int, Meta(ge=0, le=10**12)]
Hours = Annotated[float, Meta(ge=0, le=10_000)]


class PeopleSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of policy.yaml."""


class InboxRules(PeopleSection, frozen=True, kw_only=True):
    """`inbox` of the policy; 0 is no time limit, and no reminder."""

    question_timeout_hours: Hours
    escalation_timeout_hours: Hours
    authorisation_timeout_hours: Hours
    remind_after_minutes: Annotated[float, Meta(ge=0, le=100_000)]
    remind_multiplier: Annotated[float, Meta(ge=1, le=10)]
    remind_max_minutes: Annotated[float, Meta(ge=1, le=100_000)]


class CostRules(PeopleSection, frozen=True, kw_only=True):
    """`cost` of the policy; 0 is no cap."""

    max_usd_per_feature: Dollars
    max_usd_per_run: Dollars
    max_tokens_per_feature: Tokens
    max_tokens_per_run: Tokens
