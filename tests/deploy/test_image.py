"""The image, built and run: ``make image``, as root on Debian.

See ``docs/contract/promises.md#image``. Its base is Debian's Python, made by debootstrap, in the
place of the image of Python that the Dockerfile names, for which a registry would be needed.
"""

from __future__ import annotations

import os
import re
import sys
from email.parser import Parser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import openai
import pytest

from codec._version import __version__
from codec.text.jsontext import decode_json_object
from tests.deploy.image import (
    BASE,
    UID,
    WORK,
    Image,
    Unpacked,
    build,
    call,
    need_tools,
    read_lock,
)
from tests.deploy.tools import ROOT, tool
from tests.e2e.processes import find_free_port, get, wait_until
from tests.e2e.spantap import running_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(900)

_START_SECONDS = 30.0

UNWANTED = ("pip", "setuptools", "wheel", "pkg_resources", "ensurepip", "uv", "hatchling")
"""Packages that install or build others."""

TRIES_TO_WRITE = """
import os
assert os.statvfs("/").f_flag & os.ST_RDONLY
for folder in "/ /etc /opt/spantap /usr/bin /home /dev /tmp /var/lib/spantap".split():
    try:
        with open(os.path.join(folder, "file"), "w"):
            print(folder)
    except OSError:
        pass
"""


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """The image of this checkout."""
    need_tools()
    image = build("localhost/spantap:first")
    yield image
    image.remove()


@pytest.fixture(scope="module")
def unpacked(image: Image) -> Iterator[Unpacked]:
    with TemporaryDirectory(dir=WORK) as folder:
        yield image.unpack(Path(folder))


@pytest.fixture
def store(unpacked: Unpacked, tmp_path: Path) -> Path:
    """A volume, as an engine makes it: with owner and mode of the image's folder."""
    folder = tmp_path / "volume"
    folder.mkdir()
    made = (unpacked.root / "var/lib/spantap").stat()
    os.chown(folder, made.st_uid, made.st_gid)
    folder.chmod(made.st_mode)
    return folder


def list_installed(unpacked: Unpacked) -> dict[str, str]:
    """Names and versions of the packages in the image."""
    found = {}
    for metadata in unpacked.site_packages.glob("*.dist-info/METADATA"):
        message = Parser().parsestr(metadata.read_text(encoding="utf-8"), headersonly=True)
        found[re.sub(r"[-_.]+", "-", message["Name"]).lower()] = message["Version"]
    return found


def list_locked(name: str) -> dict[str, str]:
    """Names and versions in a lock, for Linux and this Python."""
    return {
        package: entry.removeprefix("==").split()[0]
        for package, entry in read_lock(name).items()
        if "sys_platform == 'emscripten'" not in entry
    }


def test_twice_built_it_is_the_same(image: Image) -> None:
    """Layer by layer, and in what is said of it; buildah alone puts a random host name there."""
    again = build("localhost/spantap:second")
    try:
        assert again.layers == image.layers
        name = {"Hostname": ""}
        assert again.configuration["config"] | name == image.configuration["config"] | name
    finally:
        again.remove()


def test_it_says_what_it_is(image: Image) -> None:
    """User, program, health, ports, volume, signal, labels."""
    said = image.configuration["config"]
    assert said["User"] == f"{UID}:{UID}"
    assert said["Entrypoint"] == ["spantap"]
    assert said["Cmd"] == ["serve"]
    assert said["Healthcheck"]["Test"] == ["CMD", "spantap", "healthcheck"]
    assert set(said["ExposedPorts"]) == {"4000/tcp", "4001/tcp"}
    assert set(said["Volumes"]) == {"/var/lib/spantap"}
    assert said["StopSignal"] == "SIGTERM"
    labels = {name.rpartition(".")[2]: value for name, value in said["Labels"].items()}
    assert labels["version"] == __version__
    assert labels["licenses"] == "Apache-2.0"
    assert re.fullmatch(r"[0-9a-f]{40}", labels["revision"])


def test_it_has_what_is_locked_and_nothing_else(unpacked: Unpacked) -> None:
    """Versions of the lock, and spantap; nothing that installs, builds or tests."""
    assert list_installed(unpacked) == {**list_locked("run"), "spantap": __version__}
    programs = {path.name for path in (unpacked.root / "opt/spantap/bin").iterdir()}
    assert {name for name in programs if not name.startswith("python")} == {"spantap"}
    assert not list(unpacked.root.glob("**/bin/pip*"))
    for name in UNWANTED:
        assert not list(unpacked.root.glob(f"usr/**/python3*/**/{name}/__init__.py")), name
        assert not list(unpacked.site_packages.glob(name)), name
    for name in ("source", "build", "wheels", "dist", "layer", "slim.py", "mnt/slim.py"):
        assert not (unpacked.root / name).exists(), name
    assert not [p for p in unpacked.site_packages.rglob("*") if p.name in {"test", "tests"}]


def test_its_packages_are_compiled(unpacked: Unpacked) -> None:
    """Each module of ours and of the dependencies, so that times of files do not matter."""
    modules = list(unpacked.site_packages.rglob("*.py"))
    assert len(modules) > 1000
    for module in modules:
        (compiled,) = module.parent.glob(f"__pycache__/{module.stem}.cpython-*.pyc")
        assert compiled.read_bytes()[4:8] == b"\x01\0\0\0", compiled


