"""Signed text: `HEAD.PAYLOAD.SIGNATURE`, the payload a struct in canonical JSON."""

from __future__ import annotations

import base64
import binascii
from enum import StrEnum
from typing import TypeVar

import msgspec
from msgspec import Struct

from aop.core.text.json import MalformedText, canonical_json, parse_json
from aop.kernel.ports.signer import Signer

LONGEST_TEXT = 4096

S = TypeVar("S", bound=Struct)


class SignatureProblem(StrEnum):
    """The reason why a signed text does not count."""

    MALFORMED = "malformed"
    FORGED = "forged"
    UNREADABLE = "unreadable"


class NotSigned(Exception):
    """A text that this repository did not sign in this form."""

    def __init__(self, problem: SignatureProblem) -> None:
        super().__init__(problem)
        self.problem = problem


class SignedForm(Struct, frozen=True, kw_only=True):
    """One form of signed text; the text itself has no say in how it is verified."""

    head: str
    covered: str
    """The text before the payload that the signature covers too: no form passes for another."""

    def write(self, claims: Struct, signer: Signer) -> str:
        """Return the signed text; the same claims give the same text."""
        payload = base64.urlsafe_b64encode(canonical_json(msgspec.to_builtins(claims))).rstrip(b"=").decode()
        return f"{self.head}.{payload}.{signer.sign(self._signed(payload))}"

    def read(self, text: str, shape: type[S], signer: Signer) -> S:
        """Return the claims of a signed text. Raises: NotSigned."""
        if len(text) > LONGEST_TEXT or not text.isascii() or text.count(".") != 2:
            raise NotSigned(SignatureProblem.MALFORMED)
        head, payload, signature = text.split(".")
        if head != self.head or not signer.verify(self._signed(payload), signature):
            raise NotSigned(SignatureProblem.FORGED)
        try:
            return msgspec.convert(parse_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))), shape)
        except (binascii.Error, MalformedText, msgspec.ValidationError) as error:
            raise NotSigned(SignatureProblem.UNREADABLE) from error

    def _signed(self, payload: str) -> bytes:
        return f"{self.covered}{payload}".encode()
