"""Which variables a launch sets, and what becomes of those that are set already."""

from __future__ import annotations

import importlib
import re
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.launches.bases import Bases
from proxy.launches.environment import fit_environment, look_around
from proxy.launches.variables import keep_fixed, read_variables
from proxy.processes.launch_channel import Joined
from proxy.upstream_entry import check_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SERVE = ("127.0.0.1", 4000)
URL = "http://127.0.0.1:4321"
RUN = f"{URL}/~run/app~~1"
ROWS = {row.name: row for row in read_variables()}

SET_WITHOUT_THE_CATALOGUE = {
    "OPENAI_BASE_URL": f"{RUN}/v1",
    "OPENAI_API_BASE": f"{RUN}/v1",
    "ANTHROPIC_BASE_URL": RUN,
    "GOOGLE_GEMINI_BASE_URL": RUN,
    "OLLAMA_HOST": RUN,
    "GEMINI_API_BASE": f"{RUN}/v1beta",
    "OLLAMA_API_BASE": RUN,
    "CODE_ASSIST_ENDPOINT": f"{RUN}/~to/<https://cloudcode-pa.googleapis.com>",
}


def fit(
    environ: Mapping[str, str], *, has_catalogue: bool = False, ignores_urls: bool = False
) -> dict[str, str]:
    """What a launch sets where the proxy gives each base URL a path that names it."""
    around = look_around(keep_fixed(environ) if ignores_urls else environ, SERVE)
    paths = {name: f"/~to/<{url}>" for name, url in around.wanted.items()}
    joined = Joined(
        pid=1, url=URL, paths=paths, stays=True, has_catalogue=has_catalogue, privacy=""
    )
    return fit_environment(environ, around, Bases.of(joined, "app", "1"), joined)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_is_whole(row: Any) -> None:
    """A usable base URL, somebody who reads it, a source and a day."""
    assert re.fullmatch(r"[A-Z_]+", row.name)
    assert row.url is None or check_url(row.url).startswith("https://")
    assert row.path is None or re.fullmatch(r"(/[a-z0-9]+)?", row.path)
    assert row.path is None or row.url is None
    assert re.search(r"[0-9]", row.readers)
    assert row.source.startswith("https://")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.date)
    assert row.same_as is None or ROWS[row.same_as].path == row.path


CLIENTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "OPENAI_BASE_URL": ("openai", lambda sdk: sdk.OpenAI(api_key="k").base_url),
    "ANTHROPIC_BASE_URL": ("anthropic", lambda sdk: sdk.Anthropic(api_key="k").base_url),
    "GOOGLE_GEMINI_BASE_URL": (
        "google.genai",
        lambda sdk: sdk.Client(api_key="k")._api_client._http_options.base_url,
    ),
    "OLLAMA_HOST": ("ollama", lambda sdk: sdk.Client()._client.base_url),
}
"""SDKs, which are imported by the test that asks them: it takes a second that others need not."""


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize("name", CLIENTS)
def test_the_sdks_read_what_is_said_of_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are installed here, each with a path in its base URL."""
    assert name in ROWS
    monkeypatch.setenv(name, RUN)
    module, read_base_url = CLIENTS[name]
    assert str(read_base_url(importlib.import_module(module))).rstrip("/") == RUN


def test_what_is_not_set_leads_to_the_proxy() -> None:
    """And an SDK with a provider of its own to that, where the proxy reaches those."""
    assert fit({}) == SET_WITHOUT_THE_CATALOGUE
    own = {name: f"{RUN}/~to/<{row.url}>" for name, row in ROWS.items() if row.url is not None}
    assert fit({}, has_catalogue=True) == SET_WITHOUT_THE_CATALOGUE | own
    assert own["GROQ_BASE_URL"] == f"{RUN}/~to/<https://api.groq.com>"


@pytest.mark.parametrize("name", ROWS)
def test_what_is_set_stays_where_calls_go(name: str) -> None:
    """Each variable by itself; the two of OpenAI's are one."""
    url = "https://gateway.example/x/v1"
    same = {"OPENAI_BASE_URL", "OPENAI_API_BASE"}
    changed = {name} | (same if name in same else set())
    wanted = url.replace(".example", ".example:443") if name == "OLLAMA_HOST" else url
    fitted = fit({name: url} | dict.fromkeys(ROWS[name].signed_unless[:1], "1"))
    assert {it for it, text in fitted.items() if text == f"{RUN}/~to/<{wanted}>"} == changed
    assert {it: fitted[it] for it in SET_WITHOUT_THE_CATALOGUE.keys() - changed} == {
        it: text for it, text in SET_WITHOUT_THE_CATALOGUE.items() if it not in changed
    }


@pytest.mark.parametrize(
    "name", [n for n, row in ROWS.items() if row.path is None and not row.is_fixed]
)
def test_an_upstream_on_the_command_line_wins(name: str) -> None:
    """A variable that is set leads to the proxy, with the path that its base URL had."""
    given = {name: "https://gateway.example/x/v1/"}
    fitted = fit(given | dict.fromkeys(ROWS[name].signed_unless[:1], "1"), ignores_urls=True)
    assert fitted == SET_WITHOUT_THE_CATALOGUE | {name: f"{RUN}/x/v1"}


