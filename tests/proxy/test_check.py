"""``spantap check`` as a whole, and what it says of content, keys, files, upstreams, backends."""

from __future__ import annotations

import io
import os
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from proxy.commands.check.command import run_check
from proxy.commands.check.findings import bad, good, note, print_findings
from proxy.settings.settings import Settings
from tests.faults.stage import running_spantap
from tests.otlp_sink import HttpSink, SinkAnswer
from tests.proxy.plain_server import answering

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = "http://127.0.0.1:1"


def check(
    environ: dict[str, str] | None = None, *, store: Path, **settings: Any
) -> tuple[int, list[str]]:
    """Exit status and lines; on free ports, before an upstream that has no one to answer."""
    out = io.StringIO()
    defaults = {"upstream": NOWHERE, "port": 0, "admin_port": 0}
    chosen = Settings(**{**defaults, **settings}, store=store)
    status = run_check(chosen, environ=environ or {}, out=out)
    return status, out.getvalue().splitlines()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


def about(what: str, lines: list[str]) -> list[str]:
    """The findings about one thing, each with what to do as a second line of its own."""
    found = [place for place, line in enumerate(lines) if line[6:].startswith(what)]
    return ["\n".join(line for line in _with_mend(lines, place)) for place in found]


def _with_mend(lines: list[str], place: int) -> list[str]:
    has_mend = place + 1 < len(lines) and lines[place + 1].startswith("      -> ")
    return lines[place : place + 2] if has_mend else lines[place : place + 1]


def test_a_finding_says_how_bad_it_is_and_what_to_do() -> None:
    """What strangers wrote cannot forge further lines."""
    out = io.StringIO()
    assert not print_findings([good("a", "b"), note("c", "d\nbad   e: f", "g\x1b[2J")], out)
    assert out.getvalue() == "good  a: b\nnote  c: d\\nbad   e: f\n      -> g\\x1b[2J\n"
    assert print_findings([bad("a", "b", "c"), good("d", "e")], out)


def test_everything_is_named_in_the_order_in_which_a_call_meets_it(store: Path) -> None:
    """The status is 1, because the upstream is away; nothing was made."""
    status, lines = check(store=store)
    assert status == 1
    assert [line[6:].partition(":")[0] for line in lines if not line.startswith("  ")] == [
        "settings",
        "traffic port",
        "admin port",
        "page",
        "open files",
        "upstream 'default'",
        "upstream 'default'",
        "content",
        "pictures",
        "raw",
        "cost",
        "store",
        "disk",
        "OTLP",
    ]
    assert not list(store.parent.iterdir())


def test_variables_that_change_nothing_are_told_of(store: Path) -> None:
    """With the name that is nearest."""
    [_, found] = about("settings", check({"SPANTAP_LISTEN_PORT": "DEBUG"}, store=store)[1])
    assert found == (
        "note  settings: SPANTAP_LISTEN_PORT is not a setting and changes nothing\n"
        "      -> is SPANTAP_ADMIN_PORT meant?"
    )


