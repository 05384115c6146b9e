"""Where settings come from, which one wins, and what a wrong one says."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from codec.usage_option import UsagePolicy
from proxy.on_disconnect import OnDisconnect
from proxy.settings.settings import Settings, load_settings
from telemetry.errors import ConfigurationError, SpoolFull
from telemetry.frames.spool import SEGMENT_BYTES, FrameSpool
from telemetry.span_identity import TraceParentPolicy
from telemetry.spans.keep_rules import KeepReason


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SPANTAP_{name.upper()}", raising=False)
    monkeypatch.delenv("SPANTAP_CONFIG", raising=False)


def write(path: Path, text: str) -> str:
    file = path / "spantap.toml"
    file.write_text(text)
    return str(file)


def test_the_defaults_are_the_documented_ones() -> None:
    """Those of ``docs/settings.md``."""
    settings = load_settings()
    assert settings.upstream is None
    assert (settings.host, settings.port) == ("127.0.0.1", 4000)
    assert (settings.admin_host, settings.admin_port) == ("127.0.0.1", 4001)
    assert settings.usage is UsagePolicy.ALWAYS
    assert settings.on_disconnect is OnDisconnect.CANCEL
    assert (settings.linger_seconds, settings.drain_seconds) == (0, 5)
    assert settings.trace_parent is TraceParentPolicy.HONOR
    assert settings.store.name == "traces.db"


def test_flags_win_over_environment_over_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each layer sets one more, and the higher one wins."""
    config = write(tmp_path, 'port = 1\nadmin_port = 1\nhost = "file"\n')
    monkeypatch.setenv("SPANTAP_PORT", "2")
    monkeypatch.setenv("SPANTAP_ADMIN_PORT", "2")
    settings = load_settings({"port": 3}, config)
    assert (settings.port, settings.admin_port, settings.host) == (3, 2, "file")


def test_the_file_may_be_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``SPANTAP_CONFIG``."""
    monkeypatch.setenv("SPANTAP_CONFIG", write(tmp_path, "port = 5"))
    assert load_settings().port == 5


def test_upstream_tables_stand_beside_the_default_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``[[upstream]]`` in the file and ``SPANTAP_UPSTREAM`` do not fight."""
    config = write(
        tmp_path,
        '[[upstream]]\nname = "groq"\nprefix = "/groq"\nurl = "https://api.groq.com/openai/v1"\n'
        'usage = "never"\nprovider = "groq"\n',
    )
    monkeypatch.setenv("SPANTAP_UPSTREAM", "http://127.0.0.1:8000")
    settings = load_settings({}, config)
    assert settings.upstream == "http://127.0.0.1:8000"
    assert [(u.name, u.usage) for u in settings.upstreams] == [("groq", UsagePolicy.NEVER)]


