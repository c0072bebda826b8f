"""Dependency checks: new packages are declared, and the stack names them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from aop.core.ids import TreeId
from aop.core.text.counts import count
from aop.forge.builds.audit.audit_verdicts import AuditCheck, judged
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.contracts.types import ContractType
from aop.forge.scan.file_facts import Ecosystem, Language, normal_name
from aop.forge.scan.findings.dependencies import packages_of
from aop.forge.scan.report import PackageUse

_ECOSYSTEMS: Mapping[Language, Ecosystem] = {
    "python": "python",
    "javascript": "node",
    "typescript": "node",
    "java": "maven",
    "go": "go",
    "rust": "rust",
}
_PACKAGE_OF_MODULE: Mapping[str, str] = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "flask_cors": "flask-cors",
    "git": "gitpython",
    "google": "google-api-python-client",
    "jose": "python-jose",
    "jwt": "pyjwt",
    "magic": "python-magic",
    "multipart": "python-multipart",
    "MySQLdb": "mysqlclient",
    "PIL": "pillow",
    "psycopg2": "psycopg2-binary",
    "rest_framework": "djangorestframework",
    "serial": "pyserial",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Python packages whose modules have another name."""


class _Names:
    """The packages that manifests ask for, and how an import finds its own."""

    def __init__(self, packages: tuple[PackageUse, ...]) -> None:
        self.declared = {(each.ecosystem, _normal(each.ecosystem, each.name)): each for each in packages}

    def package_of(self, ecosystem: Ecosystem, module: str) -> PackageUse | None:
        """Return the declared package of an import."""
        name = normal_name(ecosystem, module)
        other = _PACKAGE_OF_MODULE.get(module, name) if ecosystem == "python" else name
        exact = self.declared.get((ecosystem, name)) or self.declared.get((ecosystem, normal_name(ecosystem, other)))
        return exact or next((use for key, use in self.declared.items() if _holds(ecosystem, module, key)), None)


def _holds(ecosystem: Ecosystem, module: str, key: tuple[str, str]) -> bool:
    """Tell whether an import lies inside a package: Go by its path, Java by its group, a type package by its name."""
    kind, name = key
    if kind != ecosystem:
        return False
    if ecosystem == "go":
        return module == name or module.startswith(f"{name}/")
    if ecosystem == "maven":
        group = name.partition(":")[0]
        return module.startswith(group) or group.startswith(module)
    return ecosystem == "rust" and module.replace("_", "-") == name.replace("_", "-")


def check_dependencies(subject: AuditSubject) -> AuditCheck:
    """A9: every external import that is new is declared in a manifest, and named by the stack contract."""
    names = _Names(packages_of(subject.code.inventory))
    known = set(_imports_in(subject, subject.baseline))
    stack = subject.texts[ContractType.STACK]
    failures: list[str] = []
    doubts: list[str] = []
    seen: set[tuple[str, str]] = set()
    for ecosystem, module, place in _new(subject, known):
        seen.add((ecosystem, module))
        use = names.package_of(ecosystem, module)
        if use is None:
            failures.append(f"{place} imports `{module}`, which no manifest declares")
        elif not named_in(stack, use.name, module):
            told = f"{place} imports `{module}`, which the stack contract does not name"
            (doubts if use.group == "development" else failures).append(told)
    facts = [f"{count(len(seen), 'new package')}, {count(len(names.declared), 'package')} declared"]
    return judged("A9", failures=failures, doubts=doubts, facts=facts)


def named_in(stack: str, *names: str) -> bool:
    """Tell whether a stack contract names a package, in any spelling of its name."""
    text = _spelling(stack)
    return any(re.search(rf"(?<![a-z0-9]){re.escape(_spelling(name))}(?![a-z0-9])", text) for name in names)


def _spelling(text: str) -> str:
    return re.sub(r"[-_]+", "-", text.lower())


def _new(subject: AuditSubject, known: set[tuple[Ecosystem, str]]) -> Iterator[tuple[Ecosystem, str, str]]:
    told: set[tuple[str, str]] = set()
    for (ecosystem, module), place in _imports_in(subject, subject.tree).items():
        if (ecosystem, module) not in known and (ecosystem, module) not in told:
            told.add((ecosystem, module))
            yield ecosystem, module, place


def _imports_in(subject: AuditSubject, tree: TreeId) -> Mapping[tuple[Ecosystem, str], str]:
    """Return each outside package that a tree imports, and the first place that does."""
    languages = {source.path: source.language for source in subject.code_of(tree).inventory.sources}
    found: dict[tuple[Ecosystem, str], str] = {}
    for each in subject.imports_of(tree).outside:
        ecosystem = _ECOSYSTEMS.get(languages[each.file])
        if ecosystem is not None:
            found.setdefault((ecosystem, each.package), f"{each.file}:{each.line}")
    return found


def _normal(ecosystem: str, name: str) -> str:
    return normal_name("python", name) if ecosystem == "python" else name