def test_an_upstream_that_is_away_is_bad_and_the_cause_is_told_once(
    store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the finding, not by a log line too."""
    _, lines = check(store=store)
    where, found = about("upstream", lines)
    assert where.endswith(f"/v1/chat/completions goes to {NOWHERE}/v1/chat/completions")
    assert found.startswith("bad   ")
    assert f"({NOWHERE}): no connection" in found
    assert "check whether it runs" in found
    assert capfd.readouterr().err == ""


UPSTREAMS: list[tuple[dict[str, Any], str, str]] = [
    ({"status": 200}, "good", "reachable (status 200)"),
    ({"status": 401}, "good", "it wants a key, which your client sends"),
    ({"status": 301}, "note", "gets status 301: it redirects"),
    ({"status": 403}, "note", "refuses spantap (status 403): it wants a key, or does not admit"),
    ({"status": 404}, "note", "404: it lists no models, or the path of its URL is wrong"),
    ({"status": 405}, "note", "405: it lists no models, or the path of its URL is wrong"),
    ({"status": 503}, "note", "it answers with status 503"),
    ({"status": 404, "of_chats": 405}, "good", "it has a path for chats, and lists no models"),
    ({"status": 404, "of_chats": 401}, "good", "it wants a key, which your client sends"),
    ({"status": 404, "of_chats": 400}, "good", "reachable (status 400)"),
    ({"status": 404, "of_chats": 502}, "note", "it answers with status 502"),
    (
        {"status": 200, "kind": "text/html; charset=utf-8"},
        "note",
        "GET /v1/models gets status 200 and a web page",
    ),
]


@pytest.mark.parametrize(("answers", "verdict", "words"), UPSTREAMS, ids=str)
def test_an_upstream_is_judged_by_its_answers(
    answers: dict[str, Any], verdict: str, words: str, store: Path
) -> None:
    """One that is ill is no fault of the settings; to see chats no model is needed."""
    with answering(**answers) as url:
        found_bad, lines = check(store=store, upstream=url)
    _, found = about("upstream", lines)
    assert found.startswith(verdict)
    assert words in found
    assert found_bad == 0


@pytest.mark.parametrize("status", [401, 403])
def test_a_held_key_that_its_upstream_refuses_is_bad(
    status: int, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client can mend that; the variable is told, and nothing of the key (R7)."""
    monkeypatch.setenv("DEMO_KEY", "sk-canary")
    with answering(status) as url:
        table = {"name": "a", "url": url, "api_key_env": "DEMO_KEY"}
        found_bad, lines = check(store=store, upstreams=[table])
    _, found = about("upstream", lines)
    assert found == (
        f"bad   upstream 'a': refuses the key in DEMO_KEY (status {status})\n"
        "      -> put a key of this upstream into DEMO_KEY"
    )
    assert found_bad == 1
    assert "canary" not in "".join(lines)


@pytest.mark.parametrize("kind", ["folder", "fifo", "junk"])
def test_a_file_of_authorities_that_cannot_be_used_is_told_once(
    kind: str, store: Path, tmp_path: Path
) -> None:
    """In words for people; the upstreams wait for its mending."""
    file = tmp_path / "ca"
    {"folder": file.mkdir, "fifo": lambda: os.mkfifo(file), "junk": file.touch}[kind]()
    found_bad, lines = check(store=store, ca_file=file)
    assert found_bad == 1
    [told] = [line for line in lines if str(file) in line]
    ends = (
        "cannot be used: NO CERTIFICATE OR CRL FOUND" if kind == "junk" else "is not a regular file"
    )
    assert told == f"bad   certificates: setting 'ca_file': {file} {ends}"
    [found] = about("upstreams", lines)
    assert found.startswith("note  ")


def test_upstreams_that_cannot_be_probed_are_bad_and_the_rest_is_told(store: Path) -> None:
    """Settings that contradict each other; and a certificate, which is told of by itself."""
    twice = [{"name": "a", "url": NOWHERE}, {"name": "a", "url": NOWHERE, "prefix": "/b"}]
    _, lines = check(store=store, upstreams=twice)
    [found] = about("upstreams", lines)
    assert found.startswith("bad   ")
    assert about("OTLP", lines)


@pytest.mark.parametrize(
    ("environ", "settings", "told"),
    [
        ({}, {}, "kept for the page up to 8 MiB each, and 256.0 MiB together, a quarter of"),
        ({}, {"pictures": False}, "none is kept for the page: SPANTAP_PICTURES is false"),
        ({"OPENINFERENCE_HIDE_INPUT_IMAGES": "true"}, {}, "none is kept: the settings hide them"),
        (
            {"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": "1000"},
            {},
            "none of more than OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH, 1000 characters",
        ),
    ],
)
def test_what_is_kept_of_pictures_is_told(
    environ: dict[str, str], settings: dict[str, Any], told: str, store: Path
) -> None:
    """The limits, and the settings that change them."""
    [found] = about("pictures", check(environ, store=store, **settings)[1])
    assert found.startswith("good  pictures: ")
    assert told in found


@pytest.mark.parametrize(
    ("environ", "settings", "told"),
    [
        ({}, {}, "no true bytes of answers are kept: SPANTAP_RAW is off"),
        ({}, {"raw": "errors"}, "answers of failed calls are kept in the store up to 1 MiB each"),
        ({}, {"raw": "all"}, "102.4 MiB together, a tenth of SPANTAP_STORE_MAX_BYTES"),
        ({"OPENINFERENCE_HIDE_LLM_TOOLS": "true"}, {"raw": "all"}, "the settings hide content"),
        ({}, {"raw": "all", "redact": ["email"]}, "none in which a pattern finds anything"),
    ],
)
def test_what_is_kept_of_true_bytes_is_told(
    environ: dict[str, str], settings: dict[str, Any], told: str, store: Path
) -> None:
    """The limits, and the settings that change them."""
    [found] = about("raw", check(environ, store=store, **settings)[1])
    assert found.startswith("good  raw: ")
    assert told in found


@pytest.mark.parametrize(
    ("environ", "settings", "told"),
    [
        ({}, {}, "good  content: all content is recorded"),
        ({}, {"content": False}, "good  content: no content is recorded"),
        (
            {"OPENINFERENCE_HIDE_INPUTS": "true"},
            {"redact": ["email"]},
            (
                "good  content: content is recorded, with hide_inputs; what the patterns find is "
                "hidden"
            ),
        ),
        (
            {"OPENINFERENCE_HIDE_INPUTS": "1"},
            {},
            (
                "bad   content: OPENINFERENCE_HIDE_INPUTS is '1', but must be true or false\n"
                "      -> correct it; `spantap help settings` lists the values"
            ),
        ),
        (
            {"OTEL_SDK_DISABLED": "true"},
            {},
            (
                "note  content: nothing is recorded: OTEL_SDK_DISABLED is true\n"
                "      -> unset it if that is not meant"
            ),
        ),
    ],
)
def test_what_of_content_is_recorded_is_told(
    environ: dict[str, str], settings: dict[str, Any], told: str, store: Path
) -> None:
    """So that nobody has to send a chat to find out."""
    assert about("content", check(environ, store=store, **settings)[1]) == [told]


RATIO = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}


