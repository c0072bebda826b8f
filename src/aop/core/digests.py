"""Digests: SHA-256 of bytes. `hashlib` is large, and is imported by the first call."""

from __future__ import annotations


def sha256(content: bytes) -> bytes:
    """Return the digest of a content."""
    import hashlib

    return hashlib.sha256(content).digest()


def sha256_hex(content: bytes) -> str:
    """Return the digest of a content, as text."""
    return sha256(content).hex()
