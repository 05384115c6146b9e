"""Two ways of counting what a piece of work takes, neither of which knows the time.

Rules:

1. A count is of work, not of time: on a busy machine it is the same, that of instructions within
   two percent (what the kernel gives and when is not all the same).
2. :class:`Bytecodes` works everywhere, and is the same on every machine with one version of
   Python; but all work of C code is nothing to it. :class:`Instructions` counts that too: those of
   the processor, outside the kernel. It needs valgrind, and is the same for one build of Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

__all__ = ("Aside", "Bytecodes", "Counter", "Instructions")

_OWN_FOLDER = str(Path(__file__).parent)


Aside: TypeAlias = "Callable[[], contextlib.AbstractContextManager[None]]"
"""What runs within is not counted, where anything is at the moment."""


class Counter(Protocol):
    """Counts what runs within a call."""

    def begin(self) -> None:
        """All is warm: get ready to count."""
        ...

    def count(self, run: Callable[[], object]) -> int:
        """What a call takes."""
        ...

    def aside(self) -> contextlib.AbstractContextManager[None]:
        """See :data:`Aside`."""
        ...


class Bytecodes:
    """Counts bytecodes that the interpreter executes, but for those of this folder."""

    def __init__(self) -> None:
        self._count = 0
        self._counting = False

    def begin(self) -> None:
        """See :class:`Counter`."""

    def count(self, run: Callable[[], object]) -> int:
        """See :class:`Counter`."""
        self._count = 0
        self._counting = True
        sys.settrace(self._enter)
        try:
            run()
        finally:
            sys.settrace(None)
            self._counting = False
        return self._count

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """See :class:`Counter`."""
        sys.settrace(None)
        try:
            yield
        finally:
            if self._counting:
                sys.settrace(self._enter)

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        if frame.f_code.co_filename.startswith(_OWN_FOLDER):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, _frame: FrameType, event: str, _argument: object) -> Any:
        self._count += event == "opcode"
        return self._step


_CLIENT_REQUEST = bytes.fromhex(
    "4889f8 31d2"  # mov rax, rdi; xor edx, edx
    "48c1c703 48c1c70d 48c1c73d 48c1c733 4887db"  # what valgrind looks for; changes nothing
    "4889d0 c3"  # mov rax, rdx; ret
)
"""A function of one argument, the request's six words: how a program under valgrind speaks to it
(``__SPECIAL_INSTRUCTION_PREAMBLE`` and ``VALGRIND_DO_CLIENT_REQUEST_EXPR`` of ``valgrind.h`` for
x86-64)."""

_CALLGRIND = ord("C") << 24 | ord("T") << 16
_DUMP, _ZERO, _TOGGLE, _BEGIN = (_CALLGRIND + number for number in (0, 1, 2, 4))
"""Of ``callgrind.h``: DUMP_STATS, ZERO_STATS, TOGGLE_COLLECT, START_INSTRUMENTATION."""


class Instructions:
    """Counts instructions of the processor; in a process that callgrind runs.

    Args:
        out: its ``--callgrind-out-file``. It was also told ``--instr-atstart=no`` (so that what
            comes before takes seconds, not a minute) and ``--collect-atstart=no``.
    """

    def __init__(self, out: str) -> None:
        self._out = out
        self._dumps = 0
        self._counting = False
        self._code = mmap.mmap(
            -1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        )
        self._code.write(_CLIENT_REQUEST)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        self._call = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(address)
        self._words = {
            request: (ctypes.c_uint64 * 6)(request) for request in (_DUMP, _ZERO, _TOGGLE, _BEGIN)
        }

    def begin(self) -> None:
        """See :class:`Counter`."""
        self._ask(_BEGIN)

    def _ask(self, request: int) -> None:
        self._call(self._words[request])

    def count(self, run: Callable[[], object]) -> int:
        """See :class:`Counter`."""
        self._ask(_ZERO)
        self._counting = True
        self._ask(_TOGGLE)
        try:
            run()
        finally:
            self._ask(_TOGGLE)
            self._counting = False
        self._ask(_DUMP)
        self._dumps += 1
        dump = Path(f"{self._out}.{self._dumps}")
        total = dump.read_text().rpartition("\ntotals: ")[2]
        dump.unlink()
        return int(total)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """See :class:`Counter`."""
        if not self._counting:
            yield
            return
        self._ask(_TOGGLE)
        try:
            yield
        finally:
            self._ask(_TOGGLE)
