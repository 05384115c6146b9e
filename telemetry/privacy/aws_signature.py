"""Reads Amazon's signatures of requests (Signature Version 4): who made one, and what it covers.

A signature is in a presigned query, or in the header ``Authorization``: ``AWS4-HMAC-SHA256
Credential=KEY/20260101/eu-west-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date,
Signature=…``. The other kind begins with ``AWS4-ECDSA-P256-SHA256`` (4A).
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

_MAX_CHARS = 8 * 1024
"""The most of a header or a query that is read; signatures have some 300 characters."""

_CREDENTIAL = re.compile(r"Credential=([^/,\s]{1,128})/")
_SIGNED = re.compile(r"SignedHeaders=([^,\s]+)")
_QUERY_CREDENTIAL = re.compile(r"(?:\A|&)X-Amz-Credential=([^/&]{1,128}?)(?:/|%2[Ff])")
_QUERY_SIGNED = re.compile(r"(?:\A|&)X-Amz-SignedHeaders=([^&]+)")


class AwsSignature(NamedTuple):
    """The words of a signature.

    Attributes:
        key_id: of the access key, which is not secret.
        headers: lower-case names of the headers that it covers.
    """

    key_id: str
    headers: tuple[str, ...]


def read_header_signature(value: str) -> AwsSignature | None:
    """Read an ``Authorization``; ``None`` if it is not such a signature."""
    if not value.lstrip().startswith("AWS4-"):
        return None
    return _read(_CREDENTIAL.search(value, 0, _MAX_CHARS), _SIGNED.search(value, 0, _MAX_CHARS))


def read_query_signature(query: str) -> AwsSignature | None:
    """Read a raw query; ``None`` if it is not presigned."""
    if "X-Amz-Credential=" not in query:
        return None
    credential = _QUERY_CREDENTIAL.search(query, 0, _MAX_CHARS)
    return _read(credential, _QUERY_SIGNED.search(query, 0, _MAX_CHARS))


def _read(credential: re.Match[str] | None, signed: re.Match[str] | None) -> AwsSignature | None:
    if credential is None:
        return None
    headers = unquote(signed[1]).lower().split(";") if signed is not None else []
    return AwsSignature(unquote(credential[1]), tuple(headers))
