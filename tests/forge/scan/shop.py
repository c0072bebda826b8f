"""A small shop in three languages, for scans: routes, tables, a cycle, a lock file that lies, a secret."""

from __future__ import annotations

from collections.abc import Mapping

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

FILES: Mapping[str, str] = {
    "README.md": "# Corner shop\n\nSells things.\n",
    "pyproject.toml": """\
[project]
name = "corner-shop"
description = "Sells things at the corner."
requires-python = ">=3.8"
dependencies = [
    "fastapi>=0.110",
    "sqlalchemy==2.0.30",
]
""",
    "uv.lock": """\
version = 1

[[package]]
name = "fastapi"
version = "0.99.0"

[[package]]
name = "sqlalchemy"
version = "2.0.30"
""",
    "shop/__init__.py": "",
    "shop/main.py": """\
from fastapi import FastAPI

from shop.routes import orders
from shop.routes.users import router as users_router

app = FastAPI()
app.include_router(orders.router, prefix="/api")
app.include_router(users_router)


@app.get("/health")
def health() -> str:
    return "ok"
""",
    "shop/routes/__init__.py": "",
    "shop/routes/orders.py": """\
from fastapi import APIRouter

from shop.models import Order

router = APIRouter(prefix="/orders")


@router.get("/{order_id:int}")
async def one(order_id: int) -> Order: ...


# @router.get("/never")
@router.post("")
async def make() -> Order: ...
""",
    "shop/routes/users.py": """\
from fastapi import APIRouter

router = APIRouter()


@router.delete("/users/{name}")
def remove(name: str) -> None:
    \"\"\"Remove a user: @router.get("/documented") is no route.\"\"\"
""",
    "shop/models.py": """\
from shop.prices import price


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    total = Column(Integer)
    lines = relationship("Line")
""",
    "shop/prices.py": f"""\
from shop import models

TOKEN = "{SECRET}"


def price() -> int:  # TODO: taxes
    return 1
""",
    "migrations/001.sql": """\
-- CREATE TABLE old (id int);
CREATE TABLE IF NOT EXISTS customers (
    id integer PRIMARY KEY,
    name text DEFAULT 'a, b',
    UNIQUE (name)
);
""",
    "web/package.json": """\
{
  "name": "shop-web",
  "dependencies": {
    "express": "^4.18.0"
  }
}
""",
    "web/package-lock.json": """\
{"lockfileVersion": 3, "packages": {"": {"dependencies": {"express": "^4.18.0"}},
 "node_modules/express": {"version": "4.19.2"}}}
""",
    "web/server.js": """\
const express = require('express');
const cart = require('./cart');
const app = express();
app.set('x', 1);
app.get('view');
app.get('/ping', (req, res) => res.send('pong'));
app.use('/cart', cart);
""",
    "web/cart.js": """\
const { Router } = require('express');
const router = Router();
router.route('/:id').get(show).put(change);
module.exports = router;
""",
    "api/src/main/java/shop/Stock.java": """\
package shop;

@RestController
@RequestMapping("/stock")
class Stock {
    @GetMapping("/{sku}")
    int count(String sku) { return 1; }
}
""",
    "tests/test_main.py": "from shop.main import health\n\n\ndef test_health() -> None:\n    assert health() == 'ok'\n",
}
