"""Loads the certificates and keys that the settings name into a TLS context.

If a file cannot be used, the ``ConfigurationError`` names it and quotes nothing of it (R7).
"""

from __future__ import annotations

import ssl
import stat
from typing import TYPE_CHECKING

from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def refuse_special_file(setting: str, path: Path) -> None:
    """Refuse anything that is not a regular file: a read of a FIFO waits for a writer.

    A file that cannot be examined passes here. Opening it will fail.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise ConfigurationError(f"setting {setting!r}: {path} is not a regular file")


def load_authorities(context: ssl.SSLContext, path: Path) -> None:
    """Trust the authorities in the file of the setting ``ca_file`` as well."""
    refuse_special_file("ca_file", path)
    try:
        context.load_verify_locations(cafile=path)
    except OSError as error:
        raise ConfigurationError(f"setting 'ca_file': {path} {_explain(error)}") from error


def load_certificate(
    context: ssl.SSLContext, side: str, certificate: Path, key: Path | None
) -> None:
    """Load our certificate, whose key may be in the same file.

    The names of the two settings begin with `side`, ``tls`` or ``client``.
    """
    files = f"setting '{side}_cert': {certificate}"
    refuse_special_file(f"{side}_cert", certificate)
    if key is not None:
        files += f" with '{side}_key': {key}"
        refuse_special_file(f"{side}_key", key)
    try:
        # Without this function OpenSSL would ask for a password on the terminal.
        context.load_cert_chain(certificate, key, password=_has_no_password)
    except OSError as error:
        raise ConfigurationError(f"{files} {_explain(error)}") from error
    except ValueError:
        raise ConfigurationError(f"{files} has a password; give a key without one") from None


def _explain(error: OSError) -> str:
    """Say what is wrong with a file, without OpenSSL's error numbers and source lines."""
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "it holds none of the PEM blocks that are wanted").replace(
            "_", " "
        )
        return f"cannot be used: {reason}"
    return f"cannot be read: {error.strerror or type(error).__name__}"


def _has_no_password() -> str:
    raise ValueError
