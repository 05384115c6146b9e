"""Variables that begin as ours do and are no setting."""

from __future__ import annotations

import pytest

from proxy.settings.settings import Settings
from proxy.settings.variable_names import check_names, describe_unknown_names
from telemetry.errors import ConfigurationError

OF_KUBERNETES = {
    "SPANTAP_SERVICE_HOST": "10.0.0.1",
    "SPANTAP_SERVICE_PORT_HTTP": "4000",
    "SPANTAP_PORT_4000_TCP_ADDR": "10.0.0.1",
    "SPANTAP_DEMO_SERVICE_HOST": "10.0.0.1",
    "SPANTAP_DEMO_PORT": "tcp://10.0.0.1:4000",
}


def describe(**environ: str) -> list[str]:
    return list(describe_unknown_names(environ, Settings.model_fields))


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("SPANTAP_LISTEN_PORT", "is SPANTAP_ADMIN_PORT meant?"),
        ("spantap_max_conn", "is SPANTAP_MAX_CONNECTIONS meant?"),
        ("SPANTAP_XYZ", "`spantap help settings` lists them"),
    ],
)
def test_a_variable_that_is_no_setting_is_told_with_the_nearest_name(
    name: str, advice: str
) -> None:
    """And without its value, which may be a key (R7)."""
    assert describe(**{name: "canary"}) == [
        f"{name} is not a setting and changes nothing; {advice}"
    ]


def test_settings_and_what_kubernetes_makes_are_let_be() -> None:
    """And what is not ours."""
    ours = {f"SPANTAP_{name.upper()}": "" for name in (*Settings.model_fields, "config")}
    known = {**ours, **OF_KUBERNETES, "spantap_port": "1", "OTHER_SPANTAP_X": "1"}
    assert describe(**known) == []
    check_names(known, Settings.model_fields)


@pytest.mark.parametrize("name", ["SPANTAP_REDACTT", "spantap_redactt"])
def test_a_slip_is_refused_whatever_the_case(name: str) -> None:
    """Names are read in any case."""
    with pytest.raises(
        ConfigurationError, match=f"{name} is not a setting; is SPANTAP_REDACT meant"
    ):
        check_names({name: "email"}, Settings.model_fields)
