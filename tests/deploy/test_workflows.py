"""The workflows, without GitHub: their schema, an audit, their words.

See ``docs/contract/promises.md#workflows``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.deploy.chart import ask
from tests.deploy.tools import ROOT, run, tool

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / ".github" / "workflows"

NAMES = ["ci.yml", "release.yml"]

PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")

WRITES = {
    "image": {"packages", "id-token"},
    "chart": {"packages", "id-token"},
    "pypi": {"id-token"},
    "page": {"contents", "id-token"},
}
"""What a job may do beyond reading the sources; no other job may do anything."""


def read(name: str) -> dict[str, Any]:
    (document,) = ask("parse", text=(FOLDER / name).read_text())
    workflow: dict[str, Any] = document
    return workflow


def audit(path: Path) -> tuple[int, str]:
    ended = run([tool("zizmor"), "--offline", "--pedantic", "--strict-collection", path])
    return ended.returncode, ended.stdout


def test_there_are_no_others() -> None:
    """Each is checked below."""
    assert sorted(path.name for path in FOLDER.iterdir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_fits_the_schema(name: str, tmp_path: Path) -> None:
    """That of GitHub; and the check does find a misspelt key."""
    check = [tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows"]
    ended = run([*check, FOLDER / name])
    assert ended.returncode == 0, ended.stdout
    misspelt = tmp_path / name
    misspelt.write_text((FOLDER / name).read_text().replace("runs-on:", "run-on:"))
    assert run([*check, misspelt]).returncode == 1


def test_the_audit_finds_nothing(tmp_path: Path) -> None:
    """zizmor, pedantic; it does find an action that is not pinned, and credentials that stay."""
    status, output = audit(ROOT / ".github")
    assert status == 0, output
    worse = tmp_path / ".github" / "workflows" / "ci.yml"
    worse.parent.mkdir(parents=True)
    text = re.sub(r"(checkout@)[0-9a-f]+", r"\1v6", (FOLDER / "ci.yml").read_text())
    worse.write_text(text.replace("persist-credentials: false", "fetch-depth: 1"))
    status, output = audit(worse)
    assert status != 0
    assert "unpinned-uses" in output
    assert "artipacked" in output


@pytest.mark.parametrize("name", NAMES)
def test_every_action_is_pinned_with_its_version(name: str) -> None:
    """By a commit, and the same one everywhere; a comment says which version that is."""
    lines = [line.strip().removeprefix("- ") for line in (FOLDER / name).read_text().splitlines()]
    used = [line for line in lines if line.startswith("uses: ")]
    assert used
    for line in used:
        assert line == "uses: ./.github/workflows/ci.yml" or PINNED.fullmatch(line), line
    actions = {line.partition("@")[0] for line in used}
    assert len(actions) == len(set(used))


@pytest.mark.parametrize("name", NAMES)
def test_a_job_may_do_no_more_than_it_needs(name: str) -> None:
    """Nothing by default; a job has a limit of time, or is one of the other workflow's."""
    workflow = read(name)
    assert workflow["permissions"] == {}
    for key, job in workflow["jobs"].items():
        permissions = job["permissions"]
        writes = {scope for scope, right in permissions.items() if right == "write"}
        assert writes == WRITES.get(key, set()), key
        assert {scope for scope in permissions if scope not in writes} <= {"contents"}, key
        assert "uses" in job or job["timeout-minutes"] <= 60, key


@pytest.mark.parametrize("name", NAMES)
def test_what_was_not_run_says_so(name: str) -> None:
    """At its very beginning."""
    assert (FOLDER / name).read_text().startswith("# NOT YET RUN")


def test_what_is_tested_is_what_a_release_needs() -> None:
    """Every job that gives something away waits for checks and tests, PyPI for all others."""
    jobs = read("release.yml")["jobs"]
    for key in ("packages", "image", "chart"):
        assert {"check", "test"} <= set(jobs[key]["needs"])
    assert {"packages", "image", "chart"} <= set(jobs["pypi"]["needs"])
    assert "pypi" in jobs["page"]["needs"]
    assert jobs["test"]["uses"] == "./.github/workflows/ci.yml"
    assert "workflow_call" in (FOLDER / "ci.yml").read_text()


def test_a_download_names_what_it_takes() -> None:
    """And takes all that was kept of others' work; the image's build keeps no record besides.

    That record is no archive: a download of everything in the run fails on it.
    """
    jobs = read("release.yml")["jobs"]
    steps = [step for job in jobs.values() for step in job.get("steps", ())]
    kept = {step["with"]["name"] for step in steps if "upload-artifact" in step.get("uses", "")}
    downloads = [step["with"] for step in steps if "download-artifact" in step.get("uses", "")]
    taken = [re.findall(r"\w+", given.get("name", given.get("pattern", ""))) for given in downloads]
    assert taken == [["dist"], ["dist", "sbom", "chart"]]
    assert kept == {"dist", "sbom", "chart"}
    builds = [step for step in steps if "build-push-action" in step.get("uses", "")]
    assert [step["env"]["DOCKER_BUILD_RECORD_UPLOAD"] for step in builds] == ["false"]


def test_the_list_of_packages_has_no_pip() -> None:
    """It is that of an environment without one."""
    steps = read("release.yml")["jobs"]["packages"]["steps"]
    runs = "\n".join(step.get("run", "") for step in steps)
    (listed,) = re.findall(r"cyclonedx-py environment [^|]* (\.\w+)/bin/python", runs)
    assert f"python -m venv --without-pip {listed} " in runs


def test_the_supported_versions_of_python_are_tested() -> None:
    """All that the wheel names."""
    named = re.findall(
        r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text()
    )
    assert read("ci.yml")["jobs"]["check"]["strategy"]["matrix"]["python"] == named


def test_arguments_of_the_image_are_ones_that_it_has() -> None:
    """An unknown one would be ignored, and the image be of no version."""
    (build,) = [
        step["with"]
        for step in read("release.yml")["jobs"]["image"]["steps"]
        if "build-push-action" in step.get("uses", "")
    ]
    known = re.findall(r"^ARG (\w+)", (ROOT / build["file"]).read_text(), re.MULTILINE)
    given = {line.partition("=")[0] for line in build["build-args"].splitlines()}
    assert given
    assert given <= set(known)
    assert build["platforms"] == "linux/amd64,linux/arm64"
    assert build["sbom"] is True
    assert build["provenance"] == "mode=max"


@pytest.mark.parametrize("name", NAMES)
def test_files_and_targets_that_steps_name_exist(name: str) -> None:
    """Those of this project: programs, locks, folders, targets of make."""
    targets = set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    seen = 0
    for job in read(name)["jobs"].values():
        for step in job.get("steps", ()):
            for line in step.get("run", "").splitlines():
                words = line.split()
                for word in words:
                    if word.startswith((".github/", ".ci/", "locks/", "deploy/")):
                        assert (ROOT / word).exists(), word
                        seen += 1
                if words[:1] == ["make"]:
                    assert words[1] in targets
                    seen += 1
    assert seen >= 2
