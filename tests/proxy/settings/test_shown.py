"""The settings as people see them: where each comes from, and no secret."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import msgspec
import pytest

import proxy.__main__ as command_line
from proxy.__main__ import build_parser, main
from proxy.commands.check.settings import print_settings
from proxy.processes.page_listener import pick_page_settings
from proxy.settings.settings import Settings, load_settings
from proxy.settings.shown import list_settings
from proxy.settings.sources import FLAGS
from proxy.settings.spans import hand_over

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.settings.shown import ShownSetting

KEY = "c4n4ry-0123456789"

FILE = f"""\
port = 4100
host = "127.0.0.2"
inbound_keys = ["{KEY}-in"]
page_token = "{KEY}-page"
[redact_patterns]
mine = "{KEY}-pattern"
[[upstream]]
name = "groq"
url = "https://api.groq.com/openai/v1"
api_key_env = "GROQ_KEY"
"""

OTHERS = {
    "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={KEY}",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"{KEY}=1",
    "OTEL_EXPORTER_OTLP_ENDPOINT": f"https://me:{KEY}/@phoenix:6006/x?key={KEY}#{KEY}",
    "HTTPS_PROXY": f"me:{KEY}@squid:3128",
    "no_proxy": "localhost",
    "OPENINFERENCE_HIDE_INPUTS": "true",
    "OTEL_TRACES_EXPORTER": "",
    "GROQ_KEY": KEY,
    "OPENAI_API_KEY": KEY,
}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Some of each source."""
    monkeypatch.setenv("GROQ_KEY", KEY)
    monkeypatch.setenv("spantap_port", "4200")
    monkeypatch.setenv("SPANTAP_WORKERS", "2")
    path = tmp_path / "spantap.toml"
    path.write_text(FILE)
    return load_settings({"workers": 3}, str(path))


def find(rows: list[ShownSetting], name: str) -> ShownSetting:
    (row,) = (row for row in rows if row.name == name)
    return row


def test_each_value_has_its_source(settings: Settings, tmp_path: Path) -> None:
    """That of the value that wins."""
    rows = list_settings(settings, {})
    assert len(rows) == 1 + len(Settings.model_fields)
    path = str(tmp_path / "spantap.toml")
    assert (rows[0].name, rows[0].value, rows[0].source) == ("config", path, "command line")
    by_variable = list_settings(settings, {"SPANTAP_CONFIG": path})
    assert by_variable[0].source == "variable"
    shown = {row.name: (row.value, row.source) for row in rows}
    assert shown["workers"] == ("3", "command line")
    assert shown["port"] == ("4200", "variable")
    assert shown["host"] == ("127.0.0.2", "file")
    assert shown["admin_port"] == ("4001", "default")
    assert shown["catalogue"] == shown["redact"] == (None, "default")
    assert shown["drain_seconds"] == ("5", "default")


def test_each_says_how_to_set_it(settings: Settings) -> None:
    """Tables by their name in the file."""
    rows = list_settings(settings, {})
    assert (find(rows, "port").variable, find(rows, "port").flag) == ("SPANTAP_PORT", "--port")
    assert find(rows, "[[upstream]]").variable == "SPANTAP_UPSTREAMS"
    assert not find(rows, "redact").flag


def test_flags_are_those_of_the_command_line() -> None:
    """All of them."""
    parser = build_parser()
    assert set(FLAGS) == set(command_line._SERVE_FLAGS)
    for name, flag in FLAGS.items():
        words = [flag] if flag.startswith("--no-") else [flag, "1"]
        assert name in vars(parser.parse_args(["serve", *words]))


