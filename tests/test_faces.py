"""Each package of the product names its doors, and nobody outside imports past them.

The docstring of a package has a paragraph with ``Doors:`` and, between backticks, the modules that
other packages may import, or the names that the package itself exports. An ``__init__`` does not
have to import its doors: a command waits for what it imports.
"""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("codec", "telemetry", "proxy")

_DOORS = re.compile(r"\bDoors: (.*?)(?:\n\s*\n|\Z)", re.DOTALL)
_NAME = re.compile(r"`+(\w+)`+")


@cache
def _modules() -> dict[str, Path]:
    """All modules and packages of the product by their dotted names."""
    found = {}
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _packages() -> list[str]:
    return [name for name, path in _modules().items() if path.name == "__init__.py"]


@cache
def _imports(module: str) -> frozenset[str]:
    """The modules of the product that a module imports anywhere, also for types alone."""
    found = set()
    for node in ast.walk(ast.parse(_modules()[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & _modules().keys()) or {node.module}
    return frozenset(found & _modules().keys())


def _doors(package: str) -> frozenset[str] | None:
    """The doors that a package names; ``None`` if it names none."""
    source = _modules()[package].read_text(encoding="utf-8")
    found = _DOORS.search(ast.get_docstring(ast.parse(source)) or "")
    return found and frozenset(_NAME.findall(found[1]))


def _entered(package: str) -> dict[str, list[str]]:
    """The modules of a package that are imported from outside, each with its importers."""
    entered: dict[str, list[str]] = {}
    for module in _modules():
        if f"{module}.".startswith(f"{package}."):
            continue
        for target in _imports(module):
            if target.startswith(f"{package}."):
                inside = target.removeprefix(f"{package}.").partition(".")[0]
                entered.setdefault(inside, []).append(module)
    return entered


def test_a_package_is_entered_by_its_doors() -> None:
    past = {
        f"{package}.{name}": importers
        for package in _packages()
        if (doors := _doors(package)) is not None
        for name, importers in _entered(package).items()
        if name not in doors
    }
    assert past == {}


def test_a_door_is_there_and_used() -> None:
    """It is a module that another package imports, or a name that the package exports.

    ``docs/codec.md`` shows library users further modules of the codec.
    """
    page = (ROOT / "docs" / "codec.md").read_text(encoding="utf-8")
    shown = {f"codec.{name}" for name in re.findall(r"(\w+)(?:\.py|/)`", page)}
    for package in _packages():
        entered = {f"{package}.{name}" for name in _entered(package)}
        exported = {
            f"{package}.{name}" for name in getattr(importlib.import_module(package), "__all__", ())
        }
        doors = {f"{package}.{door}" for door in _doors(package) or ()}
        assert doors - entered - exported - shown == set()


def test_each_package_names_its_doors() -> None:
    assert {package for package in _packages() if _doors(package) is None} == set()