def test_a_google_login_s_credentials_go_to_google_or_where_the_user_says() -> None:
    """Also where another upstream takes all paths, by a setting or on the command line."""
    name = "CODE_ASSIST_ENDPOINT"
    google = f"{RUN}/~to/<https://cloudcode-pa.googleapis.com>"
    for ignores_urls in (False, True):
        assert fit({}, ignores_urls=ignores_urls)[name] == google
        mine = fit({name: "https://mine.example"}, ignores_urls=ignores_urls)
        assert mine[name] == f"{RUN}/~to/<https://mine.example>"


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.signed_unless])
def test_a_base_url_of_signed_calls_stays(name: str) -> None:
    """Their signature holds for one host, so a proxy would break them; it is told."""
    given = {name: "https://gateway.example"}
    assert name not in fit(given)
    assert name not in fit(given, ignores_urls=True)
    assert "signed" in look_around(given, SERVE).unusable[name]
    for variable in ROWS[name].signed_unless:
        assert name in fit(given | {variable: "1"})


@pytest.mark.parametrize("said", ["http://[gateway", "gateway.example:80/v1", "gateway"])
def test_an_upstream_on_the_command_line_wins_over_what_is_no_url(said: str) -> None:
    """It has no path."""
    fitted = fit({"AZURE_OPENAI_ENDPOINT": said}, ignores_urls=True)
    assert fitted == SET_WITHOUT_THE_CATALOGUE | {"AZURE_OPENAI_ENDPOINT": RUN}


def test_two_names_for_one_may_say_different_things() -> None:
    """Then each stays."""
    fitted = fit({"OPENAI_BASE_URL": "https://a.example", "OPENAI_API_BASE": "https://b.example"})
    assert fitted["OPENAI_BASE_URL"] == f"{RUN}/~to/<https://a.example>"
    assert fitted["OPENAI_API_BASE"] == f"{RUN}/~to/<https://b.example>"


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("gpu", "http://gpu:11434"),
        ("gpu:1", "http://gpu:1"),
        (":1", "http://127.0.0.1:1"),
        ("[::1]:1", "http://[::1]:1"),
        ("[::]", "http://[::1]:11434"),
        ("http://gpu", "http://gpu:80"),
        ("https://gpu/x/", "https://gpu:443/x"),
    ],
)
def test_an_ollama_host_is_read_as_its_clients_do(said: str, url: str) -> None:
    """Its own client is the judge, but for addresses that only a server listens on."""
    assert look_around({"OLLAMA_HOST": said}, SERVE).set_urls == {"OLLAMA_HOST": url}
    if "0.0.0.0" not in said and "::]" not in said:
        ollama: Any = importlib.import_module("ollama")
        parsed = urlsplit(str(ollama.Client(said)._client.base_url))
        wanted = urlsplit(url)
        assert (parsed.scheme, parsed.hostname) == (wanted.scheme, wanted.hostname)
        assert parsed.path.rstrip("/") == wanted.path
        assert parsed.port in {wanted.port, None}  # where it is the scheme's


@pytest.mark.parametrize(
    "text",
    [
        "https://user:canary@h/v1",
        "https://h/v1?key=canary",
        "https://h/v1#canary",
        "localhost:8000/canary v1",
        "canary",
        "ftp://canary",
        "http://h:99999/canary",
    ],
)
@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OLLAMA_HOST"])
def test_what_cannot_be_an_upstream_is_left_alone(name: str, text: str) -> None:
    """And why is said without a credential (R7)."""
    if name == "OLLAMA_HOST" and text == "canary":
        return  # a host
    around = look_around({name: text}, SERVE)
    assert name not in fit({name: text})
    assert name in around.unusable
    if "@" in text or "?" in text:
        assert "canary" not in str(around)


def test_empty_variables_are_not_set() -> None:
    """Shells export such."""
    assert fit(dict.fromkeys(ROWS, " ")) == SET_WITHOUT_THE_CATALOGUE


@given(st.dictionaries(st.sampled_from(sorted(ROWS)), st.text(max_size=30)))
@example({"OLLAMA_HOST": "[", "OPENAI_BASE_URL": "http://["})
@example({"OLLAMA_HOST": "http://h:x"})
def test_whatever_is_set_is_looked_at(environ: dict[str, str]) -> None:
    """Nothing fails, and what is set is a base URL."""
    for url in fit(environ).values():
        assert url.startswith(URL)


def test_what_is_left_of_an_earlier_day_counts_as_unset() -> None:
    """Where ``spantap serve`` would listen and nobody does; a server there is an upstream."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()[:2]
        url = f"http://localhost:{address[1]}/v1"
        assert look_around({"OPENAI_BASE_URL": url}, address).set_urls != {}
    assert look_around({"OPENAI_BASE_URL": url}, address).set_urls == {}


@pytest.mark.parametrize(
    ("environ", "added"),
    [
        ({}, {}),
        ({"NO_PROXY": "x"}, {}),
        ({"https_proxy": ""}, {}),
        ({"HTTPS_PROXY": "http://p"}, {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}),
        (
            {"all_proxy": "socks5://p", "NO_PROXY": "a, b,"},
            {"NO_PROXY": "a,b,127.0.0.1", "no_proxy": "a,b,127.0.0.1"},
        ),
        ({"http_proxy": "http://p", "NO_PROXY": "*", "no_proxy": "a,127.0.0.1"}, {}),
    ],
)
def test_no_proxy_for_http_stands_between(environ: dict[str, str], added: dict[str, str]) -> None:
    """The rest of a list stays."""
    fitted = fit(environ)
    assert {name: text for name, text in fitted.items() if name.lower() == "no_proxy"} == added
