"""Settings that are tables: ``[[upstream]]`` and ``[[price]]``."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, field_validator

from codec.usage_option import UsagePolicy
from proxy.prefixes import RUN_PREFIX, TO_PREFIX
from proxy.upstream_entry import KeyHeader, WebSocketPolicy, check_url, read_key

Url = Annotated[str, AfterValidator(check_url)]


class UpstreamConfig(BaseModel):
    """One ``[[upstream]]`` table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    url: Url
    prefix: str = "/"
    usage: UsagePolicy | None = None
    websockets: WebSocketPolicy | None = None
    provider: str | None = None
    api_key_env: str | None = None
    api_key_header: KeyHeader | None = None

    @field_validator("prefix")
    @classmethod
    def _prefix(cls, value: str) -> str:
        if not value.startswith("/"):
            raise ValueError(f"prefix {value!r} must begin with a slash")
        if value.startswith((RUN_PREFIX, TO_PREFIX)):
            raise ValueError(
                f"prefix {value!r} begins like spantap's own prefixes (`spantap help run`)"
            )
        return value

    @field_validator("api_key_env")
    @classmethod
    def _api_key_env(cls, value: str | None) -> str | None:
        if value is not None:
            read_key(value)
        return value


class PriceConfig(BaseModel):
    """One ``[[price]]`` table: a model's rates in US dollars.

    Rates are for a million tokens, or for a thousand searches.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    model: str
    provider: str | None = None
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    input_audio: float | None = None
    output_audio: float | None = None
    reasoning: float | None = None
    web_search: float | None = None