@pytest.mark.parametrize(
    ("environ", "keep", "told"),
    [
        (
            RATIO,
            "",
            "only sampled calls are recorded: OTEL_TRACES_SAMPLER is traceidratio with 0.1",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "always_off"},
            "errors,slow",
            (
                "only sampled calls are recorded: OTEL_TRACES_SAMPLER is always_off; "
                "of the others SPANTAP_KEEP keeps errors,slow"
            ),
        ),
        (
            {**RATIO, "OTEL_TRACES_SAMPLER_ARG": "0"},
            "",
            "nothing is recorded: OTEL_TRACES_SAMPLER is traceidratio with 0",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
            "",
            (
                "nothing is recorded: OTEL_TRACES_SAMPLER is parentbased_always_off, "
                "except for calls of a sampled parent"
            ),
        ),
    ],
)
def test_calls_that_are_left_out_are_told_of(
    environ: dict[str, str], keep: str, told: str, store: Path
) -> None:
    """Before what of the others is recorded."""
    first, *others = about("content", check(environ, store=store, keep=keep)[1])
    assert first == f"note  content: {told}\n      -> unset it if that is not meant"
    recorded = [] if told.startswith("nothing") else ["good  content: all content is recorded"]
    assert others == recorded


def test_backends_of_spans_and_of_metrics_are_probed(store: Path) -> None:
    """Each by a request that holds nothing."""
    with HttpSink() as spans, HttpSink() as metrics:
        metrics.rule = lambda _: SinkAnswer(status=405)
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": spans.url,
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{metrics.url}/v1/metrics",
        }
        taken, refused = about("OTLP", check(environ, store=store)[1])
    assert taken == f"good  OTLP: {spans.url}/v1/traces accepts spans"
    assert refused.startswith(
        f"bad   OTLP: {metrics.url}/v1/metrics does not accept metrics: HTTP 405"
    )
    assert refused.endswith("or set OTEL_METRICS_EXPORTER=none")


