"""The image as tests see it: built by buildah on a base made here, unpacked, run without an engine.

All that is big lies in ``.image``: buildah's storage, with the base for the next time, and wheels.
A container is a process with the image unpacked as its root, in a mount namespace of its own, so
that its mounts end with it. It shares the network of the tests, and is told to keep to loopback.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json_object
from tests.deploy.tools import ROOT
from tests.e2e.processes import ServerProcess, clean_environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ("BASE", "UID", "WORK", "Image", "Unpacked", "build", "need_tools", "read_lock")

WORK = ROOT / ".image"

SCRIPTS = ROOT / "deploy" / "image"

BASE = "localhost/spantap-base:latest"

UID = 65532

_TOOLS = ("buildah", "chroot", "debootstrap", "mount", "umoci", "unshare")

_ENTER = """
set -eu
root=$1 store=$2
shift 2
mount --bind "$root" "$root"
mount --bind "$store" "$root/var/lib/spantap"
mount -t tmpfs -o size=16m,mode=1777 tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount -t tmpfs -o size=64k,mode=755 tmpfs "$root/dev"
for device in null zero random urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount -o remount,bind,ro "$root"
cd /
exec chroot "$root" setpriv --reuid=65532 --regid=65532 --clear-groups \
    --bounding-set=-all --no-new-privs env -i "$@"
"""
"""What an engine does with ``--read-only --tmpfs /tmp --cap-drop ALL``; all but the last is gone
with the process, for it has a namespace of its own. ``setpriv`` is the image's: to become another
user, and to take all rights from itself, has to be one step."""


def need_tools() -> None:
    """Skip unless ``SPANTAP_IMAGE=1``; then fail where something is absent."""
    if os.environ.get("SPANTAP_IMAGE") != "1":
        pytest.skip("make image builds and runs the image")
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if absent:
        pytest.fail(f"apt-get install buildah debootstrap umoci: {', '.join(absent)} not found")
    if sys.version_info[:2] != (3, 11):
        pytest.fail("the base is Debian 12, whose Python is 3.11: wheels are fetched by the same")
    if os.geteuid() != 0:
        pytest.fail("bases, and containers without an engine, are made by root")


def read_lock(name: str) -> dict[str, str]:
    """The packages of a lock: of each the rest of its entry, version, marker, hashes."""
    text = (ROOT / "locks" / f"{name}.txt").read_text()
    return dict(re.findall(r"^([a-z0-9.-]+)(==(?:.*\\\n)*.*)$", text, re.MULTILINE))


def call(
    *command: str | Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and fail where it fails; buildah's storage is in ``.image``."""
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**clean_environment(), **_storage(), **(environ or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{command}:\n{ended.stdout}\n{ended.stderr}"
    return ended


def _storage() -> dict[str, str]:
    """Variables for buildah: nothing of the machine's own storage is touched."""
    configuration = WORK / "storage.conf"
    if not configuration.exists():
        WORK.mkdir(exist_ok=True)
        (WORK / ".gitignore").write_text("*\n")
        graph, running = WORK / "storage", WORK / "running"
        configuration.write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{graph}"\nrunroot = "{running}"\n'
        )
    return {
        "CONTAINERS_STORAGE_CONF": str(configuration),
        "BUILDAH_ISOLATION": "chroot",
        "BUILDAH_LAYERS": "false",  # with vfs each one is a copy of all below it
        "TMPDIR": str(WORK),
    }


def _prepare() -> None:
    """Make the base unless it is there, and fetch the wheels."""
    known = call("buildah", "images", "--quiet", "--filter", f"reference={BASE}").stdout
    if not known.strip():
        call(SCRIPTS / "base.sh", BASE)
    call(SCRIPTS / "wheels.sh", sys.executable)


@dataclass(frozen=True, slots=True)
class Image:
    """An image in the storage; its configuration is what Docker knows of it."""

    name: str
    configuration: dict[str, Any]

    @property
    def layers(self) -> list[str]:
        """Digests of the layers, unpacked; those of the base come first."""
        layers: list[str] = self.configuration["rootfs"]["diff_ids"]
        return layers

    def unpack(self, folder: Path) -> Unpacked:
        """The image's file system as a folder."""
        call("buildah", "push", "--quiet", self.name, f"oci:{folder}/oci:it")
        call("umoci", "unpack", "--image", f"{folder}/oci:it", folder / "bundle")
        return Unpacked(self, folder / "oci", folder / "bundle" / "rootfs")

    def remove(self) -> None:
        """Remove it; the base stays."""
        call("buildah", "rmi", "--force", self.name)


@cache
def _commit() -> tuple[str, str]:
    """Id and time of the last commit; asked once, for another may come between two builds."""
    revision, time = call("git", "log", "-1", "--format=%H %ct").stdout.split()
    return revision, time


def build(name: str, *options: str) -> Image:
    """Build the image of this checkout, from nothing but the base and wheels that are here."""
    _prepare()
    revision, time = _commit()
    arguments = {"BUILD_IMAGE": BASE, "RUN_IMAGE": BASE, "REVISION": revision, "PIP_NO_INDEX": "1"}
    given = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    script = SCRIPTS / "build.sh"
    call(script, "buildah", name, *given, *options, environ={"SOURCE_DATE_EPOCH": time})
    inspected = decode_json_object(call("buildah", "inspect", "--type", "image", name).stdout)
    return Image(name, inspected["Docker"])


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An image that can be run; the archive is an OCI layout of it."""

    image: Image
    archive: Path
    root: Path

    @property
    def site_packages(self) -> Path:
        """Where its Python packages are."""
        (packages,) = self.root.glob("opt/spantap/lib/python3*/site-packages")
        return packages

    @property
    def sizes(self) -> list[int]:
        """Bytes of each layer, compressed, as a registry has them."""
        index = decode_json_object((self.archive / "index.json").read_bytes())
        digest = index["manifests"][0]["digest"].removeprefix("sha256:")
        manifest = decode_json_object((self.archive / "blobs" / "sha256" / digest).read_bytes())
        return [layer["size"] for layer in manifest["layers"]]

    def command(
        self, store: Path, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> list[str]:
        """The command that runs the image's entry point with arguments, or with its own.

        Args:
            store: a folder of the image's user, for what has to last.
            arguments: in the place of the image's ``CMD``.
            environment: on top of the image's variables.
        """
        configuration = self.image.configuration["config"]
        variables = dict(entry.split("=", 1) for entry in configuration["Env"])
        variables |= {"HOME": "/", **(environment or {})}
        program = [*configuration["Entrypoint"], *(arguments or configuration["Cmd"])]
        assignments = [f"{name}={value}" for name, value in variables.items()]
        enter = ["unshare", "--mount", "sh", "-c", _ENTER, "sh", str(self.root), str(store)]
        return [*enter, *assignments, *program]

    def serve(self, store: Path, environment: Mapping[str, str], log: Path) -> ServerProcess:
        """The image as it is meant to run: ``spantap serve``."""
        command = self.command(store, environment=environment)
        return ServerProcess(command, environment={}, log=log)

    def run(
        self, store: Path, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Another command of spantap's in the image, to its end, whatever its status."""
        return self._end(self.command(store, *arguments, environment=environment))

    def run_python(self, store: Path, code: str) -> str:
        """What a piece of Python prints in the image, which must not fail."""
        command = self.command(store)
        ended = self._end([*command[:-2], "python", "-c", code])
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    @staticmethod
    def _end(command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )
