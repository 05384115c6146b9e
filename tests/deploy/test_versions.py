"""The version stands in one place, and whatever repeats it agrees (``CHANGELOG.md``, the chart).

``.github/release.py`` is what the workflow asks before anything is released.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from codec._version import __version__
from tests.deploy.tools import ROOT, run

PROGRAM = ROOT / ".github" / "release.py"

CHART = Path("deploy/helm/spantap/Chart.yaml")

HEADING = re.compile(r"^## (.*)$", re.MULTILINE)

RELEASE = re.compile(r"\[(\d+)\.(\d+)\.(\d+)(?:rc(\d+))?\] - (\d{4}-\d{2}-\d{2})")

VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:rc(\d+)|\.dev\d+)?")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a release is told by, of a version 1.2.3 that is ready."""
    for folder in (".github", "codec", CHART.parent):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(PROGRAM, tmp_path / ".github")
    (tmp_path / "codec" / "_version.py").write_text('"""Version."""\n\n__version__ = "1.2.3"\n')
    (tmp_path / CHART).write_text(
        'name: spantap\nversion: 1.2.3\nappVersion: "1.2.3"\n'
        'annotations:\n  artifacthub.io/prerelease: "false"\n'
    )
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n"
        "## [1.2.3] - 2026-11-21\n\n### Added\n\n- A line.\n\n"
        "## [1.2.2] - 2026-10-01\n\n- An old line.\n"
    )
    return tmp_path


def ask(root: Path, *arguments: str) -> tuple[int, str]:
    """Status and output of the program in `root`."""
    ended = run([sys.executable, ".github/release.py", *arguments], cwd=root)
    return ended.returncode, ended.stdout


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_all_say_the_same_pythons() -> None:
    """An installer, the package's page, `make`, CI, the README and the image."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [(first, behind)] = re.findall(r"^>=3\.(\d+),<3\.(\d+)$", project["requires-python"])
    minors = range(int(first), int(behind))
    name = "Programming Language :: Python :: "
    told = [text.removeprefix(name) for text in project["classifiers"] if text.startswith(name)]
    assert told == [f"3.{minor}" for minor in minors]
    makefile, workflow, readme, dockerfile = (
        (ROOT / path).read_text()
        for path in ("Makefile", ".github/workflows/ci.yml", "README.md", "deploy/Dockerfile")
    )
    assert f"(3, {first}) <= sys.version_info < (3, {behind})" in makefile
    assert "python: [{}]".format(", ".join(f'"{one}"' for one in told)) in workflow
    assert f"Python {told[0]} to {told[-1]}" in readme
    assert re.findall(r"python:(3\.\d+)\.", dockerfile) == [told[-1]] * 2


def test_the_chart_is_of_the_version() -> None:
    """Its appVersion is the image's tag where the values name none."""
    lines = (ROOT / CHART).read_text().replace('"', "").splitlines()
    assert f"appVersion: {__version__}" in lines
    assert "the chart's" not in ask(ROOT, "check", f"v{__version__}")[1]


def test_the_changelog_fits_the_version() -> None:
    """[Unreleased] comes first; a version between releases is later than every release below."""
    headings = HEADING.findall((ROOT / "CHANGELOG.md").read_text())
    assert headings[0] == "[Unreleased]"
    releases = [RELEASE.fullmatch(heading) for heading in headings[1:]]
    assert all(releases), headings
    found = [(order(release), release[5]) for release in releases if release]
    assert found == sorted(found, reverse=True)
    version = VERSION.fullmatch(__version__)
    assert version is not None
    if ".dev" in __version__:
        assert all(released < order(version) for released, _ in found)
    else:
        assert found
        assert found[0][0] == order(version)


def order(version: re.Match[str]) -> tuple[float, ...]:
    """Candidates come before what they are candidates for."""
    *numbers, candidate = version.groups()[:4]
    return (*map(int, numbers), float(candidate) if candidate else float("inf"))


def test_the_version_is_told_from_its_one_place() -> None:
    """And a version between two releases is not released."""
    assert ask(ROOT, "version") == (0, f"{__version__}\n")
    status, output = ask(ROOT, "check", f"v{__version__}")
    assert (status == 1) is (".dev" in __version__), output


def test_what_is_ready_can_be_released(checkout: Path) -> None:
    """Its notes are the lines of its section."""
    assert ask(checkout, "check", "v1.2.3") == (0, "v1.2.3 can be released\n")
    assert ask(checkout, "notes") == (0, "### Added\n\n- A line.\n")


def test_a_candidate_can_be_released(checkout: Path) -> None:
    """Its chart has the version in the form that Helm wants, and says that it is early."""
    replace(checkout / "codec" / "_version.py", "1.2.3", "1.2.3rc1")
    replace(checkout / "CHANGELOG.md", "[1.2.3]", "[1.2.3rc1]")
    status, output = ask(checkout, "check", "v1.2.3rc1")
    assert status == 1
    assert output.splitlines() == [
        "the chart's version is not 1.2.3-rc.1",
        "the chart's appVersion is not 1.2.3rc1",
        "the chart's artifacthub.io/prerelease is not true",
    ]
    replace(checkout / CHART, '"1.2.3"', '"1.2.3rc1"')
    replace(checkout / CHART, "version: 1.2.3\n", "version: 1.2.3-rc.1\n")
    replace(checkout / CHART, '"false"', '"true"')
    assert ask(checkout, "check", "v1.2.3rc1") == (0, "v1.2.3rc1 can be released\n")


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2.2", "v1.2.3rc1", "v1.2.30"])
def test_another_tag_is_refused(checkout: Path, tag: str) -> None:
    """It says which one it would have to be."""
    status, output = ask(checkout, "check", tag)
    assert status == 1
    assert "v1.2.3" in output


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("codec/_version.py", "1.2.3", "1.2.4"),
        ("codec/_version.py", "1.2.3", "1.2.3.dev0"),
        ("CHANGELOG.md", "## [Unreleased]\n", ""),
        ("CHANGELOG.md", "## [Unreleased]\n", "## [Unreleased]\n\n- Forgotten.\n"),
        ("CHANGELOG.md", " - 2026-11-21", ""),
        ("CHANGELOG.md", "### Added\n\n- A line.\n", ""),
        ("CHANGELOG.md", "[1.2.3]", "[1.2.4]"),
        (str(CHART), '"1.2.3"', '"1.2.2"'),
        (str(CHART), "\nversion: 1.2.3\n", "\nversion: 1.2.2\n"),
        (str(CHART), '"false"', '"true"'),
    ],
)
def test_what_does_not_agree_is_refused(checkout: Path, name: str, old: str, new: str) -> None:
    """In version, changelog or chart."""
    replace(checkout / name, old, new)
    status, output = ask(checkout, "check", "v1.2.3")
    assert status == 1, output


def test_wrong_usage_is_refused(checkout: Path) -> None:
    """With a status of its own."""
    assert ask(checkout)[0] == 2
    assert ask(checkout, "check")[0] == 2
