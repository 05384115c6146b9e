"""The base URLs by which a launch reaches its proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from proxy.prefixes import RUN_PREFIX, TO_PREFIX
from telemetry.launch_labels import build_label

if TYPE_CHECKING:
    from proxy.processes.launch_channel import Joined


class Bases(msgspec.Struct, frozen=True, kw_only=True):
    """Base URLs.

    Attributes:
        root: the URL at which the proxy chooses the upstream, without a final slash.
        paths: what to append to the root for each requested base URL, by name.
        messages_host: where calls of Anthropic's API to the root go; empty if that is not known.
    """

    root: str
    paths: dict[str, str]
    messages_host: str = ""

    @classmethod
    def of(cls, joined: Joined, name: str = "", number: str = "") -> Bases:
        """Build the base URLs of a launch; without a name, they belong to no launch."""
        prefix = RUN_PREFIX + build_label(name, number) if name else ""
        root = joined.url + prefix
        return cls(root=root, paths=joined.paths, messages_host=joined.messages_host)

    @property
    def host(self) -> str:
        """The host of the proxy."""
        return urlsplit(self.root).hostname or ""

    def is_elsewhere(self, name: str) -> bool:
        """Tell whether a requested base URL leads to the user's upstream, by a pass."""
        return self.paths.get(name, "").startswith(TO_PREFIX)

    def find(self, name: str) -> str | None:
        """Find a requested base URL."""
        path = self.paths.get(name)
        return None if path is None else self.root + path
