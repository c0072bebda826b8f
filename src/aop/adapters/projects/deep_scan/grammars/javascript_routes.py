"""JavaScript routes: Express and its kin, and NestJS controllers."""

from __future__ import annotations

import re

from tree_sitter import Node

from aop.adapters.projects.deep_scan.grammars.parsed_source import Harvest, ParsedSource, line_of, literal, text
from aop.forge.scan.file_facts import ANY_METHOD, UNKNOWN, MountFact, RouteFact, path_below

VERBS = frozenset({"get", "post", "put", "patch", "delete", "head", "options", "all"})
FRAMEWORKS = ("express", "fastify", "koa", "hono")
APPLICATIONS = frozenset({"app", "server", "fastify"})
USUAL_NAMES = frozenset({"app", "router", "server", "api", "routes", "fastify"})
HANDED_OVER = frozenset({"app", "router", "server"})
_HANDLERS = frozenset({"arrow_function", "function_expression", "identifier", "member_expression"})

_MADE = re.compile(
    rb"\b(?:const|let|var)\s+(\w+)[^=;\n]{0,200}=\s*(?:await\s+)?(?:new\s+)?(?:require\([^()\n]{0,99}\)|[\w.]{0,99})"
    rb"(?:express|Router|[Ff]astify|Hono)?\s*\("
)
_MAKERS = re.compile(rb"(?:express|Router|[Ff]astify|Hono|require\([^()\n]{0,99}\))\s*\($")
_CALLS = re.compile(rb"\.(get|post|put|patch|delete|all|options|head|use)\s*\(")
_NEST = re.compile(rb"(@)(?:Controller|Get|Post|Put|Patch|Delete|Head|Options|All)\s*\(")
_COLON = re.compile(r":(\w+)(?:\([^()]*\))?\??")
_LONGEST_CHAIN = 50


def harvest_routes(source: ParsedSource, found: Harvest) -> None:
    """Gather the routes of a JavaScript or TypeScript file."""
    content = source.content
    framework = next((name for name in FRAMEWORKS if name.encode() in content), "")
    if not framework:
        _harvest_unread(source, found)
    if framework:
        routers = {match.group(1).decode() for match in _MADE.finditer(content) if _MAKERS.search(match.group())}
        for verb, member in source.tokens(_CALLS):
            call = member.parent
            if member.type == "member_expression" and call is not None and call.type == "call_expression":
                _harvest_call(call, member, verb, routers | USUAL_NAMES, framework, found)
    if b"@Controller" in content and b"nestjs" in content:
        _harvest_controllers(source, found)


def _harvest_call(  # noqa: PLR0917 - one call, and what is known of its file
    call: Node, member: Node, verb: str, routers: set[str] | frozenset[str], framework: str, found: Harvest
) -> None:
    owner, path = _owner_and_path(member.child_by_field_name("object"))
    given = call.child_by_field_name("arguments")
    plain = [child for child in given.named_children if child.type != "comment"] if given is not None else []
    if owner not in routers or not plain:
        return
    name = "" if owner in APPLICATIONS else owner
    if verb == "use":
        prefix = literal(plain[0])
        if prefix is not None and len(plain) > 1:
            found.mounts.append(MountFact(line_of(call), braced(prefix), _mounted(plain[-1]), name))
        return
    if path is None:
        path = literal(plain[0])
        # `app.get("setting")` reads a setting; a route has a handler.
        if len(plain) < 2 or (path is not None and not path.startswith(("/", "*"))):
            return
    shown = UNKNOWN if path is None else braced(path)
    method = ANY_METHOD if verb == "all" else verb.upper()
    found.routes.append(RouteFact(line_of(member), method, shown, framework, name))


def _harvest_unread(source: ParsedSource, found: Harvest) -> None:
    """Note routes that a file gives to an application which it was handed: nothing in it names the framework."""
    for _, member in source.tokens(_CALLS) if source.holds(b"app.", b"router.", b"server.") else ():
        call = member.parent
        if member.type != "member_expression" or call is None or call.type != "call_expression":
            continue
        given = call.child_by_field_name("arguments")
        plain = [child for child in given.named_children if child.type != "comment"] if given is not None else []
        path = literal(plain[0]) if len(plain) > 1 else None
        owner = text(member.child_by_field_name("object"))
        if owner in HANDED_OVER and path is not None and path.startswith("/") and plain[-1].type in _HANDLERS:
            found.unread_routes.append(line_of(call))


def _owner_and_path(node: Node | None) -> tuple[str, str | None]:
    """Return the router, and the path if the call belongs to a chain that `.route(path)` begins."""
    for _ in range(_LONGEST_CHAIN):
        if node is None or node.type != "call_expression":
            break
        function = node.child_by_field_name("function")
        if function is None or function.type != "member_expression":
            break
        if text(function.child_by_field_name("property")) == "route":
            given = node.child_by_field_name("arguments")
            first = given.named_children[0] if given is not None and given.named_child_count else None
            return text(function.child_by_field_name("object")), literal(first)
        node = function.child_by_field_name("object")
    return text(node), None


def _mounted(node: Node) -> str:
    """Return the router that `use` puts under a prefix: a name, or the module of a `require`."""
    if node.type == "call_expression" and text(node.child_by_field_name("function")) == "require":
        given = node.child_by_field_name("arguments")
        return literal(given.named_children[0] if given is not None and given.named_child_count else None) or UNKNOWN
    return text(node)


def _harvest_controllers(source: ParsedSource, found: Harvest) -> None:
    prefix = ""
    for _, decorator in source.tokens(_NEST):
        call = decorator.named_children[0] if decorator.type == "decorator" and decorator.named_child_count else None
        if call is None:
            continue
        given = call.child_by_field_name("arguments")
        first = given.named_children[0] if given is not None and given.named_child_count else None
        path = "" if first is None else literal(first)
        name = text(call.child_by_field_name("function"))
        if name == "Controller":
            prefix = UNKNOWN if path is None else "/" + path.strip("/")
            continue
        shown = UNKNOWN if path is None or prefix == UNKNOWN else path_below(prefix, braced(path))
        found.routes.append(
            RouteFact(line_of(decorator), ANY_METHOD if name == "All" else name.upper(), shown, "nestjs")
        )


def braced(path: str) -> str:
    """Return a path with each `:name` as `{name}`."""
    return _COLON.sub(r"{\1}", path)
