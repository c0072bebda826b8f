"""Import targets: the file behind an import, or the package outside."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from aop.forge.scan.file_facts import ImportFact
from aop.forge.scan.inventory import Inventory, SourceFile

NODE_SUFFIXES = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".d.ts")
NAMED_ALIKE = frozenset(("python", "java", "go"))
"""Languages in which a name that does not begin with a dot means the same in each file."""
NODE_INDEXES = ("/index.ts", "/index.tsx", "/index.js", "/index.jsx", "/index.mjs")


class ImportEdge(Struct, frozen=True, kw_only=True, gc=False):
    """An import of one file of the repository by another."""

    file: str
    line: int
    target: str
    """The path of the imported file."""
    late: bool = False


class OutsideImport(Struct, frozen=True, kw_only=True, gc=False):
    """An import of a package that the repository does not hold."""

    file: str
    line: int
    package: str


class Imports(Struct, frozen=True, kw_only=True):
    """All imports of a commit."""

    edges: tuple[ImportEdge, ...]
    outside: tuple[OutsideImport, ...]


def resolve_imports(inventory: Inventory, targets: TargetFinder | None = None) -> Imports:
    """Return the target of each import; `targets` if the files behind them are known already."""
    finder = targets or TargetFinder(inventory)
    edges: list[ImportEdge] = []
    outside: list[OutsideImport] = []
    for source in inventory.sources:
        path = source.path
        for fact in source.facts.imports:
            files, package = finder.find(source, fact)
            if files:
                edges += [
                    ImportEdge(file=path, line=fact.line, target=each, late=fact.late) for each in files if each != path
                ]
            elif package:
                outside.append(OutsideImport(file=path, line=fact.line, package=package))
    return Imports(edges=tuple(edges), outside=tuple(outside))


class TargetFinder:
    """Finds files by the names under which other files import them."""

    def __init__(self, inventory: Inventory) -> None:
        self._paths = {source.path for source in inventory.sources}
        self._python = _python_modules(inventory, self._paths)
        self._found: dict[tuple[str, str, tuple[str, ...]], tuple[Sequence[str], str]] = {}
        self._java = _java_classes(inventory)
        self._go_folders = _first_go_files(inventory)
        self._modules = {
            facts.name: posixpath.dirname(path)
            for path, facts in inventory.manifests.items()
            if facts.ecosystem in ("go", "node") and facts.name
        }
        self._crates = sorted(
            (posixpath.dirname(path) for path in inventory.manifests if path.rpartition("/")[2] == "Cargo.toml"),
            key=len,
            reverse=True,
        )

    def find(self, source: SourceFile, fact: ImportFact) -> tuple[Sequence[str], str]:
        """Return the files that an import names, or the outside package."""
        # The same modules are imported by many files: each is looked up once.
        key = (source.language, fact.target, fact.names)
        found = self._found.get(key)
        if found is None:
            targets = tuple(self.targets(source, fact))
            found = (targets, "" if targets else self.package(source, fact))
            if source.language in NAMED_ALIKE and not fact.target.startswith("."):
                self._found[key] = found
        return found

    def targets(self, source: SourceFile, fact: ImportFact) -> Iterable[str]:
        """Return the files that an import names; none if they are not of the repository."""
        match source.language:
            case "python" if fact.target.startswith("."):
                return self._relative_targets(source.path, fact)
            case "python":
                return self._absolute_targets(fact)
            case "javascript" | "typescript":
                return self._node_targets(source.path, fact.target)
            case "java":
                return self._java_targets(fact.target)
            case "go":
                return self._go_targets(fact.target)
            case "rust":
                return self._rust_targets(source.path, fact.target)
            case _:
                return ()

    def package(self, source: SourceFile, fact: ImportFact) -> str:
        """Return the outside package of an import; empty for the language's own library and for what is unknown."""
        target = fact.target
        match source.language:
            case "python":
                first = target.partition(".")[0]
                return "" if not first or first in sys.stdlib_module_names else first
            case "javascript" | "typescript":
                if target.startswith((".", "/", "node:", "#")):
                    return ""
                return "/".join(target.split("/")[: 2 if target.startswith("@") else 1])
            case "java":
                return "" if target.startswith(("java.", "javax.")) else ".".join(target.split(".")[:3])
            case "go":
                return target if "." in target.partition("/")[0] else ""
            case "rust":
                first = target.partition("::")[0]
                return "" if first in ("std", "core", "alloc", "crate", "self", "super") else first
            case _:
                return ""

    def _relative_targets(self, path: str, fact: ImportFact) -> Iterable[str]:
        bare = fact.target.lstrip(".")
        folder = path
        for _ in range(len(fact.target) - len(bare)):
            folder = posixpath.dirname(folder)
        base = posixpath.join(folder, *filter(None, bare.split(".")))
        whole = self._python_file(base)
        names = [posixpath.join(base, name.partition(" as ")[0]) for name in fact.names]
        found = [self._python_file(name) or whole for name in names] or [whole]
        return dict.fromkeys(each for each in found if each)

    def _absolute_targets(self, fact: ImportFact) -> Iterable[str]:
        module = fact.target
        names = [name.partition(" as ")[0] for name in fact.names]
        found = [self._python.get(f"{module}.{name}") or self._python.get(module) for name in names]
        if not names:
            found = [self._python.get(module) or self._python.get(module.rpartition(".")[0])]
        return dict.fromkeys(each for each in found if each)

    def _python_file(self, base: str) -> str | None:
        return next(
            (each for each in (f"{base}.py", f"{base}/__init__.py", f"{base}.pyi") if each in self._paths), None
        )

    def _node_targets(self, path: str, target: str) -> Iterator[str]:
        if target.startswith("."):
            bases = [posixpath.normpath(posixpath.join(posixpath.dirname(path), target))]
        elif target.startswith(("@/", "~/")):
            bases = [f"src/{target[2:]}", target[2:]]
        else:
            name = "/".join(target.split("/")[: 2 if target.startswith("@") else 1])
            folder = self._modules.get(name)
            if folder is None:
                return
            rest = target[len(name) :].strip("/")
            bases = [posixpath.join(folder, rest)] if rest else [posixpath.join(folder, "src"), folder]
        # A TypeScript file may import another by the name that it will have as JavaScript.
        bases += [base.removesuffix(".js") for base in bases if base.endswith(".js")]
        for base in bases:
            for tail in (*NODE_SUFFIXES, *NODE_INDEXES):
                if base + tail in self._paths:
                    yield base + tail
                    return

    def _java_targets(self, target: str) -> Iterator[str]:
        # `import static a.b.C.m` names a member of the class.
        found = self._java.get(target) or self._java.get(target.rpartition(".")[0])
        if found:
            yield found

    def _go_targets(self, target: str) -> Iterator[str]:
        for module, folder in self._modules.items():
            if target == module or target.startswith(f"{module}/"):
                inside = posixpath.join(folder, target[len(module) :].strip("/")).rstrip("/")
                if inside in self._go_folders:
                    yield self._go_folders[inside]

    def _rust_targets(self, path: str, target: str) -> Iterator[str]:
        parts = target.split("::")
        stem = posixpath.splitext(path)[0]
        own = posixpath.dirname(path) if stem.endswith(("/mod", "/lib", "/main")) else stem
        crate = next((each for each in self._crates if not each or path.startswith(f"{each}/")), None)
        starts = {"self": own, "super": posixpath.dirname(own), "crate": posixpath.join(crate or "", "src")}
        if parts[0] not in starts:
            return
        for length in range(len(parts), 1, -1):
            base = posixpath.join(starts[parts[0]], *parts[1:length])
            for candidate in (f"{base}.rs", f"{base}/mod.rs"):
                if candidate in self._paths:
                    yield candidate
                    return


