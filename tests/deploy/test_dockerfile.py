"""``deploy/Dockerfile`` and what it is built from, as they are written.

See ``docs/contract/promises.md#image``. :mod:`tests.deploy.test_image` builds and runs the image.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from typing import TYPE_CHECKING, NamedTuple

from codec.text.jsontext import decode_json
from proxy.commands.healthcheck import TIMEOUT_SECONDS
from proxy.settings.settings import load_settings
from tests.deploy.image import read_lock
from tests.deploy.tools import ROOT, run, tool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

DOCKERFILE = ROOT / "deploy" / "Dockerfile"

IGNORE = ROOT / ".dockerignore"


class Instruction(NamedTuple):
    """A line of a Dockerfile, continued ones joined."""

    word: str
    text: str


def read_instructions(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [line.partition(" ") for line in joined.splitlines() if line]
    return [Instruction(word, rest.strip()) for word, _, rest in found]


def read_stages() -> list[list[Instruction]]:
    """What stands before the first FROM, and then each stage."""
    stages: list[list[Instruction]] = [[]]
    for instruction in read_instructions(DOCKERFILE.read_text()):
        if instruction.word == "FROM":
            stages.append([])
        stages[-1].append(instruction)
    return stages


def texts(word: str, stage: list[Instruction]) -> list[str]:
    return [instruction.text for instruction in stage if instruction.word == word]


def read_environment(stage: list[Instruction]) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(texts("ENV", stage))))


FINAL = read_stages()[-1]


def lint(path: Path) -> tuple[int, str]:
    """Status and findings of hadolint, which may ignore nothing."""
    checked = run([tool("hadolint"), "--disable-ignore-pragma", "--failure-threshold=style", path])
    return checked.returncode, checked.stdout


def test_hadolint_finds_nothing(tmp_path: Path) -> None:
    """And it would: an unpinned base is found."""
    assert lint(DOCKERFILE) == (0, "")
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python:latest\nENTRYPOINT spantap serve\n")
    status, findings = lint(bad)
    assert status != 0
    assert "DL3007" in findings
    assert "DL3025" in findings


def test_bases_are_arguments_and_pinned() -> None:
    """A builder that cannot pull names its own; the default has a whole version and a digest."""
    (head, *stages) = read_stages()
    assert len(stages) >= 3
    bases = dict(text.split("=") for text in texts("ARG", head))
    assert set(bases) == {"BUILD_IMAGE", "RUN_IMAGE"}
    for base in bases.values():
        pinned = r"docker\.io/library/python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}"
        assert re.fullmatch(pinned, base), base
    assert len(set(bases.values())) == 1, "the environment's interpreter is at one path"
    names: set[str] = set()
    for stage in stages:
        base, _, name = stage[0].text.partition(" AS ")
        assert base in names or base.strip("${}") in bases, base
        names.add(name)
    assert stages[-1][0].text.startswith("${RUN_IMAGE}")


def test_the_bases_python_is_a_supported_one() -> None:
    """One that the wheel names, and the tests run with."""
    (version,) = set(re.findall(r"/python:(3\.\d+)", DOCKERFILE.read_text()))
    assert f'"Programming Language :: Python :: {version}"' in (ROOT / "pyproject.toml").read_text()


def test_nothing_is_installed_without_a_hash() -> None:
    """Wheels of locks by their hashes; the project by itself, of what was built here."""
    installs = [
        re.split(r" && ", text[text.index("pip") :])[0]
        for stage in read_stages()
        for run in texts("RUN", stage)
        for text in re.split(r"(?= -m pip )", run)
        if " install " in text
    ]
    assert len(installs) == 3
    for install in installs[:2]:
        assert "--no-deps --require-hashes --only-binary :all:" in install
        assert re.search(r"-r locks/(build|run)\.txt$", install)
    assert "--no-index --find-links /dist --no-deps" in installs[2]
    assert not re.search(r"curl|wget|apt|ADD ", DOCKERFILE.read_text())


def test_locks_are_of_what_runs() -> None:
    """It has the list of prices; versions and hashes are those of development."""
    full = read_lock("run")
    assert "genai-prices" in full
    dev = {name: drop_marker(entry) for name, entry in read_lock("dev").items()}
    assert {name: drop_marker(entry) for name, entry in full.items()}.items() <= dev.items()
    assert not full.keys() & {"openai", "pytest", "uv", "hatchling", "arize-phoenix"}
    assert not [n for n in full if n.startswith("openinference-instrumentation")]


def drop_marker(entry: str) -> str:
    """The dev lock needs some packages in more cases."""
    return re.sub(r" ; .*(?= \\\n)", "", entry)


def test_it_runs_as_a_user_who_is_a_number() -> None:
    """So that runAsNonRoot can be verified; nobody becomes root again."""
    assert texts("USER", FINAL) == ["65532:65532"]
    words = [instruction.word for instruction in FINAL]
    assert not {"RUN", "COPY", "ADD"} & set(words[words.index("USER") :])


def test_the_program_is_the_first_process() -> None:
    """Without a shell, which would not hand on the signal to end."""
    assert texts("ENTRYPOINT", FINAL) == ['["spantap"]']
    assert texts("CMD", FINAL) == ['["serve"]']
    assert texts("STOPSIGNAL", FINAL) == ["SIGTERM"]


def test_the_last_stage_needs_no_shell() -> None:
    """So that the base may be one that has none."""
    for text in texts("RUN", FINAL):
        command = re.sub(r"--\S+\s+", "", text)
        assert isinstance(decode_json(command.encode()), list)


def test_health_is_asked_of_the_program() -> None:
    """There is no curl; it has more time than it takes."""
    (health,) = texts("HEALTHCHECK", FINAL)
    options, _, command = health.partition(" CMD ")
    assert command == '["spantap", "healthcheck"]'
    found = re.search(r"--timeout=(\d+)s", options)
    assert found is not None
    assert int(found[1]) > TIMEOUT_SECONDS


def test_variables_and_ports_are_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others reach it, on the ports that are exposed; its store is on the volume."""
    environment = read_environment(FINAL)
    for name, value in environment.items():
        if name.startswith("SPANTAP_"):
            monkeypatch.setenv(name, value)
    settings = load_settings({})
    assert (settings.host, settings.admin_host) == ("0.0.0.0", "0.0.0.0")
    assert (settings.page, settings.page_host) == (False, "0.0.0.0")  # only where it is wanted
    assert texts("EXPOSE", FINAL) == [f"{settings.port} {settings.admin_port}"]
    assert texts("VOLUME", FINAL) == [f'["{settings.store.parent}"]']
    (command,) = texts("RUN", FINAL)
    assert f'"{settings.store.parent}"' in command
    assert environment["PYTHONUNBUFFERED"] == environment["PYTHONDONTWRITEBYTECODE"] == "1"


