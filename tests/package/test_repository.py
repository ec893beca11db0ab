"""The files for GitHub: workflows that run what developers run, forms that ask for what a report needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tools import release

import sandrl
from tests.support.packages import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
GITHUB = ROOT / ".github"
pytestmark = pytest.mark.skipif(not GITHUB.is_dir(), reason="the sdist has no .github")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


WORKFLOWS = sorted(GITHUB.glob("workflows/*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_reads_only_has_limits_and_pins_its_actions(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 120
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            # A tag can be moved; for a release, that would change what is published.
            pin = r"[0-9a-f]{40}" if path.name == "release.yml" else r"v\d+"
            assert "uses" not in step or re.fullmatch(rf"(actions|pypa)/[\w-]+@{pin}", step["uses"])
            assert "${{" not in step.get("run", "")  # the shell would run what it stands for
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_ci_runs_what_developers_run() -> None:
    jobs = read(GITHUB / "workflows" / "ci.yml")["jobs"]
    assert jobs["test"]["steps"][-1]["run"] == ".ci/run"
    assert "tests/package" in jobs["install"]["steps"][-1]["run"]


def test_only_the_job_that_publishes_may_have_an_identity() -> None:
    jobs = read(GITHUB / "workflows" / "release.yml")["jobs"]
    assert "make release" in [step.get("run") for step in jobs["build"]["steps"]]
    assert "permissions" not in jobs["build"]
    assert jobs["publish"]["permissions"]["id-token"] == "write"
    assert jobs["publish"]["environment"]["name"] == "pypi"
    assert jobs["publish"]["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")


@pytest.mark.parametrize("name", ["bug", "reward", "feature"])
def test_a_form_has_fields_with_labels(name: str) -> None:
    form = read(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert {"name", "description", "labels", "body"} == set(form)
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields)
    assert all(each["type"] in {"textarea", "dropdown"} and each["attributes"]["label"] for each in fields)


def test_bugs_come_with_versions_and_the_machine() -> None:
    labels = [each["attributes"].get("label") for each in read(GITHUB / "ISSUE_TEMPLATE" / "bug.yml")["body"]]
    assert "Output of `sandrl --version`" in labels
    assert "Output of `sandrl doctor --json`" in labels


def test_the_citation_names_the_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    release.check_citation(text, sandrl.__version__)
    with pytest.raises(release.ReleaseError, match=r"^CITATION\.cff has version .*; write `version: 9\.9`$"):
        release.check_citation(text, "9.9")
    assert {"cff-version", "message", "title", "authors"} <= set(read(ROOT / "CITATION.cff"))