def _python_modules(inventory: Inventory, paths: set[str]) -> Mapping[str, str]:
    """Return the files by dotted name: from their import root, from `src`, and from the root of the repository."""
    modules: dict[str, str] = {}
    roots: dict[str, str] = {}
    for source in inventory.sources:
        if source.language != "python":
            continue
        stem = posixpath.splitext(source.path)[0].removesuffix("/__init__")
        folder = stem.rpartition("/")[0]
        if folder not in roots:
            root = folder
            while root and f"{root}/__init__.py" in paths:
                root = root.rpartition("/")[0]
            roots[folder] = root
        root = roots[folder]
        for start in (root, "src", ""):
            inside = stem.removeprefix(f"{start}/") if start else stem
            modules.setdefault(inside.replace("/", "."), source.path)
    return modules


def _java_classes(inventory: Inventory) -> Mapping[str, str]:
    classes: dict[str, str] = {}
    for source in inventory.sources:
        parts = posixpath.splitext(source.path)[0].split("/") if source.language == "java" else []
        for length in range(2, len(parts) + 1):
            classes.setdefault(".".join(parts[-length:]), source.path)
    return classes


def _first_go_files(inventory: Inventory) -> Mapping[str, str]:
    folders: dict[str, str] = {}
    for source in inventory.sources:
        if source.language == "go" and not source.is_test:
            folders.setdefault(posixpath.dirname(source.path), source.path)
    return folders
