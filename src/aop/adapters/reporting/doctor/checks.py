"""Checks: the health of one thing, what was found, and how to repair it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Health(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    """AOP works, but something may go wrong later."""
    FAILURE = "failure"
    """Something that AOP needs does not work."""


class Check(Struct, frozen=True, kw_only=True):
    """One check and its result."""

    name: str
    health: Health
    found: str
    fix: str = ""


def fine(name: str, found: str) -> Check:
    """Return a check that found nothing wrong."""
    return Check(name=name, health=Health.OK, found=found)


def warning(name: str, found: str, fix: str) -> Check:
    """Return a check that found something to know."""
    return Check(name=name, health=Health.WARNING, found=found, fix=fix)


def failure(name: str, found: str, fix: str) -> Check:
    """Return a check that found something broken."""
    return Check(name=name, health=Health.FAILURE, found=found, fix=fix)
