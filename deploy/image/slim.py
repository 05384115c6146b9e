"""Takes out of the image what nothing in it uses. The Dockerfile runs it, with any Python >= 3.11.

``slim.py packages ENVIRONMENT``: what packages bring for builds, type checkers, tests, debuggers.

``slim.py system ENVIRONMENT STORE``: the base's pip and its kin. It also compiles the part of the
standard library that spantap imports, unless the base did (images of Python come without, and a
read-only root cannot catch up on it); and makes the folder of the store, for the user 65532 alone.
"""
# ruff: noqa: INP001 - a program in a folder that is no package

from __future__ import annotations

import os
import py_compile
import shutil
import site
import struct
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

USER = 65532

UNUSED_SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx"}

UNUSED_FILES = ("zstandard/_cffi.*.so",)
"""The second form of a library whose first is used: it would need cffi, which is not installed."""

INSTALLERS = ("pip", "setuptools", "wheel", "pkg_resources", "_distutils_hack")

FIND_IMPORTED = """
import importlib, pkgutil, sys
for package in ("codec", "telemetry", "proxy"):
    for module in pkgutil.walk_packages([f"{sys.argv[1]}/{package}"], f"{package}."):
        importlib.import_module(module.name)
print(*(m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)), sep="\\n")
"""
"""Imports all of spantap, and prints the files of all modules that came along."""


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def find_packages(environment: Path) -> Path:
    """The folder ``site-packages`` of an environment."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    return packages


def drop_debugging(library: Path) -> None:
    """Cut what debuggers alone read off a shared library, where it has that (ELF, 64 bits).

    It lies behind the last segment, with the table of sections; who loads it reads neither.
    """
    data = bytearray(library.read_bytes())
    if not data.startswith(b"\x7fELF\x02\x01") or b"\0.debug_info\0" not in data:
        return
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    ends = []
    for header in range(table, table + size * count, size):
        offset, _, _, length = struct.unpack_from("<4Q", data, header + 8)
        ends.append(offset + length)
    struct.pack_into("<Q", data, 40, 0)  # there is no table of sections,
    struct.pack_into("<HH", data, 60, 0, 0)  # and nothing in it
    library.write_bytes(data[: max(ends)])


def slim_packages(environment: Path) -> None:
    """Remove sources of extensions, stubs, tests; and all programs but Python."""
    packages = find_packages(environment)
    unused = [p for p in packages.rglob("*") if p.is_file() and p.suffix in UNUSED_SUFFIXES]
    unused += [p for p in packages.rglob("*") if p.is_dir() and p.name in {"test", "tests"}]
    unused += [p for pattern in UNUSED_FILES for p in packages.glob(pattern)]
    unused += [p for p in environment.glob("bin/*") if not p.name.startswith("python")]
    for path in unused:
        if path.exists():
            remove(path)
    for library in packages.rglob("*.so"):
        drop_debugging(library)


def slim_system() -> None:
    """Remove what installs packages."""
    library = Path(os.__file__).parent
    unused = [library / "ensurepip", Path("/usr/share/python-wheels")]
    for folder in map(Path, site.getsitepackages()):
        for name in INSTALLERS:
            unused += [folder / name, *folder.glob(f"{name}-*.dist-info")]
        unused.append(folder / "distutils-precedence.pth")
    unused += [*Path(sys.prefix, "bin").glob("pip*"), Path(sys.prefix, "bin/wheel")]
    for path in unused:
        if path.exists():
            remove(path)


def compile_library(environment: Path) -> None:
    """Compile what spantap imports of the standard library, where that was not done."""
    library = Path(os.__file__).parent
    python, packages = str(environment / "bin/python"), str(find_packages(environment))
    command = [python, "-B", "-c", FIND_IMPORTED, packages]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - our own
    for source in map(Path, sorted(printed.splitlines())):
        if (
            source.is_relative_to(library)
            and source.suffix == ".py"
            and not Path(cache_from_source(str(source))).exists()
        ):
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(source), doraise=True, invalidation_mode=mode)


def make_store(folder: Path) -> None:
    """Make the folder of the store."""
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    os.chown(folder, USER, USER)


def main() -> None:
    """Obey."""
    match sys.argv[1:]:
        case ["packages", environment]:
            slim_packages(Path(environment))
        case ["system", environment, store]:
            slim_system()
            compile_library(Path(environment))
            make_store(Path(store))
        case _:
            sys.exit("usage: slim.py packages ENVIRONMENT | system ENVIRONMENT STORE")


if __name__ == "__main__":
    main()
