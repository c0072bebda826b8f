"""Technologies: the known names of languages, frameworks and databases in a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

KINDS: Mapping[str, Mapping[str, str]] = {
    "language": {
        "Python": r"(?i:\bpython\b)",
        "TypeScript": r"(?i:\btypescript\b)",
        "JavaScript": r"(?i:\bjavascript\b|\bnode(?:\.js)\b)|\bNode\b",
        "Java": r"\bJava\b",
        "Kotlin": r"(?i:\bkotlin\b)",
        "Go": r"(?i:\bgolang\b)|\bGo(?= 1\.|[,;:)]|$| with| and| modules)",
        "Rust": r"\bRust\b",
        "Ruby": r"(?i:\bruby\b)",
        "PHP": r"\bPHP\b",
        "C#": r"\bC#|(?i:\.net\b)",
    },
    "backend": {
        "FastAPI": r"(?i:\bfastapi\b)",
        "Flask": r"\b[Ff]lask\b",
        "Django": r"(?i:\bdjango\b)",
        "Starlette": r"(?i:\bstarlette\b)",
        "Express": r"\bExpress\b|(?i:\bexpress\.js\b)",
        "NestJS": r"(?i:\bnest\.?js\b)",
        "Fastify": r"(?i:\bfastify\b)",
        "Spring": r"\bSpring\b|(?i:\bspring boot\b)",
        "Rails": r"\bRails\b|(?i:\bruby on rails\b)",
        "Laravel": r"(?i:\blaravel\b)",
        "Gin": r"\bGin\b",
        "Axum": r"(?i:\baxum\b)",
        "Actix": r"(?i:\bactix\b)",
        "ASP.NET": r"(?i:\basp\.net\b)",
    },
    "database": {
        "PostgreSQL": r"(?i:\bpostgres(?:ql)?\b)",
        "MySQL": r"(?i:\bmysql\b)",
        "MariaDB": r"(?i:\bmariadb\b)",
        "SQLite": r"(?i:\bsqlite3?\b)",
        "MongoDB": r"(?i:\bmongo(?:db)?\b)",
        "DynamoDB": r"(?i:\bdynamodb\b)",
        "SQL Server": r"(?i:\bsql server\b)",
        "Oracle": r"\bOracle\b",
        "Firestore": r"(?i:\bfirestore\b)",
    },
    "frontend": {
        "React": r"\bReact\b|(?i:\bnext\.js\b)",
        "Vue": r"\bVue\b|(?i:\bvue\.js\b|\bnuxt\b)",
        "Svelte": r"(?i:\bsvelte(?:kit)?\b)",
        "Angular": r"\bAngular\b",
        "HTMX": r"(?i:\bhtmx\b)",
        "Jinja": r"(?i:\bjinja2?\b)",
    },
    "auth": {
        "session": r"(?i:\bsessions?\b)",
        "JWT": r"(?i:\bjwts?\b|\bjson web tokens?\b)",
        "OAuth": r"(?i:\boauth2?\b|\bopenid\b|\boidc\b)",
        "API key": r"(?i:\bapi[ -]keys?\b)",
        "magic link": r"(?i:\bmagic links?\b)",
        "SAML": r"(?i:\bsaml\b)",
    },
    "deployment": {
        "Docker": r"(?i:\bdocker\b|\bcontainers?\b|\bcontainer image\b)",
        "Kubernetes": r"(?i:\bkubernetes\b|\bk8s\b|\bhelm\b)",
        "AWS": r"\bAWS\b|(?i:\bamazon web services\b)",
        "Azure": r"\bAzure\b",
        "Google Cloud": r"\bGCP\b|(?i:\bgoogle cloud\b)",
        "Vercel": r"(?i:\bvercel\b)",
        "Netlify": r"(?i:\bnetlify\b)",
        "Heroku": r"(?i:\bheroku\b)",
        "Fly.io": r"(?i:\bfly\.io\b)",
        "systemd": r"(?i:\bsystemd\b)",
    },
}

LANGUAGES_OF_SUFFIX: Mapping[str, tuple[str, ...]] = {
    "py": ("Python",),
    "ts": ("TypeScript",),
    "tsx": ("TypeScript",),
    "js": ("JavaScript", "TypeScript"),
    "jsx": ("JavaScript", "TypeScript"),
    "java": ("Java",),
    "kt": ("Kotlin",),
    "go": ("Go",),
    "rs": ("Rust",),
    "rb": ("Ruby",),
    "php": ("PHP",),
    "cs": ("C#",),
}
LANGUAGES_OF_PROGRAM: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("python", "python3", "pytest", "ruff", "mypy", "tox", "poetry"), ("Python",)),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "node", "vitest", "jest"), ("JavaScript", "TypeScript")),
    **dict.fromkeys(("mvn", "gradle", "./mvnw", "./gradlew"), ("Java", "Kotlin")),
    "cargo": ("Rust",),
    "go": ("Go",),
    "bundle": ("Ruby",),
    "composer": ("PHP",),
    "dotnet": ("C#",),
}
_LANGUAGE_OF_FRAMEWORK: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("FastAPI", "Flask", "Django", "Starlette", "Jinja"), ("Python",)),
    **dict.fromkeys(
        ("Express", "NestJS", "Fastify", "React", "Vue", "Svelte", "Angular"), ("JavaScript", "TypeScript")
    ),
    "Spring": ("Java", "Kotlin"),
    "Rails": ("Ruby",),
    "Laravel": ("PHP",),
    "Gin": ("Go",),
    "Axum": ("Rust",),
    "Actix": ("Rust",),
    "ASP.NET": ("C#",),
}


def technologies_in(kind: str, text: str) -> frozenset[str]:
    """Return the known technologies of one kind that a text names."""
    return frozenset(name for name, pattern in _patterns(kind).items() if pattern.search(text))


def languages_in(text: str) -> frozenset[str]:
    """Return the languages that a text names, itself or by a framework."""
    frameworks = technologies_in("backend", text) | technologies_in("frontend", text)
    implied = (language for name in frameworks for language in _LANGUAGE_OF_FRAMEWORK.get(name, ()))
    return technologies_in("language", text).union(implied)


@cache
def _patterns(kind: str) -> Mapping[str, re.Pattern[str]]:
    return {name: re.compile(pattern, re.MULTILINE) for name, pattern in KINDS[kind].items()}