def test_what_a_backend_says_that_takes_spans_is_told(store: Path) -> None:
    """A success may carry a warning."""
    with HttpSink() as sink:
        sink.rule = lambda _: SinkAnswer(words="spans are sampled")
        [found] = about("OTLP", check({"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url}, store=store)[1])
    assert found.startswith(
        f"note  OTLP: {sink.url}/v1/traces accepts spans, and says: spans are sampled\n"
    )


def test_the_path_is_told_and_no_credential_of_the_endpoint(store: Path) -> None:
    """A doubled path is seen; user, password and query may be keys (R7)."""
    with HttpSink() as sink:
        sink.rule = lambda _: SinkAnswer(status=404)
        url = sink.url.replace("://", "://me:canary@")
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{url}/v1/traces?key=canary"}
        _, lines = check(environ, store=store)
    [found] = about("OTLP", lines)
    assert found.startswith(f"bad   OTLP: {sink.url}/v1/traces/v1/traces does not accept spans: ")
    assert "canary" not in "".join(lines)


@pytest.mark.parametrize("status", [200, 404])
def test_a_doubled_path_is_told_as_what_it_is(status: int, store: Path) -> None:
    """Whatever the backend says to it, with the variable that takes such a URL."""
    with HttpSink() as sink:
        sink.rule = lambda _: SinkAnswer(status=status)
        [found] = about(
            "OTLP", check({"OTEL_EXPORTER_OTLP_ENDPOINT": f"{sink.url}/v1/traces"}, store=store)[1]
        )
        environ = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{sink.url}/v1/traces"}
        [single] = about("OTLP", check(environ, store=store)[1])
    assert found.startswith("note " if status == 200 else "bad  ")
    words, _, mend = found.partition("\n")
    assert f"{sink.url}/v1/traces/v1/traces " in words
    assert "the path is doubled" in mend
    assert "leave /v1/traces out" in mend
    assert "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" in mend
    assert "doubled" not in single


def test_without_an_endpoint_a_spantap_that_runs_is_asked_whether_it_sends(
    store: Path, tmp_path: Path
) -> None:
    """Its environment is another one: nothing is said of it that is not known."""
    with (
        HttpSink() as sink,
        running_spantap(
            tmp_path,
            upstream=NOWHERE,
            environment={"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url},
        ) as spantap,
    ):
        ports: dict[str, Any] = {"port": spantap.port, "admin_port": spantap.admin_port}
        [found] = about("OTLP", check(store=store, **ports)[1])
        assert found.startswith(
            "note  OTLP: no endpoint in this environment; the spantap that runs has its own, and "
            "has sent 0 spans since it began\n"
        )
        [found] = about("OTLP", check(store=spantap.store)[1])
        assert "no endpoint in this environment; process " in found
        assert found.splitlines()[0].endswith(", which has the store, has its own")


def test_a_certificate_that_is_not_trusted_is_told_with_its_variable(
    store: Path,
) -> None:
    """The same words come where the backend speaks no TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with HttpSink(tls=context) as encrypted, HttpSink() as plain:
        for url in (encrypted.url, plain.url.replace("http:", "https:")):
            [found] = about("OTLP", check({"OTEL_EXPORTER_OTLP_ENDPOINT": url}, store=store)[1])
            words, _, mend = found.partition("\n")
            assert " does not accept spans: TLS: " in words
            assert "OTEL_EXPORTER_OTLP_CERTIFICATE" in mend
            assert "http://" in mend


def test_spans_that_are_not_sent_are_told_of(store: Path) -> None:
    """By themselves, and where somebody has said so."""
    [found] = about("OTLP", check(store=store)[1])
    assert "no endpoint: spans stay in the store" in found
    [found] = about("OTLP", check({"OTEL_TRACES_EXPORTER": "none"}, store=store)[1])
    assert found == "good  OTLP: OTEL_TRACES_EXPORTER is none: spans stay in the store"


@pytest.mark.parametrize(
    "name", ["OTEL_TRACES_SAMPLER", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT"]
)
def test_variables_that_would_end_the_start_are_told(name: str, store: Path) -> None:
    """As ``serve`` tells them."""
    [found] = about("OTLP", check({name: "sometimes"}, store=store)[1])
    assert found.startswith(f"bad   OTLP: {name} ")


def test_open_files_are_compared_with_the_connections_that_are_allowed(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two for a call, and some besides; what to raise or to lower is said in numbers."""
    monkeypatch.setattr("proxy.file_limit.resource.getrlimit", lambda _: (256, 1256))
    [found] = about("open files", check(store=store, max_connections=500)[1])
    assert found == "good  open files: each process may have 1,256, enough for 500 calls at once"
    [found] = about("open files", check(store=store, max_connections=501)[1])
    assert found.startswith("note  ")
    assert "not for the 501 of max_connections" in found
    assert "to 1,258 " in found
    assert found.endswith("lower SPANTAP_MAX_CONNECTIONS to 500")


def test_keys_that_anybody_could_spend_are_told_of(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And keys that cannot be read are bad, without a word of them (R7)."""
    monkeypatch.setenv("DEMO_KEY", "sk-demo")
    exposed: dict[str, Any] = {
        "host": "0.0.0.0",
        "upstreams": [{"name": "a", "url": NOWHERE, "api_key_env": "DEMO_KEY"}],
    }
    [found] = about("inbound keys", check(store=store, **exposed)[1])
    assert found.startswith("note  ")
    assert "spends the key of 'a'" in found
    keys: dict[str, Any] = {"inbound_keys": ("canary-canary-canary",)}
    [found] = about("inbound keys", check(store=store, **exposed, **keys)[1])
    assert found == "good  inbound keys: 1 known; a caller who shows none gets a 401"
    file = tmp_path / "keys"
    file.write_text("canary")
    status, lines = check(store=store, inbound_keys_file=file)
    [found] = about("inbound keys", lines)
    assert status == 1
    assert found.startswith("bad   ")
    assert "canary" not in "\n".join(lines)
