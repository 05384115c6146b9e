"""The second folds can fail: each fault planted into an API's own fold is found."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from tests.corpus.api_mutants import MUTANTS
from tests.corpus.recordings import NEEDS_RECORDINGS
from tests.corpus.replay import find_answer_faults, observe_recording
from tests.corpus.test_apis import CASES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

pytestmark = NEEDS_RECORDINGS


def plant(module_name: str, before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put other words into the functions of a module; they stay the same objects."""
    module = import_module(module_name)
    source = inspect.getsource(module)
    assert source.count(before) == 1, f"{source.count(before)} times in {module_name}: {before}"
    old, new = (
        {code.co_qualname: code for code in _functions(compile(text, str(module.__file__), "exec"))}
        for text in (source, source.replace(before, after))
    )
    changed = [name for name in new if _bare(new[name]) != _bare(old[name])]
    assert changed, f"nothing is another in {module_name}"
    for name in changed:
        monkeypatch.setattr(_find(module, name), "__code__", new[name])


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The functions and the methods in a module's code, but for those within functions."""
    for one in filter(inspect.iscode, code.co_consts):
        if one.co_flags & inspect.CO_OPTIMIZED:
            yield one
        else:  # the body of a class
            yield from _functions(one)


def _bare(code: CodeType) -> Any:
    """What tells two functions apart, but for the lines that they are on."""
    inner = [_bare(one) if inspect.iscode(one) else repr(one) for one in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, inner


def _find(module: Any, name: str) -> Any:
    found = module
    for step in name.split("."):
        found = inspect.getattr_static(found, step)
    return getattr(found, "fget", None) or getattr(found, "__func__", None) or found


def find_first_fault(apis: tuple[str, ...], word: str) -> str | None:
    """The first fault that names a word, in an exchange of one of these APIs, whole or broken."""
    for case in CASES:
        if case.api not in apis:
            continue
        recording = case.recording
        exchange = observe_recording(recording, case.api)
        for fault in find_answer_faults(recording, exchange):
            if word in fault:
                return fault
    return None


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is wrong with some exchange."""
    mutant = MUTANTS[name]
    plant(f"codec.apis.{mutant.module}", mutant.before, mutant.after, monkeypatch)
    apis = mutant.apis or (mutant.module.partition(".")[0],)
    assert find_first_fault(apis, mutant.found) is not None


def test_nothing_is_found_where_nothing_is_planted() -> None:
    """What finds the mutants does not cry wolf."""
    apis = {api for mutant in MUTANTS.values() for api in mutant.apis}
    apis |= {mutant.module.partition(".")[0] for mutant in MUTANTS.values() if not mutant.apis}
    assert find_first_fault((*apis,), "") is None
