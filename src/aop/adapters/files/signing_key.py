"""Signing key: a file that only its owner can read, made on first use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from aop.core.errors import Fault

KEY_BYTES = 32
_COARSE_STEP_NS = 2_000_000_000
"""The coarsest clock of a file system: a file that is younger may change again and keep its time."""


class FileSigner:
    """Implements `aop.kernel.ports.signer.Signer` with HMAC-SHA256."""

    def __init__(self, path: Path, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._path = path
        self._now_ns = now_ns
        self._kept: tuple[tuple[int, ...], bytes] | None = None
        """The status of the file and its key: a server checks a token with each request."""

    def sign(self, text: bytes) -> str:
        # Only approvals are signed, and every command makes a signer.
        import base64
        import hmac

        digest = hmac.new(self._key(), text, "sha256").digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def verify(self, text: bytes, signature: str) -> bool:
        import hmac

        return hmac.compare_digest(self.sign(text).encode(), signature.encode())

    def _key(self) -> bytes:
        kept, status = self._kept, self._status()
        if kept is not None and kept[0] == status:
            return kept[1]
        key = self._read_key()
        # Asked before the file was read: a key that replaced it meanwhile has another status.
        is_settled = status is not None and max(status[-2:]) + _COARSE_STEP_NS < self._now_ns()
        self._kept = (status, key) if status is not None and is_settled else None
        return key

    def _status(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns

    def _read_key(self) -> bytes:
        try:
            key = self._path.read_bytes()
        except FileNotFoundError:
            key = self._make_key()
        # A key that was cut short or emptied would let anyone sign.
        if len(key) != KEY_BYTES:
            raise Fault(f"The signing key `{self._path.name}` does not have {KEY_BYTES} bytes.")
        return key

    def _make_key(self) -> bytes:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = self._path.with_name(f".aop-{os.urandom(8).hex()}.tmp")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(KEY_BYTES))
                file.flush()
                os.fsync(descriptor)
            # A link fails if the file exists: two processes that make the key at once both use the first one.
            os.link(beside, self._path)
        except FileExistsError:
            pass
        finally:
            beside.unlink(missing_ok=True)
        return self._path.read_bytes()
