"""What a release needs to know: ``python .github/release.py check TAG``, ``notes`` or ``version``.

The version is told in ``codec/_version.py`` and nowhere else. A tag, the newest section of
``CHANGELOG.md`` and the chart have to agree with it; ``check`` says what does not.
``notes`` prints that section, for the release's page. The standard library alone is needed.
"""
# ruff: noqa: INP001, T201 - a program in a folder that is no package

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

RELEASED = re.compile(r"\d+\.\d+\.\d+(rc\d+)?")
"""Versions that are released; the others (``0.2.0.dev0``) are those between two releases."""

HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


def read_version(root: Path) -> str:
    """The version, as the wheel gets it too."""
    text = (root / "codec" / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("codec/_version.py has no version")
    return found[1]


def read_sections(root: Path) -> list[tuple[str, str | None, str]]:
    """Name, date and text of each section of the changelog, the newest first."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = list(HEADING.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return [
        (match["name"], match["date"], text[match.end() : end].strip())
        for match, end in zip(found, ends, strict=True)
    ]


def to_semver(version: str) -> str:
    """The form that Helm wants: ``1.2.3-rc.1`` for ``1.2.3rc1``, ``1.2.3-dev.0`` for its dev."""
    return re.sub(r"\.?(rc|dev)(\d+)$", r"-\1.\2", version)


def find_chart_faults(root: Path, version: str) -> list[str]:
    """What in ``Chart.yaml`` is not of this version."""
    path = root / "deploy" / "helm" / "spantap" / "Chart.yaml"
    lines = path.read_text(encoding="utf-8").replace('"', "").splitlines()
    semver = to_semver(version)
    faults = []
    if f"version: {semver}" not in lines:
        faults.append(f"the chart's version is not {semver}")
    if f"appVersion: {version}" not in lines:
        faults.append(f"the chart's appVersion is not {version}")
    early = semver != version
    if ("  artifacthub.io/prerelease: true" in lines) is not early:
        faults.append(f"the chart's artifacthub.io/prerelease is not {str(early).lower()}")
    return faults


def find_faults(root: Path, tag: str) -> list[str]:
    """Why this tag is no release of what is checked out; nothing where it is."""
    version = read_version(root)
    faults = []
    if tag != f"v{version}":
        faults.append(f"the tag is {tag}, and that of version {version} is v{version}")
    if not RELEASED.fullmatch(version):
        faults.append(f"{version} is no version of a release, such as 1.2.3 or 1.2.3rc1")
    sections = read_sections(root)
    if not sections or sections[0][0] != "Unreleased":
        faults.append("CHANGELOG.md does not begin with [Unreleased]")
    elif sections[0][2]:
        faults.append("CHANGELOG.md still has lines under [Unreleased]")
    if not any(name == version and date and text for name, date, text in sections[1:2]):
        faults.append(f"CHANGELOG.md has no section [{version}], with its date, after [Unreleased]")
    return faults + find_chart_faults(root, version)


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Obey; the exit status."""
    match arguments:
        case ["check", tag]:
            faults = find_faults(root, tag)
            print(*faults or [f"{tag} can be released"], sep="\n")
            return 1 if faults else 0
        case ["notes"]:
            version = read_version(root)
            for name, _, text in read_sections(root):
                if name == version:
                    print(text)
                    return 0
            print(f"CHANGELOG.md has no section [{version}]", file=sys.stderr)
            return 1
        case ["version"]:
            print(read_version(root))
            return 0
    print("usage: release.py check TAG | notes | version", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
