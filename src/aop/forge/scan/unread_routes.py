"""Unread routes: places where a commit serves routes that no reader finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from aop.forge.scan.file_facts import UNKNOWN, Language, MountFact
from aop.forge.scan.imports.import_targets import TargetFinder
from aop.forge.scan.imports.libraries import LibraryNames, is_outside
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
_FRAMEWORKS = LibraryNames(UNREAD_FRAMEWORKS)


class UnreadRoutes(Struct, frozen=True, gc=False):
    """A place whose routes are not known, and why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.reason}, at {self.file}:{self.line}"


def unread_routes(inventory: Inventory, targets: TargetFinder | None = None) -> tuple[UnreadRoutes, ...]:
    """Return the places outside of tests that serve routes which are not read; of a framework the first."""
    finder = PrefixFinder(inventory, targets)
    found: dict[str, UnreadRoutes] = {}
    for source in inventory.sources:
        if not source.is_test:
            for each in _of_file(source, finder):
                found.setdefault(each.reason if each.reason.startswith("The routes of") else str(each), each)
    return tuple(found.values())


def _of_file(source: SourceFile, finder: PrefixFinder) -> Iterator[UnreadRoutes]:
    for fact, name in _FRAMEWORKS.taken_by(source):
        if is_outside(source, fact, finder.targets):
            yield UnreadRoutes(source.path, fact.line, f"The routes of `{name}` are not read")
    for line in source.facts.unread_routes:
        yield UnreadRoutes(source.path, line, "A route is registered in a form that is not read")
    for mount in source.facts.mounts if source.language == "python" else ():
        if not _is_followed(source, mount, finder):
            yield UnreadRoutes(source.path, mount.line, "The routes that are mounted here are not read")


def _is_followed(source: SourceFile, mount: MountFact, finder: PrefixFinder) -> bool:
    return mount.target != UNKNOWN and any(finder.has_routes(*each) for each in finder.mounted(source, mount))
