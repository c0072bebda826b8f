"""Home of a platform's server: a private folder with key, tokens and lock."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from aop.adapters.files.private_files import check_private, state_folder
from aop.adapters.files.signing_key import FileSigner
from aop.adapters.machine.agent_signs import sign_of_agent
from aop.adapters.machine.clock import SystemClock, new_id
from aop.adapters.storage.record.sqlite import SqliteRecord
from aop.core.digests import sha256_hex
from aop.core.errors import InvalidCliArgs, PersonRequired, UnknownRepository
from aop.kernel.gateway.page_sessions import PageSessions
from aop.kernel.gateway.tokens import Reach, Tokens
from aop.wiring.build import Settings

FOLDER = "aop/platform"


class PlatformHome(Struct, frozen=True, kw_only=True):
    """The private folder of the server of one database; the database itself may be read-only."""

    url: str
    title: str
    """The address of the database, as people may see it."""
    folder: Path
    tokens: Tokens
    settings: Settings

    @property
    def sessions(self) -> PageSessions:
        """Return the ways to its pages."""
        return PageSessions(tokens=self.tokens, place="this platform", command="aop web --platform")


@contextmanager
def platform_home(settings: Settings) -> Iterator[PlatformHome]:
    """Open the home of the server of `AOP_DATABASE`. Raises: DatabaseUnavailable, FilesExposed."""
    # Only a platform pays for the driver of its database.
    from aop.adapters.fleet.connections import platform_address, server_identity, shown_address

    url = platform_address(settings.environ)
    title = shown_address(url)
    folder = state_folder(settings.environ) / FOLDER / sha256_hex(server_identity(url).encode())[:16]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_private(folder)
    record = SqliteRecord(folder / "record.db")
    signer = FileSigner(folder / "keys" / "token.key")
    tokens = Tokens(record=record, signer=signer, clock=SystemClock(), new_id=new_id)
    try:
        yield PlatformHome(url=url, title=title, folder=folder, tokens=tokens, settings=settings)
    finally:
        record.close()


def refuse_agents(command: str, settings: Settings) -> None:
    """Refuse a command where an agent is at work. Raises: PersonRequired."""
    if sign := sign_of_agent(settings.environ):
        raise PersonRequired(f"`{command}` is for a person, and {sign}.", sign=sign)


def platform_arguments(parser: argparse.ArgumentParser, words: str) -> None:
    """Declare the choice of the platform instead of one repository."""
    parser.add_argument("--platform", action="store_true", help=words)


def repositories_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the repositories that a way to the pages of a platform opens."""
    parser.add_argument("--repositories", metavar="NAMES", help="with --platform: these repositories alone, by commas")


def named_reach(home: PlatformHome, names: str | None) -> Reach | None:
    """Return the reach that a person names; None if they name none. Raises: InvalidCliArgs, UnknownRepository."""
    if names is None:
        return None
    wanted = tuple(sorted({name.strip() for name in names.split(",") if name.strip()}))
    if not wanted:
        raise InvalidCliArgs("`--repositories` names no repository.", hint="List them: aop platform status")
    from aop.adapters.storage.record.postgres.all_records import AllRecords

    records = AllRecords(home.url)
    try:
        known = {each.name for each in records.standings()}
    finally:
        records.close()
    for name in wanted:
        if name not in known:
            raise UnknownRepository(name)
    return Reach(repositories=wanted)
