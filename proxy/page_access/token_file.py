"""The file beside the store that holds the page's token: ``<store>.page-token``.

It stays, so that a bookmark survives a restart; without it the next start makes another token.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path
from typing import Final

from telemetry.errors import ConfigurationError
from telemetry.own_files import RefusedError, read_secret, write_secret

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
        ConfigurationError: the file cannot be made or read, or others may know what it holds.
    """
    path = token_path(store)
    try:
        if not os.path.lexists(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_secret(path, f"{secrets.token_urlsafe(TOKEN_BYTES)}\n".encode("ascii"))
        said = read_secret(path, _MAX_FILE_BYTES)
    except RefusedError as error:
        raise ConfigurationError(
            f"the page's token is not used: {error.strerror}; delete {path}, and the next start"
            " makes another"
        ) from error
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigurationError(f"the page's token cannot be kept in {path}: {why}") from error
    with contextlib.suppress(UnicodeDecodeError):
        text = said.decode("ascii").strip()
        if _TOKEN.fullmatch(text):
            return text
    raise ConfigurationError(f"{path} holds no token: delete it, and the next start makes one")
