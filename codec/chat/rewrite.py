"""Asks for usage on a client's behalf: one splice into the request body, by policy.

Rules (``docs/contract/promises.md#usage``, ``docs/contract/spans.md#usage-policy``):

1. Only a body whose ``stream`` is the JSON value ``true`` is changed, and never one that has
   ``data_sources``, because Azure refuses the option beside them with status 400.
2. Every byte except for the splice stays: key order, number text, escapes, white space (R1).
3. The body stays as it is if ``stream_options`` is neither object nor null, a member occurs twice,
   or the scan cannot follow it; :attr:`~codec.usage_option.Rewrite.note` says so.
4. If the client itself asks, nothing is changed and its stream is never filtered.
5. A body over :data:`_MAX_COPIED_BYTES` is not copied: its rewrite is its blocks and views of them,
   with the splice in between. A copy of 20 MB would block the loop for 17 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codec.text.blocks import Blocks
from codec.text.scan import scan_request
from codec.usage_option import Rewrite, UsagePolicy, leave_body

if TYPE_CHECKING:
    from codec.text.scan import BodyScan, Member

__all__ = (
    "MAX_STREAM_OPTIONS_BYTES",
    "REQUEST_MEMBERS",
    "USAGE_REWRITE",
    "names_usage_option",
    "rewrite_request",
)

REQUEST_MEMBERS = frozenset({"stream", "stream_options", "model", "data_sources"})
"""The members of a request that the scan must find."""

MAX_STREAM_OPTIONS_BYTES = 16_384
"""Longest ``stream_options`` that is scanned, in one step; a real one takes 60 bytes."""

_MAX_COPIED_BYTES = 65_536
"""Largest body that is copied to be rewritten (rule 5): the copy takes some microseconds, and is
sent in one write."""

USAGE_REWRITE = "stream_options.include_usage"
"""The name of the rewrite in a span's metadata (``docs/contract/spans.md#proxy-rewrites``)."""

_VALUE_BYTES = len(b"true") + 1
"""How much of a value is compared with ``true``."""

_ASK = b'"include_usage":true'
_OPTIONS = frozenset({"include_usage"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The client's ``stream_options``: the place, the text, and the scan of an object.

    A text that is too long is cut and not scanned.
    """

    member: Member
    text: bytes
    scan: BodyScan | None

    @property
    def ask(self) -> bool:
        """Whether the client itself asks for usage."""
        return self.scan is not None and self.scan.value(self.text, "include_usage") == b"true"


def rewrite_request(body: bytes | Blocks, scan: BodyScan, policy: UsagePolicy) -> Rewrite:
    """Make the upstream's body from all of the client's bytes and the scan of them."""
    streams = scan.value(body, "stream", _VALUE_BYTES) == b"true"
    if not streams and scan.problem is None and "stream_options" not in scan.members:
        return leave_body(body)  # most calls: nothing else of them matters
    options = _find_options(body, scan)
    by_policy = policy is UsagePolicy.NEVER or (
        policy is UsagePolicy.IF_ABSENT and options is not None
    )
    if by_policy or (options is not None and options.ask):
        return leave_body(body)
    if scan.problem is not None:
        return leave_body(body, note=scan.problem)
    if not streams:
        return leave_body(body)
    note = _find_obstacle(scan, options)
    if note is not None:
        return leave_body(body, note=note)
    start, end, text = _find_splice(scan, options)
    whole = Blocks((body,)) if isinstance(body, bytes) else body
    parts = (*whole.cut(0, start), text, *whole.cut(end, len(body)))
    if len(body) > _MAX_COPIED_BYTES:
        return Rewrite(body=b"", more=parts, asked=True, rewrites=(USAGE_REWRITE,))
    return Rewrite(body=b"".join(parts), asked=True, rewrites=(USAGE_REWRITE,))


def names_usage_option(body: bytes) -> bool:
    """Tell whether an error body (status 400 or 422) blames the option that we added.

    Providers name it in prose or in a path such as ``body.stream_options.include_usage``
    (``docs/contract/wire.md#refused-option``), always spelled as it was sent.
    """
    return b"stream_options" in body or b"include_usage" in body


def _find_options(body: bytes | Blocks, scan: BodyScan) -> _Options | None:
    member = scan.members.get("stream_options")
    if member is None:
        return None
    text = body[member.start : min(member.end, member.start + MAX_STREAM_OPTIONS_BYTES + 1)]
    if not text.startswith(b"{") or len(text) > MAX_STREAM_OPTIONS_BYTES:
        return _Options(member=member, text=text, scan=None)
    return _Options(member=member, text=text, scan=scan_request(text, _OPTIONS))


def _find_obstacle(scan: BodyScan, options: _Options | None) -> str | None:
    """The reason to leave a streaming request as it is; ``None`` if it can be changed."""
    if scan.members["stream"].count > 1:
        return "duplicate_stream"
    if "data_sources" in scan.members:
        return "data_sources"
    if options is None:
        return None
    if options.member.count > 1:
        return "duplicate_stream_options"
    if options.text == b"null":
        return None
    if len(options.text) > MAX_STREAM_OPTIONS_BYTES:
        return "stream_options_too_long"
    if options.scan is None:
        return "stream_options_not_an_object"
    if options.scan.problem is not None:
        return "stream_options_malformed"
    asked = options.scan.members.get("include_usage")
    return "duplicate_include_usage" if asked is not None and asked.count > 1 else None


def _find_splice(scan: BodyScan, options: _Options | None) -> tuple[int, int, bytes]:
    """The bytes to replace, from start to end, and the text to put there."""
    if options is None:
        # Behind `stream`, which is surely there, so that a comma is always right.
        end = scan.members["stream"].end
        return end, end, b',"stream_options":{%b}' % _ASK
    start = options.member.start
    if options.scan is None:  # null
        return start, options.member.end, b"{%b}" % _ASK
    asked = options.scan.members.get("include_usage")
    if asked is not None:
        return start + asked.start, start + asked.end, b"true"
    inside = start + len(b"{")
    return inside, inside, _ASK if options.scan.empty else b"%b," % _ASK
