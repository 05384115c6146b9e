"""What pages refer to exists: files and headings, variables, commands and their flags."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest
from openinference.instrumentation import config as openinference_config
from opentelemetry import environment_variables as api_variables
from opentelemetry.sdk import environment_variables as sdk_variables

from proxy.__main__ import build_parser
from proxy.settings.settings import Settings
from tests.docs.blocks import DOCS, ROOT, Page, find_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = find_pages()

BESIDE = [Page(ROOT / name) for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
"""Pages whose links are checked, and nothing else."""

INDEX = Page(DOCS / "README.md")

_VARIABLE = re.compile(r"\b(?:SPANTAP|OTEL|OPENINFERENCE)_[A-Z0-9_*]*[A-Z0-9*](?![A-Z0-9_])")
_SOURCES = ("proxy", "telemetry", "codec")
_OF_THE_CHECKOUT = ("Makefile", "deploy/compose.yaml")
"""Files that have variables of their own: of test lanes, and of Compose."""

_PATH = re.compile(
    r"(?<![\w./~<-])(?:codec|deploy|docs|proxy|telemetry|tests)(?:/[\w.*-]+)+/?(?![\w/<])"
)
"""Of a file or folder of the checkout, or a pattern for several."""

_MADE_BY_USERS = {"deploy/.env", "deploy/spantap.env"}

_COMMAND = re.compile(
    r"^(?:\$ )?(?:[A-Za-z_]+=\S+ )*(?:docker compose .* exec spantap |.* -- )?(spantap(?: .*)?)$"
)


_SENTENCE = "spantap ends because of a defect"
"""A log line, not a command."""


def relative(page: Page) -> str:
    return str(page.path.relative_to(ROOT))


with_pages = pytest.mark.parametrize("page", PAGES, ids=relative)


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=relative)
def test_links_lead_somewhere(page: Page) -> None:
    """Relative ones, to files and folders of the checkout and to headings in them."""
    for link in page.links:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.path.parent / path).resolve() if path else page.path
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in Page(target).anchors, link


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    """Links are found, and headings become what GitHub makes of them."""
    assert sum(len(page.links) for page in PAGES) > 100
    assert "sessions-users-tags" in Page(DOCS / "settings.md").anchors
    assert "three" not in Page(DOCS / "settings.md").anchors


def missing_paths(code: str) -> set[str]:
    """The paths of the checkout in it that lead nowhere."""
    paths = {*_PATH.findall(code)} - _MADE_BY_USERS
    return {path for path in paths if not any(ROOT.glob(path))}


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=relative)
def test_paths_exist(page: Page) -> None:
    """Of tests, modules and other files that a page names without a link."""
    assert not {path for code in page.code for path in missing_paths(code)}


def test_a_path_that_does_not_exist_is_noticed() -> None:
    """Alone, in a command, or as a pattern that fits nothing."""
    assert sum(len(_PATH.findall(code)) for page in (*PAGES, *BESIDE) for code in page.code) > 100
    assert not missing_paths("pytest tests/docs/test_links.py tests/docs tests/docs/test_*.py")
    assert missing_paths("tests/docs/test_lniks.py") == {"tests/docs/test_lniks.py"}
    assert missing_paths("cat telemetry/gone.py telemetry/gone_*.py") == {
        "telemetry/gone.py",
        "telemetry/gone_*.py",
    }
    assert not missing_paths("/etc/telemetry/gone.py")


def test_the_index_has_every_page() -> None:
    """All under ``docs/``, by a link of its own."""
    linked = {(INDEX.path.parent / link.partition("#")[0]).resolve() for link in INDEX.links}
    pages = {page.path for page in PAGES if page.path.is_relative_to(DOCS)} - {INDEX.path}
    assert pages - linked == set()


def known_variables() -> set[str]:
    """Settings, what OpenTelemetry and OpenInference know, and what else the code names."""
    settings = {f"SPANTAP_{name.upper()}" for name in Settings.model_fields}
    of_others = {
        name
        for module in (api_variables, sdk_variables, openinference_config)
        for name in vars(module)
        if _VARIABLE.fullmatch(name)
    }
    files = [file for name in _SOURCES for file in (ROOT / name).rglob("*.py")]
    files += [ROOT / name for name in _OF_THE_CHECKOUT]
    in_code = {name for file in files for name in _VARIABLE.findall(file.read_text("utf-8"))}
    return settings | of_others | {name for name in in_code if "*" not in name}


KNOWN = known_variables()


def exists(name: str) -> bool:
    """Whether a name, or one that a name with a star stands for, is known."""
    return any(fnmatchcase(known, name) for known in KNOWN)


@with_pages
def test_variables_exist(page: Page) -> None:
    """Every one of spantap's, OpenTelemetry's and OpenInference's that a page names."""
    unknown = {name for name in _VARIABLE.findall(page.text) if not exists(name)}
    assert not unknown


def test_a_variable_that_does_not_exist_is_noticed() -> None:
    """By its name, or by a pattern that fits none."""
    assert exists("SPANTAP_STORE")
    assert exists("OTEL_BSP_*")
    assert not exists("SPANTAP_STROE")
    assert not exists("OTEL_SPANTAP_*")


def commands(page: Page) -> Iterator[list[str]]:
    """The words behind ``spantap`` wherever a page writes such a command."""
    blocks = (block.text.replace("\\\n", " ") for block in page.blocks if block.language == "sh")
    lines = [line for text in blocks for line in text.splitlines()]
    for line in (*lines, *page.code):
        if (found := _COMMAND.match(line.strip())) and line != _SENTENCE:
            yield shlex.split(found[1], comments=True)[1:]


def takes(words: list[str]) -> bool:
    """Whether the command line can be read; a page may name a command without its arguments."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            build_parser().parse_args(words)
        except SystemExit as end:
            return end.code == 0 or "the following arguments are required" in said.getvalue()
    return True


@with_pages
def test_commands_exist(page: Page) -> None:
    """With the flags and arguments that they are written with."""
    unknown = [words for words in commands(page) if words and not takes(words)]
    assert not unknown


def test_a_command_that_does_not_exist_is_noticed() -> None:
    """Commands are found in blocks and in lines."""
    found = [words for page in PAGES for words in commands(page)]
    assert ["check"] in found
    assert ["traces", "show", "2dd5cb58"] in found
    assert not takes(["chekc"])
    assert not takes(["serve", "--prot", "1"])
    assert not takes(["traces", "--lsit"])


@with_pages
def test_what_is_installed_is_the_checkout(page: Page) -> None:
    """As long as spantap is in no index of packages."""
    assert not re.search(r"install\s+['\"]?spantap\b(?! deploy/)", page.text)