def test_its_extensions_can_be_loaded(unpacked: Unpacked, store: Path) -> None:
    """Each of them, though what debuggers read was cut off; and they do what they are for."""
    libraries = [
        path.relative_to(unpacked.site_packages) for path in unpacked.site_packages.rglob("*.so")
    ]
    names = {".".join([*path.parts[:-1], path.name.partition(".")[0]]) for path in libraries}
    assert {"_brotli", "zstandard.backend_c"} <= names
    assert "zstandard._cffi" not in names
    code = "import importlib, brotli, zstandard\n"
    code += f"for name in {sorted(names)}: importlib.import_module(name)\n"
    code += "assert brotli.decompress(brotli.compress(b'text')) == b'text'\n"
    code += "assert zstandard.decompress(zstandard.compress(b'text')) == b'text'"
    assert unpacked.run_python(store, code) == ""


def test_nothing_that_it_imports_is_compiled_at_start(unpacked: Unpacked, store: Path) -> None:
    """The standard library's modules are compiled too, which a read-only root could not keep."""
    code = "import os, sys, proxy.commands.serve.command, proxy.__main__\n"
    code += "import telemetry.store.store, http.client\n"
    code += "for module in list(sys.modules.values()):\n"
    code += "    cached = getattr(module, '__cached__', None)\n"
    code += "    if cached and not os.path.exists(cached): print(module)"
    assert unpacked.run_python(store, code) == ""


def test_it_writes_to_its_volume_and_to_tmp_alone(unpacked: Unpacked, store: Path) -> None:
    """The root is read-only, and what is not is not the user's."""
    assert unpacked.run_python(store, TRIES_TO_WRITE).split() == ["/tmp", "/var/lib/spantap"]
    made = (unpacked.root / "var/lib/spantap").stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o777) == (UID, UID, 0o700)


def test_a_chat_through_it_is_recorded(unpacked: Unpacked, store: Path, tmp_path: Path) -> None:
    """As its user, on a read-only root, without capabilities; SIGTERM ends it with 0."""
    port, admin_port = find_free_port(), find_free_port()
    with running_upstream(tmp_path) as upstream:
        environment = {
            "SPANTAP_UPSTREAM": f"http://127.0.0.1:{upstream}",
            "SPANTAP_HOST": "127.0.0.1",
            "SPANTAP_PORT": str(port),
            "SPANTAP_ADMIN_HOST": "127.0.0.1",
            "SPANTAP_ADMIN_PORT": str(admin_port),
            "SPANTAP_LINGER_SECONDS": "0",
        }
        assert unpacked.run(store, "healthcheck", environment=environment).returncode == 1
        with unpacked.serve(store, environment, tmp_path / "serve.log") as server:
            server.wait_for(f"http://127.0.0.1:{admin_port}/readyz", _START_SECONDS)
            health = unpacked.run(store, "healthcheck", environment=environment)
            assert (health.returncode, health.stdout) == (0, "")
            with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any") as client:
                chunks = client.chat.completions.create(
                    model="gpt-4o-mini",
                    messages=[{"role": "user", "content": "hello"}],
                    stream=True,
                )
                said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert said

            def is_recorded() -> bool:
                return "gpt-4o-mini" in unpacked.run(store, "traces").stdout

            wait_until(is_recorded, _START_SECONDS, "its span is in the store")
            for status in find_processes(unpacked.root):
                assert status["Uid"].split() == status["Gid"].split() == [str(UID)] * 4
                assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
                assert status["NoNewPrivs"] == "1"
            assert get(f"http://127.0.0.1:{admin_port}/healthz").ok
            assert server.end() == 0, server.output
            assert "Traceback" not in server.output
    assert (store / "traces.db").stat().st_uid == UID
    assert "gpt-4o-mini" in unpacked.run(store, "traces").stdout


def find_processes(root: Path) -> list[dict[str, str]]:
    """What the kernel says of the processes whose root is this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "root").readlink() != root:
                continue
            lines = (process / "status").read_text().splitlines()
        except OSError:  # it has ended
            continue
        found.append({key: rest.strip() for key, _, rest in (x.partition(":") for x in lines)})
    assert len(found) >= 3, "supervisor, worker, telemetry"
    return found


def test_its_list_of_packages_is_true(unpacked: Unpacked, tmp_path: Path) -> None:
    """The SBOM: CycloneDX, each package of the image with its version and the address of its."""
    tool("cyclonedx-py")
    file = tmp_path / "sbom.json"
    call(ROOT / "deploy" / "image" / "sbom.sh", unpacked.root, file)
    bom = decode_json_object(file.read_bytes())
    assert bom["bomFormat"] == "CycloneDX"
    listed = {re.sub(r"[-_.]+", "-", c["name"]).lower(): c for c in bom["components"]}
    assert {name: c["version"] for name, c in listed.items()} == list_installed(unpacked)
    assert listed["spantap"]["purl"] == f"pkg:pypi/spantap@{__version__}"


def test_it_is_small(unpacked: Unpacked) -> None:
    """What is on top of the base, compressed; printed by layer."""
    base = decode_json_object(call("buildah", "inspect", "--type", "image", BASE).stdout)
    below = len(base["Docker"]["rootfs"]["diff_ids"])
    own = unpacked.sizes[below:]
    print("base", unpacked.sizes[:below], "own", own, file=sys.stderr)
    assert sum(own) < 40_000_000
