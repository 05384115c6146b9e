"""Sends a request again, as the client wrote it, if an upstream refuses what we altered.

The client gets the last answer. :mod:`proxy.relay.rejections` remembers the result.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from proxy.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codec.usage_option import UsageOption
    from proxy.relay.rejections import RejectionKey, Rejections
    from proxy.upstream.response import UpstreamResponse

MAX_REJECTION_BYTES = 64 * 1024
"""How much of an error body is searched for the name of the option that we added."""

_REFUSED = frozenset({400, 422})
_FAILED = frozenset({500, 501})
_DOUBTFUL = _REFUSED | {415} | _FAILED


class _Blame(Enum):
    NAMED = auto()
    """A refusal that names the option (400 or 422): the request is sent once more without it. If it
    is taken then, the upstream rejects the option; if not, no other request is sent twice for that
    reason."""
    DOUBTED = auto()
    """A refusal that does not name the option (400, 415 or 422), or a failure that names it (500 or
    501): without us the client might not have got it. The request is sent once more, unless the
    upstream has taken a request with the option before, or refused one without it."""


async def ask_again(
    response: UpstreamResponse,
    option: UsageOption,
    rejections: Rejections,
    key: RejectionKey,
    ask: Callable[[], Awaitable[UpstreamResponse]],
) -> UpstreamResponse | None:
    """Ask again if the answer to a request with the option may be the option's fault.

    Args:
        response: that answer; it is closed if there is a second one, or an error.
        option: the option that was added.
        rejections: remembers the result.
        key: the upstream, path and model that were asked.
        ask: sends the request as the client wrote it.

    Returns:
        The second answer; ``None`` if the client gets the first.

    Raises:
        GatewayError: there was no second answer.
    """
    try:
        blame = await _find_blame(response, option, rejections, key)
    except BaseException:
        response.close()
        raise
    if blame is None:
        return None
    response.close()
    if blame is _Blame.NAMED:
        response = await ask()
        if response.status < 400:
            rejections.add(key)
        else:
            rejections.note_refused(key)
        return response
    if key in rejections:  # since the request went up
        return await ask()
    return await _try(rejections, key, ask)


async def _find_blame(
    response: UpstreamResponse, option: UsageOption, rejections: Rejections, key: RejectionKey
) -> _Blame | None:
    """Find out whether an answer is the option's fault; a running trial is waited for."""
    status = response.status
    if status < 300:
        rejections.note_taken(key)
        return None
    is_doubtful = status in _DOUBTFUL and rejections.leaves_doubt(key)
    if not (is_doubtful or status in _REFUSED) or rejections.is_quoted(key):
        return None
    is_named = option.is_blamed(await response.peek(MAX_REJECTION_BYTES))
    if is_named and status in _REFUSED:
        return _Blame.NAMED
    if not is_doubtful or (status in _FAILED and not is_named):
        return None
    await rejections.wait_for_trial(key)
    return _Blame.DOUBTED if rejections.leaves_doubt(key) else None


async def _try(
    rejections: Rejections, key: RejectionKey, ask: Callable[[], Awaitable[UpstreamResponse]]
) -> UpstreamResponse:
    """Ask as a trial, and remember the result."""
    taken = None
    rejections.begin_trial(key)
    try:
        response = await ask()
        taken = response.status < 400
    except GatewayError:
        taken = False
        raise
    finally:
        rejections.end_trial(key, taken=taken)
    return response
