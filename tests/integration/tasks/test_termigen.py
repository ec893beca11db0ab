"""Published tasks in Harbor's format: TermiGen's, with solutions of ours; they are not part of this repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cwsandbox import AuthHeaders, SandboxDefaults, Session

from sandrl.problems import load_problems
from sandrl.runtime import daemon
from sandrl.settings import load_settings
from tests.support.programs import require_program

_SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "harbor" / "termigen"
DATA = Path(os.environ.get("SANDRL_TEST_TERMIGEN") or _SHARED).resolve()
NAMES = sorted(path.name for path in DATA.iterdir()) if DATA.is_dir() else []
SOLUTIONS = {path.stem: path.read_text() for path in (Path(__file__).parents[2] / "support" / "termigen").glob("*.sh")}
# The base of all of them, for which a Debian of the same kind stands in.
BASE = "ghcr.io/laude-institute/t-bench/ubuntu-24-04:20250624"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
pytestmark = pytest.mark.skipif(not NAMES, reason="SANDRL_TEST_TERMIGEN names no directory of TermiGen's tasks")


@pytest.fixture
def session() -> Iterator[Session]:
    endpoint = daemon.ensure_running(load_settings().state_dir)
    auth = AuthHeaders(headers={"Authorization": f"Bearer {endpoint.token}"}, strategy="api_key")
    defaults = SandboxDefaults(base_url=endpoint.base_url, auth=auth, data_plane_mode="gateway")
    session = Session(defaults, report_to=[])
    yield session
    session.close().result()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Stores a small Debian under the name of the base; skips where no mirror can be reached."""
    place = tmp_path_factory.mktemp("base")
    options = ["--variant=minbase", "--include=python3,ca-certificates", "--quiet"]
    if CERTIFICATES.exists():  # A mirror may have a certificate of this machine's own authority.
        options.append(f"--customize-hook=copy-in {CERTIFICATES} {CERTIFICATES.parent}")
    command = [require_program("mmdebstrap"), *options, "bookworm", str(place / "base.tar")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"mmdebstrap made no image: {made.stderr[-200:]}")
    _sandrl("images", "import", f"rootfs:{place}/base.tar", BASE)
    (place / "base.tar").unlink()


@pytest.fixture(scope="module")
def results(base: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What nothing earns in each task, and what the solutions earn."""
    rows = [{"id": f"{name}#nothing", "task_id": name, "completion": "#!/bin/sh\n"} for name in NAMES]
    rows += [{"id": name, "task_id": name, "completion": SOLUTIONS[name]} for name in NAMES if name in SOLUTIONS]
    path = tmp_path_factory.mktemp("completions") / "completions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = _sandrl("reward", str(path), "--problems", str(DATA))
    return {result["id"]: result for result in document["results"]}


def test_instructions_limits_and_images_are_those_of_the_files() -> None:
    problems = load_problems(str(DATA)).problems
    assert sorted(problems) == NAMES
    for name, problem in problems.items():
        config = tomllib.loads((DATA / name / "task.toml").read_text())
        asked = config["environment"]
        task = problem.task
        assert task is not None
        (step,) = task.steps
        assert step.instruction == problem.prompt == (DATA / name / "instruction.md").read_text()
        machine = task.environment
        assert machine.image == f"dockerfile:{DATA / name / 'environment'}"
        assert (machine.processors, machine.memory_bytes) == (asked["cpus"], asked["memory_mb"] << 20)
        assert (machine.storage_bytes, machine.build_timeout_seconds) == (asked["storage_mb"] << 20, 600)
        limits = step.agent.timeout_seconds, step.verifier.phase.timeout_seconds
        assert limits == (config["agent"]["timeout_sec"], config["verifier"]["timeout_sec"])
        assert (step.agent.user, step.verifier.phase.user, step.solution) == (None, None, None)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_earns_what_the_verifier_says_by_hand(results: dict[str, Any], session: Session, name: str) -> None:
    image = f"termigen/{name}:1"
    _sandrl("images", "build", str(DATA / name / "environment"), "--tag", image)
    sandbox = session.sandbox(container_image=image, security_context={"run_as_user": 0})
    sandbox.exec(["mkdir", "-p", "/logs/verifier", "/tests"]).result()
    for path in (DATA / name / "tests").iterdir():
        sandbox.write_file(f"/tests/{path.name}", path.read_bytes()).result()
    sandbox.exec(["bash", "/tests/test.sh"]).result()
    assert results[f"{name}#nothing"]["reward"] == float(sandbox.read_file("/logs/verifier/reward.txt").result())


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(SOLUTIONS))
def test_a_solution_earns_one(results: dict[str, Any], name: str) -> None:
    assert (results[name]["reward"], results[name]["status"]) == (1.0, "passed"), results[name]


def _sandrl(*words: str) -> Any:
    command = [sys.executable, "-m", "sandrl", *words, "--json"]
    # Images are built of the packages of this machine's index, and not of those of the tests.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout, done.stderr[-2000:]
    return json.loads(done.stdout)
