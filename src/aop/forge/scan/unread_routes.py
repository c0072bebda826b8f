"""Unread routes: places where a commit serves routes that no reader finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct

from aop.forge.scan.file_facts import UNKNOWN, ImportFact, Language, MountFact
from aop.forge.scan.inventory import Inventory, SourceFile
from aop.forge.scan.routes import PrefixFinder

_JAVASCRIPT = tuple(
    "koa @koa/router koa-router restify polka @hapi/hapi @adonisjs/core @feathersjs/feathers @trpc/server"
    " @apollo/server apollo-server next nuxt @sveltejs/kit @remix-run/node".split()
)
UNREAD_FRAMEWORKS: Mapping[Language, tuple[str, ...]] = {
    "python": tuple(
        "aiohttp.web tornado sanic bottle pyramid falcon litestar quart robyn blacksheep cherrypy connexion ninja"
        " starlette.routing starlette.applications rest_framework.routers flask_restful flask_restx flask_smorest"
        " flask_classful graphene strawberry http.server".split()
    ),
    "javascript": _JAVASCRIPT,
    "typescript": _JAVASCRIPT,
    "java": tuple("jakarta.ws.rs javax.ws.rs jakarta.servlet javax.servlet io.micronaut.http io.javalin".split()),
    "go": tuple(
        "net/http github.com/gin-gonic/gin github.com/labstack/echo github.com/go-chi/chi github.com/gorilla/mux"
        " github.com/gofiber/fiber github.com/julienschmidt/httprouter".split()
    ),
    "rust": tuple("axum actix_web rocket warp tide poem salvo hyper".split()),
}
"""Modules by which code serves routes in a form that is not read, by language."""
_SEPARATORS: Mapping[Language, str] = {"python": ".", "java": ".", "rust": "::"}


class UnreadRoutes(Struct, frozen=True, gc=False):
    """A place whose routes are not known, and why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.reason}, at {self.file}:{self.line}"


def unread_routes(inventory: Inventory) -> tuple[UnreadRoutes, ...]:
    """Return the places outside of tests that serve routes which are not read; of a framework the first."""
    finder = PrefixFinder(inventory)
    found: dict[str, UnreadRoutes] = {}
    for source in inventory.sources:
        if not source.is_test:
            for each in _of_file(source, finder):
                found.setdefault(each.reason if each.reason.startswith("The routes of") else str(each), each)
    return tuple(found.values())


def _of_file(source: SourceFile, finder: PrefixFinder) -> Iterator[UnreadRoutes]:
    frameworks, separator = _frameworks(source.language), _separator(source.language)
    for fact in source.facts.imports:
        alike = frameworks.get(fact.target.partition(separator)[0], ())
        name = next((each for each in alike if _takes(fact, each, separator)), "")
        if name and not any(True for _ in finder.targets.targets(source, fact)):
            yield UnreadRoutes(source.path, fact.line, f"The routes of `{name}` are not read")
    for line in source.facts.unread_routes:
        yield UnreadRoutes(source.path, line, "A route is registered in a form that is not read")
    for mount in source.facts.mounts if source.language == "python" else ():
        if not _is_followed(source, mount, finder):
            yield UnreadRoutes(source.path, mount.line, "The routes that are mounted here are not read")


@cache
def _frameworks(language: Language) -> Mapping[str, Sequence[str]]:
    """Return the frameworks of a language by the first part of their names: few imports begin with one."""
    found: dict[str, list[str]] = {}
    for name in UNREAD_FRAMEWORKS.get(language, ()):
        found.setdefault(name.partition(_separator(language))[0], []).append(name)
    return found


def _separator(language: Language) -> str:
    return _SEPARATORS.get(language, "/")


def _takes(fact: ImportFact, module: str, separator: str) -> bool:
    """Tell whether an import takes a module, or something below it."""
    taken = [fact.target, *(f"{fact.target}{separator}{name.partition(' as ')[0]}" for name in fact.names)]
    return any(each == module or each.startswith(module + separator) for each in taken)


def _is_followed(source: SourceFile, mount: MountFact, finder: PrefixFinder) -> bool:
    return mount.target != UNKNOWN and any(finder.has_routes(*each) for each in finder.mounted(source, mount))
