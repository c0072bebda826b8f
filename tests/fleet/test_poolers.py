"""Poolers: one in transaction mode is recognised and refused, and one in session mode works."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.adapters.storage.postgres_clusters import PASSWORD, free_port, unprivileged
from tests.fleet.platforms import Platform
from tests.racing import until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed on this machine"),
]
SETTINGS = """\
[databases]
postgres = host=127.0.0.1 port={database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {folder}/users
pool_mode = {mode}
"""


@contextmanager
def pooler(folder: Path, url: str, mode: str) -> Iterator[str]:
    """Run pgbouncer before a database, and yield the address at which it answers."""
    folder.mkdir()
    port = free_port()
    (folder / "users").write_text(f'"aop" "{PASSWORD}"\n')
    settings = SETTINGS.format(database=urlsplit(url).port, port=port, folder=folder, mode=mode)
    (folder / "settings.ini").write_text(settings)
    user = unprivileged().pw_uid if os.geteuid() == 0 else None
    # It does not run as root, and a folder of pytest is for its user alone.
    own = ["-u", unprivileged().pw_name] if user is not None else []
    assert PROGRAM is not None
    with (folder / "log").open("w") as log:
        started = subprocess.Popen([PROGRAM, *own, str(folder / "settings.ini")], stdout=log, stderr=log)
    address = url.replace(f":{urlsplit(url).port}/", f":{port}/")
    try:
        until(lambda: started.poll() is not None or answers(address), seconds=60)
        assert started.poll() is None, (folder / "log").read_text()
        yield address
    finally:
        started.kill()
        started.wait()


def answers(address: str) -> bool:
    try:
        psycopg.connect(address, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_pooler_in_transaction_mode_is_refused_by_worker_platform_and_leader(platform: Platform) -> None:
    platform.feature("search")
    specs = platform.folder / "specs"
    specs.mkdir()
    (specs / "search.md").write_text("Search.\n")
    commands = (("worker",), ("platform", "init"), ("run", "-fl", str(specs), "--wait"), ("resume", "--wait"))
    with pooler(platform.folder / "pooler", platform.url, "transaction") as address:
        for words in commands:
            ran = platform.aop(*words, "--json", env={"AOP_DATABASE": address})
            assert (ran.code, ran.json["error"]["code"]) == (2, "pooler_unsupported"), (words, ran.out)
            assert PASSWORD not in ran.out + ran.err
    assert platform.aop("status", "--json").json["data"]["features"][0]["status"] == "planning"


def test_a_pooler_in_session_mode_works(platform: Platform) -> None:
    with pooler(platform.folder / "pooler", platform.url, "session") as address:
        worker = platform.worker(url=address)
        platform.env["AOP_DATABASE"] = address
        platform.feature("search")
        assert platform.gates("search").code == 0
        assert [run["worker"] for run in platform.evidence("search")] == [worker.id]
        assert worker.end() == 0
