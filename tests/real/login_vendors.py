"""Log-in vendors: the scripted model behind TLS, with the endpoints of the vendors' log-ins."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.real.fake_vendors import Conversation, FakeVendors, Json, Says, gemini_events, listening

TOKEN_HOSTS = {"claude": "platform.claude.com", "codex": "auth.openai.com", "gemini": "oauth2.googleapis.com"}
HOSTS = (*TOKEN_HOSTS.values(), "api.anthropic.com", "chatgpt.com", "cloudcode-pa.googleapis.com")
EMAIL = "person@vendor.example"
ACCOUNT = {"https://api.openai.com/auth": {"chatgpt_account_id": "acc-1", "chatgpt_plan_type": "pro"}}
WORKSPACE = {"id": "acc-1", "workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "us"}


def jwt(**claims: Any) -> str:
    """Return a token with claims, and a signature of no worth."""
    parts = [json.dumps(part).encode() for part in ({"alg": "RS256", "typ": "JWT"}, claims)]
    return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), "c2lnbmF0dXJl"])


class LoginTokens:
    """The tokens of one log-in: before and after a renewal."""

    def __init__(self, vendor: str) -> None:
        self.access = self._access(vendor, "before")
        self.refresh = f"rt-of-the-person-before-{vendor}-0123456789"
        self.next_access = self._access(vendor, "after")
        # Google's stays the same.
        self.next_refresh = self.refresh if vendor == "gemini" else f"rt-of-the-person-after-{vendor}-0123456789"

    @property
    def values(self) -> tuple[str, ...]:
        return (self.access, self.refresh, self.next_access, self.next_refresh)

    @staticmethod
    def _access(vendor: str, when: str) -> str:
        far = int(time.time()) + 86400
        return (
            jwt(exp=far, when=when, **ACCOUNT) if vendor == "codex" else f"access-of-{vendor}-{when}-0123456789abcdef"
        )


def log_in(vendor: str, home: Path, tokens: LoginTokens, *, seconds: float) -> Path:
    """Leave what the log-in of a program leaves, and return its file."""
    ends = time.time() + seconds
    content: Json
    match vendor:
        case "claude":
            path = home / ".claude/.credentials.json"
            content = {"accessToken": tokens.access, "refreshToken": tokens.refresh, "expiresAt": int(ends * 1000)}
            content |= {"scopes": ["user:inference", "user:profile"], "subscriptionType": "max"}
            content = {"claudeAiOauth": content}
        case "codex":
            path = home / ".codex/auth.json"
            access = tokens.access if seconds > 0 else jwt(exp=int(ends), **ACCOUNT)
            own = {"id_token": jwt(email=EMAIL, exp=int(ends), **ACCOUNT), "access_token": access}
            own |= {"refresh_token": tokens.refresh, "account_id": "acc-1"}
            now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
            content = {"OPENAI_API_KEY": None, "auth_mode": "chatgpt", "tokens": own, "last_refresh": now}
        case _:
            path = home / ".gemini/oauth_creds.json"
            content = {"access_token": tokens.access, "refresh_token": tokens.refresh, "token_type": "Bearer"}
            content |= {"scope": "https://www.googleapis.com/auth/cloud-platform", "expiry_date": int(ends * 1000)}
            _write(home / ".gemini/google_accounts.json", {"active": EMAIL, "old": []})
    return _write(path, content)


def _write(path: Path, content: Json) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))
    return path


class LoginVendors(FakeVendors):
    """Listens on this machine, under the names of the vendors."""

    def __init__(self, says: Says, tokens: LoginTokens, folder: Path) -> None:
        super().__init__(says, LoginConversation)
        self.tokens = tokens
        self.renewals: list[str] = []
        self.is_refusing = False
        """Whether a refresh token is answered as one that was used before."""
        self.certificate = folder / "authority.pem"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_certificates(folder, self.certificate))
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def renewed(self, host: str, refresh: str) -> Json:
        self.renewals.append(refresh)
        tokens = self.tokens
        answer: Json = {"access_token": tokens.next_access, "token_type": "Bearer", "expires_in": 3600}
        if host != TOKEN_HOSTS["gemini"]:
            answer |= {"refresh_token": tokens.next_refresh, "scope": "user:inference user:profile"}
        return {**answer, "id_token": jwt(email=EMAIL, **ACCOUNT)} if host == TOKEN_HOSTS["codex"] else answer


@contextmanager
def login_vendors(says: Says, tokens: LoginTokens, folder: Path) -> Iterator[LoginVendors]:
    """Have such a model listen."""
    with LoginVendors(says, tokens, folder) as model, listening(model):
        yield model


class LoginConversation(Conversation):
    """Answers under all names."""

    server: LoginVendors

    def answer_get(self) -> None:
        if "Upgrade" in self.headers:
            self._send("application/json", b"{}", status=426)
        elif self.path.startswith("/backend-api/wham/accounts/check"):
            self._answer({"accounts": [WORKSPACE], "account_ordering": ["acc-1"]})
        else:
            super().answer_get()

    def answer_post(self) -> None:
        host, path = self.headers["host"], self.path.partition("?")[0]
        if path in ("/v1/oauth/token", "/oauth/token", "/token"):
            body = self._body().decode()
            form = json.loads(body) if body.startswith("{") else {name: at[0] for name, at in parse_qs(body).items()}
            if self.server.is_refusing:
                self._send("application/json", b'{"error": "invalid_grant"}', status=400)
            else:
                self._answer(self.server.renewed(host, form["refresh_token"]))
        elif path == "/tokeninfo":
            self._body()
            self._answer({"expires_in": 3000, "scope": "https://www.googleapis.com/auth/cloud-platform"})
        elif path.startswith("/v1internal:"):
            self._internal(path.partition(":")[2])
        else:
            super().answer_post()

    def _internal(self, method: str) -> None:
        """Answer as the service behind Gemini's log-in, which wraps the requests and answers of the model."""
        request = json.loads(self._body() or b"{}")
        self._note_key()
        if "enerateContent" not in method:
            self._answer({"currentTier": {"id": "free-tier"}, "cloudaicompanionProject": "project-1"})
            return
        inner, model = request["request"], str(request["model"])
        events = gemini_events(self._reply_as_gemini(inner, f"/models/{model}:"), self.server.number)
        wrapped = [json.dumps({"response": event}) for event in events]
        if method.startswith("stream"):
            self._send("text/event-stream", "".join(f"data: {event}\n\n" for event in wrapped).encode())
        else:
            self._send("application/json", wrapped[0].encode())

    def _answer(self, content: Json) -> None:
        self._send("application/json", json.dumps(content).encode())


def _certificates(folder: Path, authority: Path) -> Path:
    """Write an authority, and a certificate of all hosts by it with its key."""
    folder.mkdir(parents=True, exist_ok=True)
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A test authority")])
    begin = datetime.now(UTC) - timedelta(days=1)

    def builder(public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        made = x509.CertificateBuilder().issuer_name(root_name).public_key(public)
        dated = made.not_valid_before(begin).not_valid_after(begin + timedelta(days=30))
        return dated.serial_number(x509.random_serial_number())

    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    root = builder(root_key.public_key()).subject_name(root_name).add_extension(usage, critical=True)
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    root = root.add_extension(x509.SubjectKeyIdentifier.from_public_key(root_key.public_key()), critical=False)
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS])
    own = builder(key.public_key()).subject_name(x509.Name([])).add_extension(names, critical=True)
    own = own.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key())
    own = own.add_extension(issuer, critical=False)
    pem = serialization.Encoding.PEM
    authority.write_bytes(root.sign(root_key, hashes.SHA256()).public_bytes(pem))
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "server.pem"
    path.write_bytes(own.sign(root_key, hashes.SHA256()).public_bytes(pem) + plain)
    return path
