"""Files that exist as long as the processes: their sockets, and the settings that they get.

The files are in the folder for temporary files, or else beside the store: a container may have no
other place to write to. Killed processes leave them there; the next start removes them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from telemetry.errors import ConfigurationError
from telemetry.own_files import is_held

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "spantap-"

_SOCKET = "frames"

_CONTROL_NAME = "door"

_NEWS = "news"

_ABANDONED_SECONDS = 5.0
"""The owner of a younger socket may be just about to listen on it."""

_FRAMES_BACKLOG = 64
"""How many workers may wait to connect until telemetry is back; each has one connection."""


_CONTROL_BACKLOG = 64
"""How many launches may wait to connect while the proxy starts."""


def settings_file(store: Path, handed: bytes) -> IO[bytes]:
    """Make a file without a name that holds `handed`.

    Raises:
        ConfigurationError: no file can be made.
    """
    for folder in _folders(store):
        with contextlib.suppress(OSError):
            file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it outlives this program
            file.write(handed)
            file.seek(0)
            return file
    raise _no_folder(store)


@contextlib.contextmanager
def frames_socket(store: str) -> Iterator[socket.socket]:
    """Make a listening Unix socket in a folder only for its owner, as long as the block runs.

    Raises:
        ConfigurationError: no socket can be made.
    """
    for parent in _folders(Path(store)):
        _remove_abandoned(parent)
        try:
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        except OSError:
            continue
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            try:
                # This fails if the path is longer than some 100 bytes.
                sock.bind(f"{folder}/{_SOCKET}")
                sock.listen(_FRAMES_BACKLOG)
            except OSError:
                continue
            yield sock
            return
        finally:
            sock.close()
            shutil.rmtree(folder, ignore_errors=True)
    raise _no_folder(Path(store))


def make_control_socket(frames_path: str) -> socket.socket:
    """Make a listening Unix socket for launches, beside the socket of frames.

    Raises:
        ConfigurationError: no socket can be made.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(f"{Path(frames_path).parent}/{_CONTROL_NAME}")
        sock.listen(_CONTROL_BACKLOG)
    except OSError as error:
        sock.close()
        raise ConfigurationError(f"no socket can be made beside {frames_path}: {error}") from error
    sock.setblocking(False)  # noqa: FBT003 - its only parameter
    return sock


def news_path(path: str) -> str:
    """Name the socket of live news, beside that of frames or of launches."""
    return f"{Path(path).parent}/{_NEWS}"


def life_path(frames_path: str, token: str) -> Path:
    """Name the file that a worker holds while it lives; it is beside the socket."""
    return Path(f"{frames_path}.{token}")


def list_living(frames_path: str) -> list[str]:
    """List the tokens of living workers, from their files beside the socket."""
    path = Path(frames_path)
    tokens = [
        found.name.removeprefix(f"{path.name}.") for found in path.parent.glob(f"{path.name}.*")
    ]
    return [token for token in tokens if is_held(life_path(frames_path, token))]


def remove_frames_folder(path: str) -> None:
    """Remove a socket's folder, because its supervisor could not; any other folder stays."""
    folder = Path(path).parent
    if folder.name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(parent: str) -> None:
    """Remove our old folders in which nobody listens any more: their processes were killed."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if _is_abandoned(entry.path):
                        shutil.rmtree(entry.path, ignore_errors=True)


def _is_abandoned(folder: str) -> bool:
    """Tell whether a folder is ours, and nobody listens on its socket.

    Raises:
        OSError: this cannot be found out; there may be no socket in it.
    """
    status = os.lstat(f"{folder}/{_SOCKET}")
    if status.st_uid != os.geteuid() or time.time() < status.st_mtime + _ABANDONED_SECONDS:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)  # noqa: FBT003 - its only parameter
        try:
            sock.connect(f"{folder}/{_SOCKET}")
        except ConnectionRefusedError:
            return stat.S_ISSOCK(status.st_mode)
        return False


def _folders(store: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield tempfile.gettempdir()
    with contextlib.suppress(OSError):
        store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield str(store.parent)


def _no_folder(store: Path) -> ConfigurationError:
    return ConfigurationError(
        f"no temporary file can be made, neither in the system's folder for them nor in "
        f"{store.parent}; set TMPDIR to a folder that can be written"
    )
