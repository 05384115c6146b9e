"""What a launch opens, which base URLs need the proxy nevertheless, and what is tunnelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.interception.hosts import read_hosts
from proxy.interception.interception import TunnelReason
from proxy.launches.bases import Bases
from proxy.launches.environment import look_around
from proxy.launches.intercepting import fit_unopenable, make_interception, plan_interception
from proxy.launches.programs import read_programs
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from proxy.launches.intercepting import InterceptPlan
    from proxy.launches.programs import Program


def plan(
    environ: dict[str, str] | None = None, *named: str, program: Program | None = None
) -> InterceptPlan:
    """The plan for an environment."""
    around = look_around(environ or {}, ("127.0.0.1", 4000))
    return plan_interception(named, environ or {}, around, program)


def test_model_hosts_are_opened_and_one_of_the_user_s() -> None:
    """In lower case."""
    assert plan().hosts == read_hosts()
    assert plan(None, "Models.Corp.test.").hosts == read_hosts() | {"models.corp.test"}
    with pytest.raises(ConfigurationError, match=r"--intercept-host: 'github\.com' is a login"):
        plan(None, "github.com")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://gateway.corp.test", "gateway.corp.test"),
        ("https://gateway.corp.test:443/v1", "gateway.corp.test"),
        ("https://gateway.corp.test:8443/v1", None),
        ("http://gateway.corp.test/v1", None),
        ("https://10.1.2.3/v1", None),
        ("https://github.com/v1", None),
        ("https://gateway/v1", None),
    ],
)
def test_a_base_url_is_opened_or_comes_as_without(url: str, host: str | None) -> None:
    """All calls are seen, one way or the other."""
    found = plan({"OPENAI_BASE_URL": url})
    assert found.hosts - read_hosts() == ({host} if host else set())
    assert found.unopenable == ({} if host else {"OPENAI_BASE_URL": url, "OPENAI_API_BASE": url})


def test_only_what_cannot_be_opened_gets_a_path() -> None:
    """And what is plain HTTP by default; nothing else is set."""
    bases = Bases(root="http://127.0.0.1:1", paths={"OPENAI_BASE_URL": "/~to/a/v1"})
    environ = {"OPENAI_BASE_URL": "http://a/v1"}
    assert fit_unopenable(plan(environ), environ, bases) == {
        "OPENAI_BASE_URL": "http://127.0.0.1:1/~to/a/v1",
        "OLLAMA_HOST": "http://127.0.0.1:1",
        "OLLAMA_API_BASE": "http://127.0.0.1:1",
    }


def test_a_signed_base_url_is_opened() -> None:
    """Nothing is changed, so the signature holds."""
    host = "bedrock-runtime.eu-central-1.amazonaws.com"
    found = plan({"ANTHROPIC_BEDROCK_BASE_URL": f"https://{host}"})
    assert host in found.hosts
    assert found.unopenable == {}


def test_hosts_to_which_a_program_shows_a_certificate_are_tunnelled() -> None:
    """The provider's, and those of its base URLs."""
    claude = read_programs()["claude"]
    shown = {"CLAUDE_CODE_CLIENT_CERT": "c.pem", "ANTHROPIC_BASE_URL": "https://gateway.corp.test"}
    assert plan(shown, program=claude).tunnelled == {
        "api.anthropic.com": TunnelReason.CLIENT_CERTIFICATE,
        "gateway.corp.test": TunnelReason.CLIENT_CERTIFICATE,
    }
    assert plan(program=claude).tunnelled == {}


@pytest.mark.parametrize(
    ("environ", "excluded"),
    [
        ({"NO_PROXY": "openai.com"}, ("api.openai.com",)),
        ({"no_proxy": ".groq.com,corp.test"}, ("api.groq.com",)),
        ({"NO_PROXY": "*"}, tuple(sorted(read_hosts()))),
        ({"NO_PROXY": "com.test,127.0.0.1"}, ()),
        ({}, ()),
    ],
)
def test_hosts_that_go_past_proxies_are_known(
    environ: dict[str, str], excluded: tuple[str, ...]
) -> None:
    """The user's own exceptions are kept."""
    assert plan(environ).excluded == excluded


def test_each_interception_has_a_secret_and_an_authority() -> None:
    """No two share them, and neither is shown."""
    one, two = (make_interception(plan(), "a~~1") for _ in range(2))
    assert one.secret != two.secret
    assert one.ca_certificate != two.ca_certificate
    assert one.secret not in repr(one)
    assert one.label == "a~~1"
