"""The codec's own surface."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import codec

if TYPE_CHECKING:
    from types import ModuleType

_TOP = [module for module in pkgutil.iter_modules(codec.__path__) if module.name[0] != "_"]
_ROOMS = ("apis", "chat", "text", "websockets")
"""Rooms of the product, of which the package itself exports what a library user needs."""

PACKAGES = [module.name for module in _TOP if module.ispkg and module.name not in _ROOMS]
"""Rooms for library users; each has a surface of its own."""

MODULES = [module.name for module in _TOP if not module.ispkg] + [
    f"{room}.{module.name}"
    for room in ("chat", "text", "websockets")
    for module in pkgutil.iter_modules([f"{codec.__path__[0]}/{room}"])
]
_ALL = [module.name for module in pkgutil.walk_packages(codec.__path__, "codec.")]
WITH_EXAMPLES = [
    name
    for name in ("codec", *_ALL)
    if ">>> " in Path(str(importlib.import_module(name).__file__)).read_text(encoding="utf-8")
]


def test_the_package_exports_public_names_of_its_modules() -> None:
    """Each by one name, which is the module's own object and the module's to promise."""
    modules = [importlib.import_module(name) for name in _ALL]
    public = {(name, id(getattr(one, name))) for one in modules for name in _names_of(one)}
    exported = {(name, id(getattr(codec, name))) for name in codec.__all__}
    assert exported <= public
    assert len(set(codec.__all__)) == len(codec.__all__)


def test_a_name_is_imported_when_it_is_asked_for() -> None:
    """A command that needs JSON alone does not wait for every API; a wrong name is told."""
    code = (
        "import sys, codec; alone = len([*filter(lambda n: n[:6] == 'codec.', sys.modules)]);"
        "codec.ChatStream; print(alone, 'codec.chat.stream' in sys.modules, codec.ChatStream)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0 True <class 'codec.chat.stream.ChatStream'>\n"
    assert set(codec.__all__) <= set(dir(codec))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        codec.Nothing  # noqa: B018


def _names_of(module: ModuleType) -> tuple[str, ...]:
    return getattr(module, "__all__", ())


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_exports_what_its_modules_export(package: str) -> None:
    """So does each package inside it; a name that begins with an underscore is a room's own."""
    surface = importlib.import_module(f"codec.{package}")
    modules = [m.name for m in pkgutil.iter_modules(surface.__path__) if m.name[0] != "_"]
    assert modules
    exported = {
        name: getattr(importlib.import_module(f"codec.{package}.{module}"), name)
        for module in modules
        for name in importlib.import_module(f"codec.{package}.{module}").__all__
    }
    assert {name: getattr(surface, name) for name in surface.__all__} == exported
    assert isinstance(surface.__all__, tuple)
    assert len(set(surface.__all__)) == len(surface.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_exports_every_public_definition(name: str) -> None:
    """Its ``__all__`` is a tuple that names all public functions, classes and limits."""
    module = importlib.import_module(f"codec.{name}")
    assert isinstance(module.__all__, tuple)
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    defined = {
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    limits = {key for key in vars(module) if key.startswith("MAX_")}
    assert defined <= set(module.__all__)
    assert {limit for limit in limits if f"\n{limit} =" in source} <= set(module.__all__)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_an_example_works(name: str) -> None:
    """What a docstring shows is true."""
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted
    assert not results.failed
