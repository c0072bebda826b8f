"""Examination: all checks, each after those that it depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from aop.adapters.git.repository import Repository
from aop.adapters.reporting.doctor import machine
from aop.adapters.reporting.doctor.agents import check_agents
from aop.adapters.reporting.doctor.checks import Check, Health, failure
from aop.adapters.reporting.doctor.repository import (
    check_base_branch,
    check_checkout,
    check_environment,
    check_gates,
    check_permissions,
    check_programs,
    find_repository,
    load_configuration,
)
from aop.adapters.reporting.doctor.state import check_leftovers, check_worktrees, examine_record
from aop.adapters.reporting.doctor.ticket_systems import check_outbound
from aop.core.errors import Fault, Refusal


def examine(
    folder: Path, environ: Mapping[str, str], now: datetime, begins: Callable[[str], None] = lambda _name: None
) -> Iterator[Check]:
    """Yield every check that runs no gate; a check that depends on a broken one is left out.

    `begins` hears the name of each check that may have to wait for something, before it is made.
    """
    yield machine.check_python()
    yield machine.check_sqlite()
    begins("git")
    git = machine.check_git(environ)
    yield git
    repository = None
    if git.health is not Health.FAILURE:
        repository, found = find_repository(folder, environ)
        yield found
    if repository is None:
        yield machine.check_clock(now, None)
        begins("sandbox")
        yield from machine.check_confinement("auto", environ)
        return
    yield from _repository_checks(repository, environ, begins)
    yield from _state_checks(repository, environ, now, begins)


def _repository_checks(
    repository: Repository, environ: Mapping[str, str], begins: Callable[[str], None]
) -> Iterator[Check]:
    begins("permissions")
    yield from _or_failure("permissions", lambda: [check_permissions(repository)])
    begins("configuration")
    config, checks = load_configuration(repository)
    begins("base branch")
    yield from _or_failure("base branch", lambda: [check_base_branch(repository, config)])
    yield from checks
    if config is not None:
        begins("checkout")
        yield from _or_failure("checkout", lambda: check_checkout(repository, config))
        yield check_gates(config)
        begins("programs")
        yield from _or_failure("programs", lambda: check_programs(repository, config, environ))
    yield check_environment(repository)
    begins("sandbox")
    yield from machine.check_confinement(config.policy.execution.sandbox if config else "auto", environ)
    begins("agents")
    yield from _or_failure("agents", lambda: [check_agents(config.agents if config else None, environ)])
    yield from check_outbound(environ)


def _state_checks(
    repository: Repository, environ: Mapping[str, str], now: datetime, begins: Callable[[str], None]
) -> Iterator[Check]:
    private = repository.root / ".aop"
    begins("disk")
    yield machine.check_disk(repository.root)
    mounts = machine.MOUNTS.read_text(encoding="utf-8", errors="surrogateescape") if machine.MOUNTS.exists() else ""
    yield machine.check_file_system(private if private.exists() else repository.root, mounts)
    begins("record")
    examined = examine_record(private, environ)
    yield examined.check
    yield machine.check_clock(now, examined.newest_entry)
    begins("leftovers")
    yield from _or_failure("leftovers", lambda: [check_leftovers(private)])
    begins("worktrees")
    yield from _or_failure("worktrees", lambda: check_worktrees(repository, examined))


def _or_failure(name: str, look: Callable[[], Iterable[Check]]) -> list[Check]:
    """Return the checks, or a failure if they cannot be made."""
    try:
        return list(look())
    except (Fault, Refusal, OSError) as problem:
        return [failure(name, f"The check itself failed: {problem}", "Fix the problem, then run: aop doctor")]
