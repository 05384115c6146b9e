"""The base URLs that a proxy has for a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.prefixes import RUN_PREFIX, TO_PREFIX
from telemetry.launch_labels import build_label

if TYPE_CHECKING:
    from proxy.processes.launch_link import Joined


class Bases(msgspec.Struct, frozen=True, kw_only=True):
    """Base URLs.

    Attributes:
        root: where the proxy itself chooses the upstream, without a final slash.
        paths: what to append for base URLs that were asked for, by name.
        messages_host: where calls of Anthropic's API go from the root; empty where nobody knows.
    """

    root: str
    paths: dict[str, str]
    messages_host: str = ""

    @classmethod
    def of(cls, joined: Joined, name: str = "", number: str = "") -> Bases:
        """Build those of a launch; without a name, those of no launch."""
        prefix = RUN_PREFIX + build_label(name, number) if name else ""
        root = joined.url + prefix
        return cls(root=root, paths=joined.paths, messages_host=joined.messages_host)

    def is_elsewhere(self, name: str) -> bool:
        """Tell whether one that was asked for is not a path of the proxy's own."""
        return self.paths.get(name, "").startswith(TO_PREFIX)

    def find(self, name: str) -> str | None:
        """Find one that was asked for."""
        path = self.paths.get(name)
        return None if path is None else self.root + path
