"""The file beside the store that holds the page's token: ``<store>.page-token``.

It stays, so that a bookmark survives a restart; without it the next start makes another token.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Final

from telemetry.errors import ConfigurationError

TOKEN_BYTES: Final = 32
"""How many random bytes: nobody can guess them."""

_TOKEN: Final = re.compile(r"[!-~]{16,200}")
_MAX_FILE_BYTES: Final = 1024


def token_path(store: Path) -> Path:
    """Name the file; a link to the store has the same one as the store."""
    return Path(f"{store.resolve()}.page-token")


def read_token(store: Path) -> str:
    """Read the token of a store; make it now if there is none yet.

    Raises:
        ConfigurationError: the file cannot be made or read, or cannot be trusted.
    """
    path = token_path(store)
    try:
        if not os.path.lexists(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make(path)
        return _read(path)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigurationError(f"the page's token cannot be kept in {path}: {why}") from error


def _make(path: Path) -> None:
    """Make the file in one step, so that it always has a whole token.

    A file that another process has made meanwhile stays.

    Raises:
        OSError: it cannot be made.
    """
    unnamed = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor is not a path
            file.write(f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")
        try:
            os.link(unnamed, path)
        except FileExistsError:
            return
        except OSError:  # the file system has no links: the last one wins
            unnamed.rename(path)
    finally:
        unnamed.unlink(missing_ok=True)


def _read(path: Path) -> str:
    """Read the file if it can be trusted.

    If others can read it, it belongs to another user, or it is not a regular file, then others may
    know the token.

    Raises:
        OSError: it cannot be read; it may be a link.
        ConfigurationError: it cannot be trusted, or holds no token.
    """
    # Non-blocking, because opening a pipe would wait.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor is not a path
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigurationError(f"the page's token cannot be read: {path} is not a file")
        if status.st_uid != os.geteuid():
            raise ConfigurationError(f"the page's token is not used: {path} is another user's")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigurationError(
                f"the page's token is not used, because others can read it: delete {path}, and the "
                "next start makes another"
            )
        said = file.read(_MAX_FILE_BYTES)
    with contextlib.suppress(UnicodeDecodeError):
        text = said.decode("ascii").strip()
        if _TOKEN.fullmatch(text):
            return text
    raise ConfigurationError(f"{path} holds no token: delete it, and the next start makes one")
