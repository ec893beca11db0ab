"""Harbor runs a task with an image in sandboxes of `sandrl runtime serve`, through its own environment `cwsandbox`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.image_trees import copy_program, make_busybox_tree
from tests.support.programs import require_program

pytestmark = pytest.mark.slow

HARBOR = os.environ.get("SANDRL_TEST_HARBOR", "")
TASK = """
version = "1.0"
[environment]
docker_image = "harbor-task:1"
cpus = 1
memory_mb = 256
[verifier]
timeout_sec = 120.0
"""
SOLVE = "#!/bin/bash\ncd /app; id -u > answer; chmod 640 answer\n"
TEST = """#!/bin/bash
cd /app
[ "$(cat answer 2>/dev/null) $(stat -c %a answer)" = "0 640" ] && reward=1 || reward=0
echo $reward > /logs/verifier/reward.txt
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    places = {"SANDRL_STATE_DIR": "state", "SANDRL_CACHE_DIR": "cache", "HOME": "home"}
    return {"PATH": os.environ["PATH"], **{name: str(tmp_path / place) for name, place in places.items()}}


@pytest.fixture
def served(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The variables of a foreground daemon."""
    command = [sys.executable, "-m", "sandrl", "runtime", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as daemon:
        assert daemon.stdout is not None
        exported = [re.fullmatch(r"export (\w+)=(\S+)\n", daemon.stdout.readline()) for _ in range(2)]
        yield {each[1]: each[2] for each in exported if each}
        daemon.terminate()


@pytest.fixture
def task(tmp_path: Path, environment: dict[str, str]) -> Path:
    """A task whose image has the programs that Harbor needs, from this machine."""
    root = tmp_path / "root"
    root.mkdir()
    make_busybox_tree(root)
    for name in ("bash", "tar", "gzip", "stat", "mkdir"):
        copy_program(Path(require_program(name)), root)
    (root / "app").mkdir()
    with tarfile.open(tmp_path / "root.tar", "w") as archive:
        archive.add(root, ".")
    importing = [sys.executable, "-m", "sandrl", "images", "import", f"rootfs:{tmp_path}/root.tar", "harbor-task:1"]
    subprocess.run(importing, check=True, env=environment)
    files = {
        "task.toml": TASK,
        "instruction.md": "Write your user id.",
        "solution/solve.sh": SOLVE,
        "tests/test.sh": TEST,
    }
    for name, text in files.items():
        path = tmp_path / "task" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "task/environment").mkdir()
    return tmp_path / "task"


@pytest.mark.skipif(not HARBOR, reason="SANDRL_TEST_HARBOR names no harbor (0.25 with cwsandbox, on Python 3.12)")
@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_the_oracle_is_rewarded_and_an_agent_that_does_nothing_is_not(
    task: Path, environment: dict[str, str], served: dict[str, str], agent: str, reward: float
) -> None:
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DO_NOT_TRACK": "1"}
    command = [HARBOR, "run", "-p", str(task), "-a", agent, "--env", "cwsandbox", "-o", str(task.parent / "jobs")]
    subprocess.run([*command, "--job-name", "job"], check=True, env=environment | served | offline, timeout=300)
    (result,) = (task.parent / "jobs/job").glob("*/result.json")
    trial = json.loads(result.read_text(encoding="utf-8"))
    assert trial["exception_info"] is None
    assert trial["verifier_result"]["rewards"] == {"reward": reward}