def test_no_secret_is_shown(settings: Settings) -> None:
    """Neither keys and what they hash to, nor users of URLs, headers and patterns."""
    rows = list_settings(settings, OTHERS)
    text = msgspec.json.encode(rows).decode()
    assert KEY not in text
    for digest in (*(settings.inbound_keys or ()), settings.page_token or ""):
        assert digest not in text
    shown = {row.name: row.value for row in rows}
    assert shown["inbound_keys"] == shown["page_token"] == "***"
    assert shown["redact_patterns"] == '{"mine": "***"}'
    assert '"api_key_env": "GROQ_KEY"' in (shown["[[upstream]]"] or "")
    assert shown["OTEL_EXPORTER_OTLP_HEADERS"] == "***"
    assert shown["OTEL_EXPORTER_OTLP_ENDPOINT"] == "https://***@phoenix:6006/x?***"
    assert shown["HTTPS_PROXY"] == "***@squid:3128"
    assert (shown["no_proxy"], shown["OPENINFERENCE_HIDE_INPUTS"]) == ("localhost", "true")
    assert not {"OTEL_TRACES_EXPORTER", "GROQ_KEY", "OPENAI_API_KEY"} & shown.keys()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://phoenix:6006", "http://phoenix:6006"),
        (f"https://h/x?to=@{KEY}", "https://***"),
        (f"https://me:?{KEY}@h", "https://***"),
        (f"https://h/x?to=http://{KEY}", "https://h/x?***"),
        (f"{KEY}:x@h:1", "***@h:1"),
        (f"http://{KEY}://x@h", "http://***@h"),
    ],
)
def test_an_address_is_shown_without_user_and_query(address: str, shown: str) -> None:
    """Whatever stands in them."""
    (row,) = list_settings(Settings(), {"OTEL_EXPORTER_OTLP_ENDPOINT": address})[-1:]
    assert row.value == shown


def test_an_attribute_is_shown_without_its_secret() -> None:
    """Other attributes of the resource are shown as they are."""
    environ = {"OTEL_RESOURCE_ATTRIBUTES": "service.name=chat,api_key=abc=def,Token=x,team=a b"}
    (row,) = list_settings(Settings(), environ)[-1:]
    assert row.value == "service.name=chat,api_key=***,Token=***,team=a b"


def test_a_page_without_a_token_says_so() -> None:
    """The word is no secret."""
    rows = list_settings(Settings(page_token="none"), {})
    assert find(rows, "page_token").value == "none"


def test_the_page_gets_the_finished_list(settings: Settings) -> None:
    """With nothing of what is masked in it, except the digest of its own token."""
    picked = pick_page_settings(hand_over(settings, OTHERS))
    assert KEY.encode() not in picked
    for digest in settings.inbound_keys or ():
        assert digest.encode() not in picked
    shown = msgspec.json.decode(picked)["shown"]
    assert shown == msgspec.to_builtins(list_settings(settings, OTHERS))


def test_bytes_that_are_no_text_are_shown_all_the_same() -> None:
    """A variable of the user's must not keep spantap from starting."""
    environ = {"OTEL_RESOURCE_ATTRIBUTES": "a=\udcff"}
    assert find(list_settings(Settings(), environ), "OTEL_RESOURCE_ATTRIBUTES").value == "a=\ufffd"
    assert hand_over(Settings(), environ)


def test_what_a_command_does_not_read_says_so() -> None:
    """As upstreams of `spantap page`, which has not the keys that they name."""
    rows = list_settings(load_settings({"upstreams": ()}), {})
    assert find(rows, "[[upstream]]").source == "not read"


def test_what_a_launch_changes_says_so(settings: Settings) -> None:
    """And where the others come from stays known."""
    rows = list_settings(settings.replaced("spantap run", {"port": 0}), {})
    assert (find(rows, "port").value, find(rows, "port").source) == ("0", "spantap run")
    assert find(rows, "workers").source == "command line"
    assert settings.origins["port"] == "variable"


def test_the_command_prints_what_is_set_first(settings: Settings) -> None:
    """Each on a line, then the defaults."""
    out = io.StringIO()
    assert print_settings(settings, OTHERS, out) == 0
    head, _, rest = out.getvalue().partition("\nset\n")
    is_set, _, defaults = rest.partition("\ndefaults\n")
    assert "`spantap help settings`" in head
    assert KEY not in out.getvalue()
    assert [line.split()[0] for line in is_set.splitlines()][:3] == [
        "config",
        "[[upstream]]",
        "host",
    ]
    assert "  port  " not in defaults
    assert "  admin_port  " in defaults
    assert "not set" in defaults


def test_it_is_a_flag_of_check(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is probed."""
    assert main(["check", "--settings", "--port", "4321"]) == 0
    assert "SPANTAP_PORT, --port  command line  4321" in capsys.readouterr().out
