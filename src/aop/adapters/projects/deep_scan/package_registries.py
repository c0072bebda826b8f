"""Package registries: newest versions, asked through the package managers.

They know which registry to ask, through which proxy and with which credentials; AOP knows none of that.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase

from aop.core.text.counts import count
from aop.forge.scan.file_facts import Dependency, Ecosystem
from aop.kernel.ports.handed_in import Report

PACKAGE_SECONDS = 30.0
ALL_SECONDS = 300.0
AT_ONCE = 4
MOST_PACKAGES = 400

_NAMES: Mapping[str, re.Pattern[str]] = {
    "python": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}"),
    "node": re.compile(r"(?:@[a-z0-9~][a-z0-9._~-]{0,100}/)?[A-Za-z0-9~][A-Za-z0-9._~-]{0,200}(?<!\.git)"),
    "rust": re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,100}"),
    "go": re.compile(r"[A-Za-z0-9][\w./~-]{0,200}"),
}
"""Names of packages; anything else could be taken for an address that the repository chose."""
_PIP = re.compile(r"^\S+ \((\d[^)\s]*)\)", re.MULTILINE)
_CARGO = re.compile(r'^(\S+) = "([^"]+)"', re.MULTILINE)
_GO = re.compile(r"^(v\S+)$", re.MULTILINE)
_PROXY = re.compile(r"[,|]")
_NOT_PROXIES = ("direct", "off", "")

_COMMANDS: Mapping[Ecosystem, tuple[tuple[str, ...], ...]] = {
    "python": (("pip", "index", "versions"), ("pip3", "index", "versions")),
    "node": (("npm", "view", "--json", "--loglevel=error", "NAME", "version"),),
    "rust": (("cargo", "search", "--limit", "10", "--quiet"),),
    "go": (("go", "list", "-m", "-f", "{{.Version}}", "NAME@latest"),),
}


class PackageRegistries:
    """Implements `aop.forge.scan.ports.Registries` with the `pip`, `npm`, `cargo` and `go` on the PATH."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {
            **environ,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "NO_COLOR": "1",
            "GOFLAGS": "-mod=mod",
            "GOVCS": "*:off",
            "GOTOOLCHAIN": "local",
        }

    def latest(self, packages: Sequence[Dependency], report: Report) -> Mapping[str, str]:
        wanted = {f"{each.ecosystem}:{each.name}": each for each in packages if _is_name(each)}
        chosen = dict(list(wanted.items())[:MOST_PACKAGES])
        deadline = time.monotonic() + ALL_SECONDS
        # Not in the repository: its own settings must not choose the registry.
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
            if any(each.ecosystem == "go" for each in chosen.values()):
                chosen = self._through_proxies(chosen, folder)
            answers = list(pool.map(lambda each: self._newest(each, folder, deadline), chosen.values()))
        found = {key: version for key, version in zip(chosen, answers, strict=True) if version}
        if len(found) < len(wanted):
            report(f"No newest version found for {count(len(wanted) - len(found), 'package')}")
        return found

    def _through_proxies(self, chosen: Mapping[str, Dependency], folder: str) -> dict[str, Dependency]:
        """Let `go` ask the proxies that it is set up for, and never the host that a module names.

        Modules that it would fetch without a proxy are left out: their names are not told to one.
        """
        program = shutil.which("go", path=self._environ.get("PATH"))
        said = self._output([program, "env", "GOPROXY", "GONOPROXY"], folder, PACKAGE_SECONDS) if program else ""
        proxies, private = [*said.split("\n"), "", ""][:2]
        named = [each for each in _PROXY.split(proxies.strip()) if each not in _NOT_PROXIES]
        self._environ |= {"GOPROXY": ",".join(named) or "off", "GONOPROXY": "none"}
        asked = {key for key, each in chosen.items() if named and not _is_private(each.name, private.strip())}
        return {key: each for key, each in chosen.items() if each.ecosystem != "go" or key in asked}

    def _newest(self, package: Dependency, folder: str, deadline: float) -> str:
        command = self._command(package)
        seconds = min(PACKAGE_SECONDS, deadline - time.monotonic())
        if command is None or seconds <= 0:
            return ""
        return _READERS[package.ecosystem](package.name, self._output(command, folder, seconds))

    def _output(self, command: Sequence[str], folder: str, seconds: float) -> str:
        """Return what a program prints; nothing if it fails."""
        try:
            ran = subprocess.run(
                command,
                cwd=folder,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=seconds,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return ran.stdout if ran.returncode == 0 else ""

    def _command(self, package: Dependency) -> list[str] | None:
        for words in _COMMANDS.get(package.ecosystem, ()):
            program = shutil.which(words[0], path=self._environ.get("PATH"))
            if program is not None:
                filled = [word.replace("NAME", package.name) for word in words[1:]]
                return [program, *filled, *([] if filled != list(words[1:]) else [package.name])]
        return None


def _is_name(package: Dependency) -> bool:
    pattern = _NAMES.get(package.ecosystem)
    return pattern is not None and pattern.fullmatch(package.name) is not None


def _is_private(module: str, patterns: str) -> bool:
    """Tell whether a module is one that `go` fetches from its own host, by the patterns of GONOPROXY."""
    parts = module.split("/")
    for pattern in filter(None, patterns.split(",")):
        wanted = pattern.strip("/").split("/")
        if len(wanted) <= len(parts) and all(map(fnmatchcase, parts, wanted)):
            return True
    return False


def _npm_version(_name: str, output: str) -> str:
    try:
        value = json.loads(output)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


def _cargo_version(name: str, output: str) -> str:
    """Return the version of the crate with this very name: a search also finds others, and may list them first."""
    return next((version for found, version in _CARGO.findall(output) if found == name), "")


def _first(pattern: re.Pattern[str]) -> Callable[[str, str], str]:
    return lambda _name, output: found.group(1) if (found := pattern.search(output)) else ""


_READERS: Mapping[str, Callable[[str, str], str]] = {
    "python": _first(_PIP),
    "node": _npm_version,
    "rust": _cargo_version,
    "go": _first(_GO),
}