def test_labels_are_those_of_oci() -> None:
    """Version, revision and source come from whoever builds; the licence is the project's."""
    (text,) = texts("LABEL", FINAL)
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', text))
    for name in ("version", "revision", "source"):
        assert labels[name] == f"${{{name.upper()}}}"
        assert f"{name.upper()}=unknown" in texts("ARG", FINAL)
    project = (ROOT / "pyproject.toml").read_text()
    assert f'license = "{labels["licenses"]}"\n' in project
    assert f'description = "{labels["description"]}"\n' in project


def test_byte_code_does_not_depend_on_times() -> None:
    """A build that sets the times of files would make it stale, else, and every start slow."""
    text = DOCKERFILE.read_text()
    assert text.count("compileall") == text.count("--invalidation-mode unchecked-hash") == 2
    assert text.count(" install ") == text.count("--no-compile") + 1, "what is built with stays out"


def allowed() -> list[str]:
    """Patterns of what the builder may see."""
    lines = [line for line in IGNORE.read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    assert all(line.startswith("!") for line in lines[1:-1])
    assert lines[-1] == "**/__pycache__"
    return [line.removeprefix("!") for line in lines[1:-1]]


def copied() -> Iterator[str]:
    """What the Dockerfile takes of its context."""
    for stage in read_stages():
        for text in texts("COPY", stage):
            if not text.startswith("--from"):
                yield from text.split()[:-1]
        for text in texts("RUN", stage):
            yield from re.findall(r"--mount=type=bind,source=([^,]+)", text)


def test_the_context_has_what_is_copied_and_nothing_else() -> None:
    """No tests, no git, no secrets of the checkout: each thing is let in by name."""
    patterns = allowed()
    sources = [*copied()]
    assert {p for p in patterns if any(fnmatch(p, source) for source in sources)} == set(patterns)
    for source in sources:
        # A folder that is mounted has those of its files that are let in.
        assert any(fnmatch(p, source) or p.startswith(f"{source}/") for p in patterns), source
    for pattern in patterns:
        assert (ROOT / pattern).exists(), pattern
        assert "*" not in pattern
