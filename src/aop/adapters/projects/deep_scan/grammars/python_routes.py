"""Python routes: FastAPI, Flask and Django."""

from __future__ import annotations

import re

from msgspec import Struct
from tree_sitter import Node

from aop.adapters.projects.deep_scan.grammars.parsed_source import (
    Harvest,
    ParsedSource,
    arguments,
    line_of,
    literal,
    text,
)
from aop.forge.scan.file_facts import ANY_METHOD, UNKNOWN, MountFact, RouteFact, path_below

VERBS = frozenset({"get", "post", "put", "patch", "delete", "head", "options"})
APPLICATIONS = {"FastAPI": "fastapi", "Flask": "flask", "APIRouter": "fastapi", "Blueprint": "flask"}
ROUTERS = frozenset({"APIRouter", "Blueprint"})
USUAL_NAMES = frozenset({"app", "api", "router", "bp", "blueprint", "application"})

_MADE = re.compile(rb"\b(FastAPI|APIRouter|Flask|Blueprint)[ \t]*\(")
_DECORATORS = re.compile(
    rb"\n[ \t]*(@)[ \t]*[\w.]+\.(?:get|post|put|patch|delete|head|options|route|api_route)[ \t]*\("
)
_MOUNTS = re.compile(rb"\.(include_router|register_blueprint)[ \t]*\(")
_UNREAD = re.compile(rb"\.(add_url_rule|add_api_route|add_api_websocket_route|add_route|add_resource|mount)[ \t]*\(")
_URLS = re.compile(rb"\b(path|re_path|url)[ \t]*\(")
_CONVERTED = re.compile(r"<(?:[^<>:]+:)?([^<>]+)>")
_STARLETTE = re.compile(r"\{(\w+):[^{}]*\}")
_NAMED_GROUP = re.compile(r"\(\?P<(\w+)>[^()]*\)")


class Router(Struct, frozen=True):
    """An application or router that the file makes."""

    framework: str
    prefix: str
    is_application: bool


def harvest_routes(source: ParsedSource, found: Harvest) -> None:
    """Gather the routes of a Python file."""
    routers = _routers(source) if source.holds(b"FastAPI", b"APIRouter", b"Flask", b"Blueprint") else {}
    for decorator in source.line_tokens(_DECORATORS) if source.holds(b"@") else ():
        if decorator.type == "decorator" and decorator.named_child_count:
            _harvest_decorator(source, decorator, routers, found)
    for _, attribute in source.tokens(_MOUNTS) if source.holds(b"include_router", b"register_blueprint") else ():
        call = attribute.parent
        if attribute.type == "attribute" and call is not None and call.type == "call":
            _harvest_mount(call, found)
    _harvest_unread(source, found)
    if b"urlpatterns" in source.content:
        for _, call in source.tokens(_URLS):
            if call.type == "call":
                _harvest_url(call, found)


def _routers(source: ParsedSource) -> dict[str, Router]:
    routers: dict[str, Router] = {}
    for maker, node in source.tokens(_MADE):
        call = node if node.type == "call" else node.parent
        assignment = call.parent if call is not None else None
        if call is None or call.type != "call" or assignment is None or assignment.type != "assignment":
            continue
        _, named = arguments(call)
        prefix = literal(named.get("prefix") or named.get("url_prefix")) or ""
        name = text(assignment.child_by_field_name("left"))
        routers[name] = Router(APPLICATIONS[maker], prefix, maker not in ROUTERS)
    return routers


def _harvest_decorator(source: ParsedSource, decorator: Node, routers: dict[str, Router], found: Harvest) -> None:
    call = decorator.named_children[0]
    function = call.child_by_field_name("function") if call.type == "call" else None
    if function is None or function.type != "attribute":
        return
    owner, verb = text(function.child_by_field_name("object")), text(function.child_by_field_name("attribute"))
    plain, named = arguments(call)
    path = literal(plain[0] if plain else named.get("path") or named.get("rule"))
    router = routers.get(owner) or _imported_router(source, owner, path)
    if router is None:
        if path.startswith("/") if path is not None else owner.rpartition(".")[2] in USUAL_NAMES:
            found.unread_routes.append(line_of(decorator))
        return
    shown = UNKNOWN if path is None else path_below(router.prefix, parameters_in_braces(path))
    methods = [verb.upper()] if verb in VERBS else _methods(named.get("methods"), router.framework)
    name = "" if router.is_application else owner
    found.routes += [RouteFact(line_of(decorator), method, shown, router.framework, name) for method in methods]


def _imported_router(source: ParsedSource, owner: str, path: str | None) -> Router | None:
    """Return the router behind a name that the file does not make itself, as far as its imports tell."""
    if owner.rpartition(".")[2] not in USUAL_NAMES or path is None or not path.startswith("/"):
        return None
    framework = next((name for name in ("fastapi", "flask") if name.encode() in source.content), UNKNOWN)
    return Router(framework, "", owner == "app")


def _methods(node: Node | None, framework: str) -> list[str]:
    """Return the methods of `route`, which is GET unless it says more."""
    if node is None:
        return ["GET"] if framework == "flask" else [ANY_METHOD]
    named = [literal(child) for child in node.named_children]
    return [each.upper() for each in named if each] or [ANY_METHOD]


def _harvest_mount(call: Node, found: Harvest) -> None:
    plain, named = arguments(call)
    prefix = named.get("prefix") or named.get("url_prefix")
    value = "" if prefix is None else literal(prefix)
    function = call.child_by_field_name("function")
    owner = text(function.child_by_field_name("object")) if function is not None else ""
    if plain:
        shown = UNKNOWN if value is None else value
        found.mounts.append(MountFact(line_of(call), shown, text(plain[0]), "" if owner == "app" else owner))


def _harvest_url(call: Node, found: Harvest) -> None:
    plain, _ = arguments(call)
    path = literal(plain[0]) if plain else None
    if path is None or len(plain) < 2:
        if len(plain) > 1:
            found.unread_routes.append(line_of(call))
        return
    shown = "/" + parameters_in_braces(_without_anchors(path))
    if plain[1].type == "call" and text(plain[1].child_by_field_name("function")).endswith("include"):
        within, _ = arguments(plain[1])
        found.mounts.append(
            MountFact(line_of(call), shown, literal(within[0] if within else None) or UNKNOWN, "urlpatterns")
        )
    else:
        found.routes.append(RouteFact(line_of(call), ANY_METHOD, shown, "django", "urlpatterns"))


def _harvest_unread(source: ParsedSource, found: Harvest) -> None:
    for name, attribute in source.tokens(_UNREAD) if source.holds(b".add_", b".mount") else ():
        call = attribute.parent
        if attribute.type == "attribute" and call is not None and call.type == "call" and _serves(name, call):
            found.unread_routes.append(line_of(call))


def _serves(name: str, call: Node) -> bool:
    """Tell whether a call registers routes; a mount of files does not."""
    plain, _ = arguments(call)
    return name != "mount" or (len(plain) > 1 and "StaticFiles" not in text(plain[1]))


def _without_anchors(path: str) -> str:
    return _NAMED_GROUP.sub(r"<\1>", path.removeprefix("^").removesuffix("$")).removeprefix("/")


def parameters_in_braces(path: str) -> str:
    """Return a path with every parameter as `{name}`, whatever the framework writes."""
    return _STARLETTE.sub(r"{\1}", _CONVERTED.sub(r"{\1}", path))