def test_given_settings_do_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo is the same whatever the user's shell says."""
    monkeypatch.setenv("SPANTAP_PORT", "2")
    assert Settings().port == 4000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", "unknown setting 'prot'; did you mean port?"),
        ("SPANTAP_PORT = 1", "unknown setting 'SPANTAP_PORT'; did you mean port?"),
        ("[[upstreem]]\nname = 'a'", "unknown setting 'upstreem'; did you mean upstream?"),
        ("xyz = 1", "unknown setting 'xyz'; `spantap help settings` lists the names"),
        (
            "[[upstream]]\nname = 'a'\nurl = 'http://a'\nprefixx = '/a'",
            "unknown setting 'upstream.0.prefixx'; did you mean prefix?",
        ),
        (
            "[[upstream]]\nname = 'a'\nurl = 'http://a'\nport = 1",
            "if port of spantap is meant, write it above the first table",
        ),
        ("port = 70000", "setting 'port'"),
        ("upstream = 'api.openai.com'", "setting 'upstream'"),
        ("[[upstream]]\nname = 'a'\nurl = 'http://a'\nkey = 'x'", "upstream.0.key"),
        ("usage = 'sometimes'", "setting 'usage'"),
        ("log_level = 'loud'", "must be DEBUG"),
        ("port = ", "is not TOML"),
        ("workers = 0", "setting 'workers'"),
        ("store_max_age_days = inf", "setting 'store_max_age_days'"),
        ("store_max_age_days = 1000000", "setting 'store_max_age_days'"),
        ("linger_seconds = inf", "setting 'linger_seconds'"),
        ("store = ''", "setting 'store'"),
        ("client_key = 'key.pem'", "client_key needs client_cert"),
        ("[price]\nmodel = 'm'", "setting 'prices': must be tables, each under [[price]]"),
        ("[[price]]\nmodel = 'm'\ninput = nan", "finite number"),
        ("[[prices]]\nmodel = 'm'", "unknown setting 'prices': the tables are [[price]]"),
        ("headers = 'x'", "setting 'headers': must be a table of names and values"),
        ("keep = 3", "setting 'keep': must be a list of words"),
        (
            "max_value_bytes = '1MiB'",
            "setting 'max_value_bytes': must be a whole number of bytes, without a unit",
        ),
        ("port = 'abc'", "setting 'port': must be a whole number"),
        ("workers = 1.5", "setting 'workers': must be a whole number"),
        (
            "linger_seconds = '5s'",
            "setting 'linger_seconds': must be a number of seconds, without a unit",
        ),
        ("cost = 'maybe'", "setting 'cost': must be true or false"),
        ("[[upstream]]\nurl = 'http://a'", "setting 'upstream.0.name': is missing"),
        ("max_value_bytes = 4000000\nmax_span_bytes = 70000", "must not be more than max_span"),
    ],
)
def test_a_wrong_file_ends_in_one_clear_sentence(tmp_path: Path, text: str, words: str) -> None:
    """It names what is wrong in one line, in the words of the file and not in Python's."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings({}, write(tmp_path, text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, or bytes that are no text."""
    with pytest.raises(ConfigurationError, match=r"missing\.toml"):
        load_settings({}, str(tmp_path / "missing.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="is not TOML"):
        load_settings({}, str(tmp_path / "binary.toml"))


def test_an_environment_variable_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the setting's name."""
    monkeypatch.setenv("SPANTAP_PORT", "http")
    with pytest.raises(ConfigurationError, match="'port'"):
        load_settings()
    monkeypatch.setenv("SPANTAP_PORT", "1")
    monkeypatch.setenv("SPANTAP_UPSTREAMS", "[")
    with pytest.raises(ConfigurationError, match="environment"):
        load_settings()


def test_the_store_may_be_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has no shell that would expand the tilde."""
    monkeypatch.setenv("HOME", "/home/me")
    assert str(load_settings({"store": "~/t.db"}).store) == "/home/me/t.db"


def test_every_setting_is_in_the_reference() -> None:
    """``docs/settings.md`` names them all."""
    text = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    for name in Settings.model_fields.keys() - {"upstreams", "prices"}:
        assert f"`SPANTAP_{name.upper()}`" in text, name


@pytest.mark.parametrize("size_bytes", [1, 1024 * 1024, SEGMENT_BYTES - 1])
def test_a_spool_that_could_hold_nothing_is_refused(
    size_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has files of a size, so that with less all its writes would fail."""
    monkeypatch.setenv("SPANTAP_MAX_SPOOL_BYTES", str(size_bytes))
    with pytest.raises(ConfigurationError) as raised:
        load_settings()
    words = "must be 0, for no spool, or at least 16777216 (16 MiB)"
    assert str(raised.value) == f"setting 'max_spool_bytes': {words}"


@pytest.mark.parametrize("size_bytes", [0, SEGMENT_BYTES])
def test_a_spool_has_room_or_is_none(size_bytes: int, tmp_path: Path) -> None:
    """The least that is accepted is written to."""
    spool = FrameSpool(tmp_path, "a1", Settings(max_spool_bytes=size_bytes).max_spool_bytes)
    with pytest.raises(SpoolFull) if size_bytes == 0 else nullcontext():
        spool.write([b"a frame"])
    spool.close()


@pytest.mark.parametrize("text", ["errors,slow", " slow , errors,", '["slow"]'])
def test_keep_rules_are_a_comma_list(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the environment has it; a list in the file."""
    monkeypatch.setenv("SPANTAP_KEEP", text)
    if text.startswith("["):
        with pytest.raises(ConfigurationError, match="keep"):
            load_settings()
        return
    assert load_settings().keep == {KeepReason.ERRORS, KeepReason.SLOW}
    assert load_settings({"keep": ["cancelled"]}).keep == {KeepReason.CANCELLED}


def test_headers_come_by_a_table_or_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has a table, the environment an object."""
    config = write(tmp_path, '[headers]\n"x-chat" = "session.id"\n')
    assert load_settings(config=config).headers == {"x-chat": "session.id"}
    monkeypatch.setenv("SPANTAP_HEADERS", '{"x-team": "tag.tags"}')
    assert load_settings().headers == {"x-team": "tag.tags"}


def test_the_recorded_fields_of_heads_are_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of words in a file, with commas in a variable."""
    assert load_settings().record_headers == ("default",)
    config = write(tmp_path, 'record_headers = ["x-team", "x-app"]\n')
    assert load_settings(config=config).record_headers == ("x-team", "x-app")
    monkeypatch.setenv("SPANTAP_RECORD_HEADERS", "none")
    assert load_settings().record_headers == ("none",)
    with pytest.raises(ConfigurationError, match=r"setting 'record_headers': .*x-api-key"):
        load_settings({"record_headers": "x-app, x-api-key"})


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"Authorization": "user.id"}, "header 'authorization' looks like a credential"),
        ({"x-chat": "session"}, "header 'x-chat' cannot become 'session'"),
    ],
)
def test_a_header_that_cannot_be_mapped_ends_the_start(headers: dict[str, str], words: str) -> None:
    """In one sentence that names the header."""
    with pytest.raises(ConfigurationError, match=f"setting 'headers': {words}"):
        load_settings({"headers": headers})


def test_prices_come_by_tables(tmp_path: Path) -> None:
    """``[[price]]``, in US dollars per million tokens; an unknown rate is refused."""
    text = '[[price]]\nmodel = "my-*"\ninput = 1.5\noutput = 2\n'
    [price] = load_settings(config=write(tmp_path, text)).prices
    assert (price.model, price.input, price.output, price.cache_read) == ("my-*", 1.5, 2.0, None)
    more = text + "cache_write_1h = 3\nweb_search = 10\n"
    [price] = load_settings(config=write(tmp_path, more)).prices
    assert (price.cache_write_1h, price.web_search) == (3.0, 10.0)
    with pytest.raises(ConfigurationError, match=r"'price\.0\.inputs'; did you mean input\?"):
        load_settings(config=write(tmp_path, '[[price]]\nmodel = "m"\ninputs = 1\n'))


@pytest.mark.parametrize(
    ("name", "meant"),
    [("SPANTAP_REDACTT", "SPANTAP_REDACT"), ("SPANTAP_UPSTREM", "SPANTAP_UPSTREAM")],
)
def test_a_slip_of_a_variable_is_refused(
    name: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was to hide would be recorded."""
    load_settings()
    monkeypatch.setenv(name, "x")
    with pytest.raises(ConfigurationError, match=f"{name} is not a setting; is {meant} meant"):
        load_settings()


@pytest.mark.parametrize("text", ["nope", "[" * 100_000, '{"\udcff": 1}'])
@pytest.mark.parametrize("name", ["HEADERS", "REDACT_PATTERNS"])
def test_a_variable_that_must_be_json_says_so(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name, and quotes nothing: neither words, nor depths, nor bytes that are no text."""
    monkeypatch.setenv(f"SPANTAP_{name}", text)
    with pytest.raises(ConfigurationError, match=f"SPANTAP_{name} must be JSON$"):
        load_settings()
