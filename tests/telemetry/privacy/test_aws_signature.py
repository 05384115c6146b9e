"""Amazon's signatures: whose they are, and what they cover."""

from __future__ import annotations

import pytest

from telemetry.privacy.aws_signature import (
    AwsSignature,
    read_header_signature,
    read_query_signature,
)
from telemetry.privacy.head_credentials import QUERY, find_head_credentials

SCOPE = "20261128/us-east-1/bedrock/aws4_request"
TOKEN = "IQoJb3JpZ2luX2VjEBYaCXVzLWVhc3QtMSJHMEUCIQD"


def sign(key_id: str, signature: str, *, headers: str = "host;x-amz-date") -> str:
    """An ``Authorization`` as Amazon's SDKs write it."""
    return (
        f"AWS4-HMAC-SHA256 Credential={key_id}/{SCOPE}, "
        f"SignedHeaders={headers}, Signature={signature * 64}"
    )


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (sign("AKIDEXAMPLE", "a"), AwsSignature("AKIDEXAMPLE", ("host", "x-amz-date"))),
        (
            f"AWS4-ECDSA-P256-SHA256 Credential=ASIA1/{SCOPE},SignedHeaders=Host,Signature=b",
            AwsSignature("ASIA1", ("host",)),
        ),
        (f"AWS4-HMAC-SHA256 Credential=A/{SCOPE}", AwsSignature("A", ())),
        ("AWS4-HMAC-SHA256 Credential=, SignedHeaders=host", None),
        ("Bearer Credential=AKID/x, SignedHeaders=host", None),
        ("Bearer ABSKexample", None),
        ("AWS4-" + "x" * 100_000 + "Credential=A/x", None),
        ("", None),
    ],
)
def test_a_signature_in_a_header_is_read(value: str, found: AwsSignature | None) -> None:
    """Both kinds are; nothing else is taken for one, and no long text is looked through."""
    assert read_header_signature(value) == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (
            "a=b&X-Amz-Credential=AKID%2F2026%2Fx&X-Amz-SignedHeaders=host%3Bx-a&X-Amz-Signature=1",
            AwsSignature("AKID", ("host", "x-a")),
        ),
        ("X-Amz-Credential=AKID/2026/x&X-Amz-SignedHeaders=host", AwsSignature("AKID", ("host",))),
        ("My-X-Amz-Credential=AKID/2026", None),
        ("X-Amz-Signature=AKID", None),
        ("", None),
    ],
)
def test_a_presigned_query_is_read(query: str, found: AwsSignature | None) -> None:
    """Its slashes may be escaped."""
    assert read_query_signature(query) == found


def heads(key_id: str, other: str) -> list[list[tuple[str, str]]]:
    """Heads of one caller, signed in each way; another call has another signature and token."""
    common = [("x-amz-date", f"20261128T18{ord(other)}00Z"), ("amz-sdk-invocation-id", other * 32)]
    token = ("x-amz-security-token", TOKEN + other * 8)
    hashed = ("x-amz-content-sha256", other * 64)
    presigned = f"X-Amz-Credential={key_id}%2F{SCOPE}&X-Amz-Security-Token={TOKEN}{other}"
    return [
        [*common, ("authorization", sign(key_id, other))],
        [*common, token, hashed, ("authorization", sign(key_id, other))],
        [(QUERY, f"{presigned}&X-Amz-Signature={other * 64}")],
    ]


def test_a_signed_callers_calls_are_one_callers() -> None:
    """Each has another signature: the access key tells whose they are, and what is beside it."""
    digests = set()
    for first, second in zip(heads("AKIDEXAMPLE", "a"), heads("AKIDEXAMPLE", "b"), strict=True):
        made = find_head_credentials(first).digest(b"k")
        assert find_head_credentials(second[::-1]).digest(b"k") == made
        digests.add(made)
        beside = [*first, ("x-api-key", "sk-somebody-else-1")]
        assert find_head_credentials(beside).digest(b"k") != made
    assert len(digests) == 1
    for others in heads("AKIDOTHEREXAMPLE", "a"):
        assert find_head_credentials(others).digest(b"k") not in digests


def test_the_caller_of_a_signed_call_is_told_after_its_model_and_its_body_are_known() -> None:
    """What is masked besides does not change whose a call is."""
    first, second = (
        find_head_credentials([("authorization", sign("AKIDEXAMPLE", other)), ("x-a", "m-1-long")])
        for other in "ab"
    )
    assert first.without("m-1-long").digest(b"k") == second.digest(b"k")
    key = find_head_credentials([("x-api-key", "sk-somebody-else-1")])
    assert first.joined(key).digest(b"k") == second.joined(key).digest(b"k") != first.digest(b"k")


def test_signature_and_token_are_masked_as_ever() -> None:
    """What tells a caller is another question than what is secret."""
    [_, head, _] = heads("AKIDEXAMPLE", "a")
    said = f"signature {'a' * 64}, token {TOKEN}{'a' * 8}"
    assert find_head_credentials(head).redact(said) == (
        "signature __REDACTED__, token __REDACTED__"
    )
