"""Check who may call, and how many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.commands.check_findings import bad, good, note
from proxy.configure import explain_exposed_keys, read_inbound_keys
from proxy.file_limit import hard_file_limit
from proxy.limits import FILES_PER_CONNECTION, MAX_OTHER_FILES, count_room
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.commands.check_findings import Finding
    from proxy.settings.settings import Settings


def check_inbound_keys(settings: Settings) -> Iterator[Finding]:
    """Check that the keys of callers can be read, and that none of ours is exposed without them."""
    try:
        keys = read_inbound_keys(settings)
    except ConfigurationError as error:
        yield bad("inbound keys", str(error), "correct the entry; no part of a key is shown here")
        return
    if exposed := explain_exposed_keys(settings):
        what_it_is, _, mend = exposed.partition(": ")
        yield note("inbound keys", what_it_is, mend)
    elif keys is not None:
        yield good("inbound keys", f"{len(keys.digests)} known; a caller who shows none gets a 401")


def check_file_limit(settings: Settings) -> Iterator[Finding]:
    """Check that as many connections can be open at once as the settings allow."""
    wanted = settings.max_connections * FILES_PER_CONNECTION + MAX_OTHER_FILES
    limit = hard_file_limit()
    words = f"each process may have {limit:,}, enough for {count_room(limit):,} calls at once"
    if limit >= wanted:
        yield good("open files", words)
    else:
        yield note(
            "open files",
            f"{words}, not for the {settings.max_connections:,} of max_connections",
            f"raise the hard limit to {wanted:,} (ulimit -Hn, LimitNOFILE=, --ulimit nofile), or "
            f"lower SPANTAP_MAX_CONNECTIONS to {count_room(limit):,}",
        )
