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
_CARGO = re.compile(r'^\S+ = "([^"]+)"', re.MULTILINE)
_GO = re.compile(r"^(v\S+)$", re.MULTILINE)

_COMMANDS: Mapping[Ecosystem, tuple[tuple[str, ...], ...]] = {
    "python": (("pip", "index", "versions"), ("pip3", "index", "versions")),
    "node": (("npm", "view", "--json", "--loglevel=error", "NAME", "version"),),
    "rust": (("cargo", "search", "--limit", "1", "--quiet"),),
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
        }

    def latest(self, packages: Sequence[Dependency], report: Report) -> Mapping[str, str]:
        wanted = {f"{each.ecosystem}:{each.name}": each for each in packages if _is_name(each)}
        chosen = dict(list(wanted.items())[:MOST_PACKAGES])
        deadline = time.monotonic() + ALL_SECONDS
        # Not in the repository: its own settings must not choose the registry.
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda each: self._newest(each, folder, deadline), chosen.values()))
        found = {key: version for key, version in zip(chosen, answers, strict=True) if version}
        if len(found) < len(wanted):
            report(f"No newest version found for {count(len(wanted) - len(found), 'package')}")
        return found

    def _newest(self, package: Dependency, folder: str, deadline: float) -> str:
        command = self._command(package)
        seconds = min(PACKAGE_SECONDS, deadline - time.monotonic())
        if command is None or seconds <= 0:
            return ""
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
        return _READERS[package.ecosystem](ran.stdout) if ran.returncode == 0 else ""

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


def _npm_version(output: str) -> str:
    try:
        value = json.loads(output)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


def _first(pattern: re.Pattern[str]) -> Callable[[str], str]:
    return lambda output: found.group(1) if (found := pattern.search(output)) else ""


_READERS: Mapping[str, Callable[[str], str]] = {
    "python": _first(_PIP),
    "node": _npm_version,
    "rust": _first(_CARGO),
    "go": _first(_GO),
}
