"""What a release puts on PyPI: wheel and sdist, built by the locked hatchling without network."""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from codec._version import __version__
from codec.text.jsontext import decode_json
from proxy.commands.help import TOPICS
from tests.deploy.tools import ROOT, run, tool
from tests.e2e.processes import clean_environment

if TYPE_CHECKING:
    from email.message import Message

PACKAGES = ("codec", "telemetry", "proxy")

NAME = f"spantap-{__version__}"

EPOCH = "1767225600"
"""Some date for the files in the archives; a release takes that of its commit."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return built / f"{NAME}-py3-none-any.whl"


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"{NAME}.dist-info/METADATA").decode())


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """What ``pyproject.toml`` says of it."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel, and of this one the dependencies but not the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    assert run([sys.executable, "-m", "venv", "--without-pip", folder]).returncode == 0
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    ended = run([*pip, "install", "--quiet", "--no-index", "--no-deps", wheel])
    assert ended.returncode == 0, ended.stdout
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    # A path file is read as far as here: the one of the checkout, in the folder it names, is not.
    (packages / "dependencies.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    return folder


def build(source: Path, target: Path, *kinds: str) -> Path:
    """Build there what is asked for, or both."""
    ended = run(
        [sys.executable, "-m", "hatchling", "build", "-d", target, *kinds],
        cwd=source,
        environ=clean_environment() | {"SOURCE_DATE_EPOCH": EPOCH},
    )
    assert ended.returncode == 0, ended.stdout
    return target


def list_wheel(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def list_sources() -> set[str]:
    """What git has, or would take, of the three packages and the module for ``python -m``."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    command += [*PACKAGES, "spantap.py"]
    return {name for name in run(command).stdout.splitlines() if (ROOT / name).exists()}


def test_hatchling_is_the_locked_one() -> None:
    """With which a release is built."""
    assert f"hatchling=={version('hatchling')} \\\n" in (ROOT / "locks" / "build.txt").read_text()


def test_the_wheel_has_the_three_packages_and_nothing_else(wheel: Path) -> None:
    """Every file of theirs, with the marker of their types, and the pages of ``spantap help``.

    No tests, no folder of ours besides.
    """
    names = list_wheel(wheel)
    information = {name for name in names if name.startswith(f"{NAME}.dist-info/")}
    pages = {f"proxy/help/{topic}.md" for topic in TOPICS}
    assert set(names) - information == list_sources() | pages
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert {name.partition("/")[2] for name in information} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }


def test_the_wheel_has_the_page(wheel: Path) -> None:
    """All files that the page is made of."""
    folder = ROOT / "proxy/page/static"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = {f"proxy/page/static/{path.name}" for path in folder.iterdir()}
    assert "proxy/page/static/index.html" in files
    assert files <= names


def test_the_wheel_has_the_licence(wheel: Path) -> None:
    """The whole of it."""
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"{NAME}.dist-info/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_has_one_program(wheel: Path) -> None:
    """``spantap``."""
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read(f"{NAME}.dist-info/entry_points.txt").decode().split("\n")
    assert [line for line in lines if line] == [
        "[console_scripts]",
        "spantap = proxy.__main__:main",
    ]


def test_the_metadata_say_what_the_project_says(metadata: Message, project: dict[str, Any]) -> None:
    """Name, version, licence, Python, dependencies, extras; the README is its page."""
    assert metadata["Name"] == project["name"] == "spantap"
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert set(metadata["Requires-Python"].split(",")) == set(project["requires-python"].split(","))
    assert metadata["Summary"] == project["description"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text()
    assert metadata.get_all("Classifier") == project["classifiers"]
    extras = project["optional-dependencies"]
    assert metadata.get_all("Provides-Extra") == list(extras)
    wanted = [plain(text) for text in project["dependencies"]]
    for extra, texts in extras.items():
        wanted += [plain(f"{text}; extra == '{extra}'") for text in texts]
    assert sorted(map(plain, metadata.get_all("Requires-Dist") or ())) == sorted(wanted)


def plain(requirement: str) -> str:
    """A requirement, with its limits in one order."""
    head, semicolon, marker = requirement.replace(" ", "").partition(";")
    found = re.fullmatch(r"([\w.-]+)(.*)", head)
    assert found is not None
    return found[1] + ",".join(sorted(found[2].split(","))) + semicolon + marker


def test_the_sdist_makes_the_same_wheel(built: Path, wheel: Path, tmp_path: Path) -> None:
    """Byte for byte, so that nothing is missing in it; and twice built it is twice the same."""
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        # Python before 3.11.4 knows no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(tmp_path)
    again = build(tmp_path / NAME, tmp_path / "dist", "-t", "wheel")
    assert (again / wheel.name).read_bytes() == wheel.read_bytes()
    names = {path.name for path in (tmp_path / NAME).iterdir()}
    assert {*PACKAGES, "LICENSE", "README.md", "CHANGELOG.md", "PKG-INFO"} <= names


def test_the_installed_program_works(installed: Path, tmp_path: Path) -> None:
    """Out of the wheel, away from the checkout: its version, its types, and the whole demo."""
    python, program = installed / "bin" / "python", installed / "bin" / "spantap"
    found = run(
        [python, "-c", "import codec, proxy, telemetry; print(proxy.__file__)"], cwd=tmp_path
    )
    assert found.stdout.startswith(str(installed)), found.stdout
    told = run([program, "--version"], cwd=tmp_path)
    assert (told.returncode, told.stdout) == (0, f"spantap {__version__}\n")
    helped = run([program, "help", "settings"], cwd=tmp_path)
    assert (helped.returncode, helped.stdout) == (0, (ROOT / "docs/settings.md").read_text())
    environ = clean_environment() | {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    demo = run([program, "demo"], cwd=tmp_path, environ=environ)
    assert demo.returncode == 0, demo.stdout


def test_the_list_of_what_is_installed_names_it(installed: Path, tmp_path: Path) -> None:
    """The SBOM of a release is made so: CycloneDX, with the version and the licence of each."""
    file = tmp_path / "sbom.json"
    options = ["--output-reproducible", "--output-format", "JSON", "--output-file", str(file)]
    options.append("--no-validate")  # against its own schema: that takes twenty seconds of CPU
    listed = run([tool("cyclonedx-py"), "environment", *options, str(installed / "bin" / "python")])
    assert listed.returncode == 0, listed.stdout
    components = {part["name"]: part for part in decode_json(file.read_bytes())["components"]}
    assert components["spantap"]["version"] == __version__
    assert components["spantap"]["licenses"][0]["license"]["id"] == "Apache-2.0"
    assert components["aiohttp"]["version"] == version("aiohttp")
