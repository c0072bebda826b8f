"""Imports are resolved to files by the rules of each language; the rest are packages outside."""

from __future__ import annotations

import pytest

from aop.core.ids import CommitId, ObjectId
from aop.forge.scan.file_facts import ImportFact, Language, ManifestFacts, SourceFacts
from aop.forge.scan.imports.import_targets import resolve_imports
from aop.forge.scan.inventory import Inventory, SourceFile
from aop.forge.scan.routes import imports_between

PATHS: tuple[tuple[str, Language], ...] = (
    ("src/pkg/__init__.py", "python"),
    ("src/pkg/a.py", "python"),
    ("src/pkg/sub/__init__.py", "python"),
    ("src/pkg/sub/b.py", "python"),
    ("tools/script.py", "python"),
    ("web/src/app.ts", "typescript"),
    ("web/src/lib/index.ts", "typescript"),
    ("web/src/view.tsx", "typescript"),
    ("packages/core/src/index.ts", "typescript"),
    ("api/src/main/java/org/shop/Cart.java", "java"),
    ("svc/cmd/main.go", "go"),
    ("svc/store/store.go", "go"),
    ("eng/src/lib.rs", "rust"),
    ("eng/src/a/mod.rs", "rust"),
    ("eng/src/a/b.rs", "rust"),
)
MANIFESTS = {
    "packages/core/package.json": ManifestFacts(ecosystem="node", name="@shop/core"),
    "svc/go.mod": ManifestFacts(ecosystem="go", name="shop.org/svc"),
    "eng/Cargo.toml": ManifestFacts(ecosystem="rust", name="eng"),
}


def inventory(importing: str, fact: ImportFact) -> Inventory:
    sources = tuple(
        SourceFile(
            path=path, language=language, facts=SourceFacts(lines=1, imports=(fact,) if path == importing else ())
        )
        for path, language in PATHS
    )
    return Inventory(commit=CommitId(ObjectId("0" * 40)), sources=sources, manifests=MANIFESTS)


@pytest.mark.parametrize(
    ("file", "target", "names", "expected"),
    [
        ("tools/script.py", "pkg.a", (), ["src/pkg/a.py"]),
        ("tools/script.py", "pkg", ("a", "sub"), ["src/pkg/a.py", "src/pkg/sub/__init__.py"]),
        ("tools/script.py", "pkg.a", ("anything",), ["src/pkg/a.py"]),
        ("tools/script.py", "src.pkg.a", (), ["src/pkg/a.py"]),
        ("src/pkg/sub/b.py", "..", ("a",), ["src/pkg/a.py"]),
        ("src/pkg/sub/b.py", "..a", ("f as g",), ["src/pkg/a.py"]),
        ("src/pkg/a.py", ".sub.b", (), ["src/pkg/sub/b.py"]),
        ("src/pkg/a.py", "." * 50, ("x",), []),
        ("web/src/app.ts", "./lib", (), ["web/src/lib/index.ts"]),
        ("web/src/app.ts", "./view.js", (), ["web/src/view.tsx"]),
        ("web/src/app.ts", "@shop/core", (), ["packages/core/src/index.ts"]),
        ("web/src/app.ts", "../../../../../etc/passwd", (), []),
        ("api/src/main/java/org/shop/Cart.java", "org.shop.Cart.total", (), []),
        ("svc/cmd/main.go", "shop.org/svc/store", (), ["svc/store/store.go"]),
        ("eng/src/lib.rs", "crate::a::b::Thing", (), ["eng/src/a/b.rs"]),
        ("eng/src/lib.rs", "self::a", (), ["eng/src/a/mod.rs"]),
        ("eng/src/a/b.rs", "super::Other", (), []),
    ],
)
def test_an_import_leads_to_files(file: str, target: str, names: tuple[str, ...], expected: list[str]) -> None:
    found = resolve_imports(inventory(file, ImportFact(3, target, names)))
    assert [(edge.file, edge.line, edge.target) for edge in found.edges] == [(file, 3, each) for each in expected]


@pytest.mark.parametrize(
    ("file", "target", "expected"),
    [
        ("tools/script.py", "os.path", []),
        ("tools/script.py", "requests.auth", ["requests"]),
        ("web/src/app.ts", "react-dom/client", ["react-dom"]),
        ("web/src/app.ts", "@x/y/z", ["@x/y"]),
        ("web/src/app.ts", "node:fs", []),
        ("web/src/app.ts", "./missing", []),
        ("api/src/main/java/org/shop/Cart.java", "java.util.List", []),
        ("api/src/main/java/org/shop/Cart.java", "com.google.common.Lists", ["com.google.common"]),
        ("svc/cmd/main.go", "fmt", []),
        ("svc/cmd/main.go", "github.com/x/y", ["github.com/x/y"]),
        ("eng/src/lib.rs", "std::io", []),
        ("eng/src/lib.rs", "serde::Serialize", ["serde"]),
    ],
)
def test_what_is_not_in_the_repository_is_a_package_outside(file: str, target: str, expected: list[str]) -> None:
    found = resolve_imports(inventory(file, ImportFact(1, target)))
    assert ([each.package for each in found.outside], found.edges) == (expected, ())


def test_imports_between_two_globs() -> None:
    found = resolve_imports(inventory("tools/script.py", ImportFact(2, "pkg.sub", ("b",))))
    assert [edge.line for edge in imports_between(found, "tools/*", "src/pkg/**")] == [2]
    assert list(imports_between(found, "src/**", "src/pkg/**")) == []
