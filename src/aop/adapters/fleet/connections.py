"""Connections of workers and leaders to the database of the platform."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from aop.adapters.storage.record.choice import DATABASE, SCHEMES
from aop.adapters.storage.record.postgres.place import Place
from aop.adapters.storage.record.postgres.reach.poolers import is_pooled_by_transaction
from aop.core.errors import DatabaseRights, DatabaseUnavailable, PoolerUnsupported

Connection = psycopg.Connection[tuple[Any, ...]]
_PATIENCE = {
    "connect_timeout": "2",
    "keepalives_idle": "1",
    "keepalives_interval": "1",
    "keepalives_count": "2",
    "tcp_user_timeout": "2000",
}
"""A cut link is noticed within two seconds, not after the hours that TCP allows."""


def platform_address(environ: Mapping[str, str]) -> str:
    """Return the address of the platform's database. Raises: DatabaseUnavailable."""
    url = environ.get(DATABASE, "")
    if url.partition("://")[0] not in SCHEMES or "://" not in url:
        raise DatabaseUnavailable(f"in {DATABASE}", "it is not set, or does not begin with postgresql://")
    return url


def shown_address(url: str) -> str:
    """Return an address without user, password and options."""
    return Place(url=url, name="", home="").shown


def server_identity(url: str) -> str:
    """Return what of an address says which database it is; not who connects, nor how. Raises: DatabaseUnavailable."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise DatabaseUnavailable(shown_address(url), first_line(error)) from error
    return json.dumps([parts.get(name) for name in ("service", "host", "hostaddr", "port", "dbname")])


def impatient(url: str) -> str:
    """Return an address whose connections notice a cut link at once; options that it has stay."""
    parts = urlsplit(url)
    options = {**_PATIENCE, **dict(parse_qsl(parts.query))}
    return urlunsplit(parts._replace(query=urlencode(options)))


def engine_address(url: str) -> str:
    """Return an address as SQLAlchemy takes it."""
    _scheme, _, rest = impatient(url).partition("://")
    return f"postgresql+psycopg://{rest}"


def connect(url: str) -> Connection:
    """Open a connection that ends with the caller. Raises: DatabaseUnavailable."""
    try:
        return psycopg.connect(impatient(url), autocommit=True, application_name="aop-fleet")
    except psycopg.Error as error:
        raise DatabaseUnavailable(shown_address(url), first_line(error)) from error


@contextmanager
def refusals_of(url: str) -> Iterator[None]:
    """Raise what the database refuses or cannot do by name. Raises: DatabaseRights, DatabaseUnavailable."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseRights(first_line(error)) from error
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(shown_address(url), first_line(error)) from error


def refuse_pooler(connection: Connection, url: str) -> None:
    """Refuse a pooler that gives each transaction another connection. Raises: PoolerUnsupported."""
    if is_pooled_by_transaction(connection, lambda: connect(url)):
        raise PoolerUnsupported(shown_address(url))


def first_line(error: object) -> str:
    """Return the first line of what the database said."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
