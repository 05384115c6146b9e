"""The fuzzer: ``python -m tests.fuzz.fuzz CORPUS... [libFuzzer options]``, from the root.

atheris instruments the codec, so that libFuzzer sees which branches an input reaches. A finding is
an exception; its input is written to a file, which belongs into the corpus once it is mended.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["codec"]):
    from tests.fuzz.targets import run


def main() -> None:
    """Fuzz until a limit of the options, or a finding."""
    atheris.Setup(sys.argv, run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
