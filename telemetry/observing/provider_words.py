"""What a provider says beside its answer, without the credentials of the request's head (R7).

An error's words become metric labels, log lines and the columns of the store, so they are masked
before anything is made of them. An answer is masked with the span (:mod:`telemetry.privacy.mask`).

Rules:

1. Errors, whatever the status and wherever they stand; bodies that are no answer; the id of the
   call and the rate limits: in all of these a provider may quote what it was sent.
2. Of a text that is not whole, what may be the beginning of a credential goes. The end of an
   encoding that came too early is not noticed, so an encoded text that is no JSON counts as cut.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.call import Said
    from telemetry.privacy.credentials import Credentials

__all__ = ("mask_error", "mask_headers")


def mask_error(response: Said | None, credentials: Credentials) -> Said | None:
    """An answer whose error is told without credentials; its body stays as it is."""
    if response is None or (error := response.error) is None or not credentials:
        return response
    masked = replace(
        error,
        message=credentials.redact_quote(error.message),
        type=error.type and credentials.redact_quote(error.type),
        code=error.code and credentials.redact_quote(error.code),
    )
    return msgspec.structs.replace(response, error=masked)


def mask_headers(
    request_id: str | None, rate_limits: Mapping[str, str], credentials: Credentials
) -> tuple[str | None, Mapping[str, str]]:
    """The id of a call and its rate limits without credentials."""
    if not credentials:
        return request_id, rate_limits
    together = "\n".join((request_id or "", *rate_limits.values()))
    if credentials.redact_quote(together) is together:  # usual: they are looked at once
        return request_id, rate_limits
    masked = {name: credentials.redact_quote(value) for name, value in rate_limits.items()}
    return request_id and credentials.redact_quote(request_id), masked
