"""The codec's own surface."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import codec
from codec import call
from codec.apis import api, table

_TOP = [module for module in pkgutil.iter_modules(codec.__path__) if module.name[0] != "_"]
PACKAGES = [module.name for module in _TOP if module.ispkg and module.name != "apis"]
"""For those who use the codec as a library; each has a surface of its own."""

APART_MODULES = {"call", "generator", "token_logprobs"}
"""As the packages."""

MODULES = [module.name for module in _TOP if not module.ispkg]
_ALL = [module.name for module in pkgutil.walk_packages(codec.__path__, "codec.")]
WITH_EXAMPLES = [
    name
    for name in ("codec", *_ALL)
    if ">>> " in Path(str(importlib.import_module(name).__file__)).read_text(encoding="utf-8")
]
INNER_MODULES = {
    "base64_text", "blocks", "budget", "choice", "event_reader", "integers", "json_size",
    "members", "messages", "nesting", "parts", "template", "tool_calls", "usual_answer",
}  # fmt: skip
"""What answers are read with; no name of theirs belongs to the surface."""

INNER_NAMES = {
    "chunk": {"is_plain_chunk"},
    "jsontext": {
        "NO_STRING",
        "compact_text",
        "decode_string",
        "is_json",
        "join_text",
        "split_object",
    },
    "answer": {"whole_object"},
    "completion": {"fold_completion"},
    "request": {"MAX_ASKED_CHOICES", "decode_request_object", "list_inputs"},
    "response": {"decode_body", "fold_body"},
    "rewrite": {"leave_body"},
    "scan": {
        "MAX_MEMBERS",
        "MAX_PIECE_BYTES",
        "MAX_WHOLE_BYTES",
        "REQUEST_MEMBERS",
        "Member",
        "Problem",
    },
    "sse": {"OVERLAP_BYTES", "SHORTENED_BYTES", "read_event"},
    "usage": {"UsageFold", "merge_usage"},
}
"""What other modules have for each other, and for those who look closer."""


def test_the_package_exports_what_its_modules_export() -> None:
    """Nothing is forgotten, nothing is added, and each name is the module's own object."""
    exported = {"Api": api.Api, "find_api": table.find_api}
    exported |= {name: getattr(call, name) for name in ("Asked", "ErrorObject", "Said")}
    exported |= {
        name: getattr(importlib.import_module(f"codec.{module}"), name)
        for module in set(MODULES) - INNER_MODULES - APART_MODULES
        for name in set(importlib.import_module(f"codec.{module}").__all__)
        - INNER_NAMES.get(module, set())
    }
    assert {name: getattr(codec, name) for name in codec.__all__} == exported
    assert len(set(codec.__all__)) == len(codec.__all__)


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
