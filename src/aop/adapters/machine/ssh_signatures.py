"""SSH signatures: approvals signed and checked by OpenSSH's `ssh-keygen`."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from aop.core.errors import InvalidCliArgs, SignaturesUnavailable

PROGRAM = "ssh-keygen"
CHECK_SECONDS = 20


class SshSignatures:
    """Implements `aop.kernel.ports.signer.Signatures`."""

    def __init__(self, namespace: str, environ: Mapping[str, str]) -> None:
        self._namespace = namespace
        self._environ = dict(environ)

    def signer_of(self, text: bytes, signature: str, signers: Sequence[str]) -> str | None:
        with tempfile.TemporaryDirectory(prefix="aop-") as folder:
            allowed, signed = Path(folder, "allowed_signers"), Path(folder, "signature")
            allowed.write_text("".join(f"{line}\n" for line in signers), encoding="utf-8")
            signed.write_text(signature, encoding="utf-8")
            files = ["-s", str(signed), "-f", str(allowed)]
            # Who made the signature is in the file of signers; whether it is one of this text, only `verify` says.
            found = self._check(["find-principals", *files], b"")
            for name in re.split(r"[,\n]", (found or "").strip()):
                if self._check(["verify", *files, "-I", name, "-n", self._namespace], text) is not None:
                    return name
        return None

    def sign(self, text: bytes, key: str) -> str:
        """Return a signature with a person's key. It may ask for a passphrase or a touch.

        Raises: InvalidCliArgs, SignaturesUnavailable.
        """
        command = [PROGRAM, "-Y", "sign", "-q", "-f", str(Path(key).expanduser()), "-n", self._namespace]
        try:
            ran = subprocess.run(command, input=text, stdout=subprocess.PIPE, env=self._environ, check=False)
        except OSError as error:
            raise _unavailable(error) from error
        if ran.returncode != 0 or b"BEGIN SSH SIGNATURE" not in ran.stdout:
            raise InvalidCliArgs(
                "The approval was not signed: `ssh-keygen` could not use the key.",
                hint="Name a private key, or the public half of one that your ssh-agent holds: --key FILE",
            )
        return ran.stdout.decode()

    def _check(self, words: Sequence[str], text: bytes) -> str | None:
        try:
            ran = subprocess.run(
                [PROGRAM, "-Y", *words],
                input=text,
                capture_output=True,
                env=self._environ,
                timeout=CHECK_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _unavailable(error) from error
        return ran.stdout.decode(errors="replace") if ran.returncode == 0 else None


def _unavailable(error: Exception) -> SignaturesUnavailable:
    why = error.strerror if isinstance(error, OSError) else f"it did not answer within {CHECK_SECONDS} s"
    return SignaturesUnavailable(f"`{PROGRAM}` cannot be used: {why}.")
