"""PostgreSQL for tests: a cluster in a folder of its own, which ends with the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.racing import at_the_end_of_this_process

PROGRAMS = Path("/usr/lib/postgresql")
PASSWORD = "not-a-secret-of-anyone"


def programs() -> Path | None:
    """Return the folder with the newest `initdb` and `pg_ctl` of this machine, or None."""
    found = shutil.which("initdb")
    if found and (Path(found).resolve().parent / "pg_ctl").exists():
        return Path(found).resolve().parent
    versions = sorted(PROGRAMS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


needs_postgres = pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed on this machine")


class Cluster:
    """A cluster that can be stopped and started."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self._address = address
        self._port = free_port()
        self.url = f"postgresql://aop:{PASSWORD}@{address}:{self._port}/postgres"

    def make(self) -> None:
        secret, data = self.folder / "password", self.folder / "data"
        secret.write_text(PASSWORD)
        _run(self.folder, "initdb", "-D", data, "-U", "aop", "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8")
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet scram-sha-256\n")

    def start(self) -> None:
        options = (
            f"-p {self._port} -c listen_addresses={self._address} -c unix_socket_directories= -c fsync=off"
            " -c max_connections=200"
        )
        folder = self.folder
        _run(folder, "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-w", "-o", options, "start")

    def stop(self) -> None:
        """Stop it as a power cut would."""
        _run(self.folder, "pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")


@contextmanager
def running_cluster() -> Iterator[str]:
    """Run a cluster on a free port of 127.0.0.1, and yield the address of its database."""
    with running_cluster_at("127.0.0.1") as cluster:
        yield cluster.url


@contextmanager
def running_cluster_at(address: str) -> Iterator[Cluster]:
    """Run a cluster on a free port of an address of this machine."""
    folder = Path(tempfile.mkdtemp(prefix="aop-postgres-"))
    # PostgreSQL does not run as root.
    user = unprivileged() if os.geteuid() == 0 else None
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    home = programs()
    assert home is not None
    end = '"$1/pg_ctl" -D "$2/data" -m immediate -w stop; rm -rf "$2"'
    with at_the_end_of_this_process(end, home, folder, user=user.pw_uid if user else None):
        cluster = Cluster(folder, address)
        cluster.make()
        cluster.start()
        yield cluster


def _run(folder: Path, program: str, *arguments: object) -> None:
    home = programs()
    assert home is not None
    user = unprivileged().pw_uid if os.geteuid() == 0 else None
    words = [str(home / program), *map(str, arguments)]
    environ = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    # Its server keeps what it is given open: no pipe may wait for it.
    with (folder.parent / f"{folder.name}.log").open("w+") as output:
        try:
            done = subprocess.run(
                words, env=environ, cwd=folder, stdout=output, stderr=output, check=False, user=user, extra_groups=[]
            )
            output.seek(0)
            assert done.returncode == 0, output.read()
        finally:
            Path(output.name).unlink()


def unprivileged() -> pwd.struct_passwd:
    """Return a user without rights, for programs that do not run as root."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise AssertionError("There is no user without rights on this machine.")


def free_port() -> int:
    """Return a port of those that nobody gets who asks for any: it stays free until it is used, and in between."""
    # Each of the processes that run tests begins elsewhere: what one has chosen, it binds seconds later.
    for port in range(20_000 + os.getpid() * 64 % 12_000, 32_768):
        with socket.socket() as taken, suppress(OSError):
            taken.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
