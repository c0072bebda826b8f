"""Installs a lock, and AOP from its source, into a virtual environment: `python3 install.py .venv run.lock`.

Most of pip's time goes into reading pages of an index, so several pips share the lock. The environment gets no pip
where the Python that makes it has one. What a lock installs is kept in the user's cache, one environment for each lock
and each Python: the next clone copies it in a few seconds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = 4
"""How many environments the cache holds; the ones that were used least recently go first."""
PIPS = min(4, os.cpu_count() or 1)
INSTALL = "install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r".split()
START = """#!{python}
import sys
from aop.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""


def main(environment: Path, lock: Path) -> int:
    environment = environment.absolute()
    kept, is_new = _kept_environment(lock), not environment.exists()
    if is_new and kept.exists():
        os.utime(kept)
        _copy(kept, environment)
    elif not _make(environment, lock):
        return 1
    elif is_new:
        _keep(environment, kept)
    _add_aop(environment / "bin" / "python")
    return 0


def _make(environment: Path, lock: Path) -> bool:
    """Install the packages of a lock into an environment, which may exist; return whether it is complete."""
    python = environment / "bin" / "python"
    if not python.exists():
        venv.create(environment, clear=True, symlinks=True, with_pip=False)
    pip = _pip_for(python)
    if pip is None:
        print(
            f"{sys.executable} has neither pip nor ensurepip. Debian and Ubuntu: apt install python3-venv",
            file=sys.stderr,
        )
        return False
    if not _install(pip, lock):
        return False
    # Once for all copies; where nothing may be kept, each of a thousand processes would compile for itself.
    compiled = [str(python), "-m", "compileall", "-q", "-j", "0", str(environment / "lib")]
    subprocess.run(compiled, check=False)
    return True


def _kept_environment(lock: Path) -> Path:
    """Return where the cache has what this lock installs for this Python."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aop-ci" / "environments"
    parts = (
        lock.read_bytes(),
        sys.version.encode(),
        os.path.realpath(sys.executable).encode(),
        Path(__file__).read_bytes(),
    )
    return cache / hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _copy(source: Path, target: Path) -> None:
    """Copy an environment, whole or not at all, and give its programs the interpreter of the copy."""
    beside = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copytree(source, beside, symlinks=True)
    programs = [each for each in (beside / "bin").iterdir() if not each.is_symlink()]
    for path in (*programs, beside / "pyvenv.cfg"):
        written = path.read_bytes()
        if b"\0" not in written[:4096]:
            path.write_bytes(written.replace(os.fsencode(source), os.fsencode(target)))
    beside.rename(target)


def _keep(environment: Path, kept: Path) -> None:
    """Store a new environment in the cache; a cache that cannot be written costs time, and nothing else."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        old = sorted(kept.parent.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
        for each in old[KEPT - 1 :]:
            shutil.rmtree(each, ignore_errors=True)
        _copy(environment, kept)
    except OSError as error:
        print(f"{kept.parent} was not written: {error}", file=sys.stderr)


def _pip_for(python: Path) -> list[str] | None:
    """Return the command of a pip that installs for an interpreter."""
    shared, own = [sys.executable, "-m", "pip", "--python", str(python)], [str(python), "-m", "pip"]
    for pip in (shared, own):
        if _works([*pip, "--version"]):
            return pip
    return own if _works([str(python), "-m", "ensurepip", "--default-pip"]) else None


def _works(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _install(pip: list[str], lock: Path) -> bool:
    """Install the packages of a lock, each by one of the pips; return whether all of them succeeded."""
    pins = lock.read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    pins = [pin for pin in pins if pin and not pin.lstrip().startswith("#")]
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for number in range(PIPS):
            part = Path(folder) / f"{number}.lock"
            part.write_text("\n".join(pins[number::PIPS]), encoding="utf-8")
            running.append(subprocess.Popen([*pip, *INSTALL, str(part)]))
        return [each.wait() for each in running] == [0] * PIPS


def _add_aop(python: Path) -> None:
    """Make AOP's source importable, and `bin/aop` start it: what an editable install does, without a build."""
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(asked, capture_output=True, check=True, text=True).stdout.strip()
    Path(packages, "aop.pth").write_text(f"{ROOT / 'src'}\n", encoding="utf-8")
    # Linux takes neither a space nor more than 127 characters in the first line; a shell does.
    program, interpreter = python.with_name("aop"), str(python.absolute())
    if len(interpreter) > 120 or " " in interpreter:
        interpreter = f"/bin/sh\n'''exec' \"{interpreter}\" \"$0\" \"$@\"\n' '''"
    program.write_text(START.format(python=interpreter), encoding="utf-8")
    program.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
