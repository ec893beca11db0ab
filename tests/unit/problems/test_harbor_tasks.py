"""Task directories of Harbor become tasks: what runs where, for how long, as whom, and what is refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.support.task_directories import write_task

from sandrl.errors import InputError
from sandrl.problems.tasks.content import TaskContent
from sandrl.problems.tasks.harbor import read_harbor_task, without_canary
from sandrl.problems.tasks.task import Artifact, Collect, Reach, RewardStrategy, VerifierMode
from sandrl.settings import NetworkMode
from sandrl.trials.artifacts import files_of

SEPARATE = 'docker_image = "debian:13"\n[verifier]\nenvironment_mode = "separate"\n'
STEPS = """
artifacts = ["/app/all"]
multi_step_reward_strategy = "final"
[environment]
docker_image = "debian:13"
[agent]
timeout_sec = 100
user = "agent"
network_mode = "no-network"
[verifier]
timeout_sec = 50
user = 1000
env = { A = "task", B = "task" }
[[verifier.collect]]
command = "one"
[[steps]]
name = "first"
min_reward = 0.5
artifacts = [{ source = "/app/first", destination = "f", exclude = ["*.o"] }]
[steps.agent]
timeout_sec = 5
[steps.verifier]
env = { B = "step" }
[[steps.verifier.collect]]
command = "two"
user = "root"
[[steps]]
name = "second"
min_reward = { speed = 2 }
[steps.agent]
user = "other"
network_mode = "allowlist"
allowed_hosts = ["PyPI.org."]
[steps.verifier]
environment_mode = "separate"
[steps.healthcheck]
command = "true"
retries = 7
"""
STEP_FILES = {
    "task.toml": STEPS,
    "instruction.md": None,
    "steps/first/instruction.md": "First.",
    "steps/first/tests/extra.txt": "1",
    "steps/first/workdir/setup.sh": "true\n",
    "steps/first/solution/solve.sh": "one\n",
    "steps/second/instruction.md": "Second.",
    "steps/second/tests/test.sh": "#!/bin/sh\n",
}


def environment(table: str, **files: str | None) -> dict[str, str | None]:
    return {"task.toml": f"[environment]\n{table}", **files}


def test_the_least_task_is_read(tmp_path: Path) -> None:
    task = read_harbor_task(write_task(tmp_path / "hello"))
    (step,) = task.steps
    assert (task.name, task.format, task.directory) == ("hello", "harbor 1.4", str(tmp_path / "hello"))
    assert (step.instruction, step.name) == ("Do it.\n", "")
    assert step.verifier.directories == (str(tmp_path / "hello/tests"),)
    assert (step.verifier.mode, step.verifier.phase.timeout_seconds) == (VerifierMode.SHARED, 600.0)
    assert step.solution is not None
    assert step.solution.directory == str(tmp_path / "hello/solution")
    assert (step.agent.timeout_seconds, step.agent.user) == (None, None)
    assert (task.environment.image, task.environment.network) == ("debian:13", Reach())
    assert task.ignored == ()


def test_limits_variables_and_names_are_read(tmp_path: Path) -> None:
    text = """
version = "1.0"
[task]
name = "org/name"
[metadata]
difficulty = "easy"
day = 2026-01-01
sandrl = { end_processes = true }
[agent]
timeout_sec = 1.5
user = 1000
[verifier]
timeout_sec = inf
network_mode = "no-network"
env = { KEY = "${KEY:-x}" }
[environment]
memory = "2G"
cpus = 1.5
storage_mb = 10
gpus = 1
allow_internet = false
workdir = "/srv"
env = { A = "b" }
healthcheck = { command = "true", retries = 0, start_period_sec = 3 }
mcp_servers = [{ name = "a", url = "http://a" }]
skills_dir = "/skills"
misspelt = 1
[solution]
env = { S = "1" }
"""
    files = {"task.toml": text, "environment/Dockerfile": "FROM debian:13\n"}
    task = read_harbor_task(write_task(tmp_path / "t", files))
    (step,) = task.steps
    found = task.environment
    assert (task.name, task.format) == ("org/name", "harbor 1.0")
    assert (found.memory_bytes, found.processors, found.storage_bytes, found.gpus) == (2 << 30, 1.5, 10 << 20, 1)
    assert (found.network.mode, found.directory, found.variables) == (NetworkMode.NONE, "/srv", (("A", "b"),))
    assert found.image == f"dockerfile:{tmp_path}/t/environment"
    assert found.healthcheck is not None
    assert (found.healthcheck.retries, found.healthcheck.start_period_seconds) == (1, 3.0)
    assert (step.agent.user, step.agent.timeout_seconds) == ("1000", 1.5)
    assert step.verifier.phase.timeout_seconds is None
    assert step.verifier.phase.variables == (("KEY", "${KEY:-x}"),)
    assert step.verifier.phase.network == Reach(NetworkMode.NONE)
    assert step.verifier.ends_processes
    assert step.solution is not None
    assert step.solution.variables == (("S", "1"),)
    assert task.metadata["day"] == "2026-01-01"
    assert task.ignored == ("environment.misspelt", "environment.mcp_servers", "environment.skills_dir")


def test_steps_inherit_what_they_do_not_say(tmp_path: Path) -> None:
    place = write_task(tmp_path / "t", STEP_FILES)
    task = read_harbor_task(place)
    first, second = task.steps
    assert task.strategy is RewardStrategy.FINAL
    assert [step.instruction for step in task.steps] == ["First.", "Second."]
    assert (first.agent.timeout_seconds, first.agent.user, first.agent.network) == (5, "agent", Reach(NetworkMode.NONE))
    assert (second.agent.timeout_seconds, second.agent.user) == (100, "other")
    assert second.agent.network == Reach(NetworkMode.ALLOWLIST, ("pypi.org",))
    # As Harbor has it: a step without a time limit of its verifier has the usual one, and not that of the task.
    assert (first.verifier.phase.timeout_seconds, first.verifier.phase.user) == (600.0, "1000")
    assert dict(first.verifier.phase.variables) == {"A": "task", "B": "step"}
    assert first.verifier.collect == (Collect("one"), Collect("two", user="root"))
    assert first.verifier.directories == (f"{place}/tests", f"{place}/steps/first/tests")
    assert (first.verifier.mode, second.verifier.mode) == (VerifierMode.SHARED, VerifierMode.SEPARATE)
    assert second.verifier.environment is None
    assert first.artifacts == (Artifact("/app/all"), Artifact("/app/first", "f", ("*.o",)))
    assert (first.min_reward, second.min_reward) == ((("reward", 0.5),), (("speed", 2.0),))
    assert (first.workdir, second.workdir) == (f"{place}/steps/first/workdir", "")
    assert first.solution is not None
    assert second.solution is not None
    assert (first.solution.directory, second.solution.directory) == (
        f"{place}/steps/first/solution",
        f"{place}/solution",
    )
    assert second.healthcheck is not None


@pytest.mark.parametrize(
    ("files", "image", "has_tests"),
    [
        (environment(SEPARATE), None, False),
        (environment(SEPARATE + '[verifier.environment]\ndocker_image = "alpine:3"\n'), "alpine:3", True),
        (environment(SEPARATE, **{"tests/Dockerfile": "FROM alpine:3\n"}), "dockerfile:{}/tests", True),
        (environment(SEPARATE + "[verifier.environment]\nmemory_mb = 1\n"), "debian:13", False),
        (
            environment(
                SEPARATE + "[verifier.environment]\nmemory_mb = 1\n",
                **{"tests/Dockerfile": "FROM alpine:3\n", "tests/test.sh": None},
            ),
            "dockerfile:{}/tests",
            True,
        ),
    ],
    ids=["fresh", "named", "built", "of the task", "built with limits"],
)
def test_a_separate_verifier_has_the_nearest_image(
    tmp_path: Path, files: dict[str, str | None], image: str | None, has_tests: bool
) -> None:
    place = write_task(tmp_path / "t", files)
    verifier = read_harbor_task(place).steps[0].verifier
    assert verifier.mode is VerifierMode.SEPARATE
    assert verifier.has_tests is has_tests
    assert verifier.directories == (() if has_tests else (f"{place}/tests",))
    if image is None:
        assert verifier.environment is None
    else:
        assert verifier.environment is not None
        assert verifier.environment.image == image.format(place)


def test_files_beside_an_image_that_is_named_are_those_of_the_working_directory(tmp_path: Path) -> None:
    place = write_task(tmp_path / "a", {"environment/data.csv": "1\n"})
    assert read_harbor_task(place).environment.files == f"{place}/environment"
    built = write_task(tmp_path / "b", {"environment/data.csv": "1\n", "environment/Dockerfile": "FROM debian:13\n"})
    assert read_harbor_task(built).environment.files == ""


COMPOSE = """
services:
  main:
    build:
      context: ${CONTEXT_DIR}
    image: ${MAIN_IMAGE_NAME}
    command: ["sh", "-c", "sleep infinity"]
    user: agent
    working_dir: /srv
    environment:
      - TEST_DIR=${TEST_DIR}
      - LEVEL=${LEVEL:-3}
    volumes:
      - ${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}
    ports: ["80:80"]
    deploy: {resources: {limits: {cpus: "2", memory: 1G}}}
"""


def test_one_service_of_a_compose_file_is_the_machine(tmp_path: Path) -> None:
    files = {
        "task.toml": "[environment]\nenv = { OTHER = '1' }\n",
        "environment/docker-compose.yaml": COMPOSE,
        "environment/Dockerfile": "FROM debian:13\n",
    }
    task = read_harbor_task(write_task(tmp_path / "t", files))
    found = task.environment
    assert found.image == f"dockerfile:{tmp_path}/t/environment/Dockerfile"
    assert dict(found.variables) == {"TEST_DIR": "/tests", "LEVEL": "3", "OTHER": "1"}
    assert (found.directory, found.memory_bytes, found.processors) == ("/srv", 1 << 30, 2.0)
    assert (task.steps[0].agent.user, task.steps[0].verifier.phase.user) == ("agent", "agent")
    assert task.ignored == ("docker-compose.yaml: ports",)


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        ("db: {image: postgres}", "has the service 'db' beside 'main'"),
        ("main: {image: a}\n  db: {image: b}", "has several services (main, db)"),
        ("main: {build: ., privileged: true}", "field 'services.main.privileged': is not supported"),
        ("main: {build: ., command: /usr/sbin/sshd}", "field 'services.main.command': is not supported"),
        ("main: {build: ., volumes: ['/etc:/host']}", "field 'services.main.volumes': is not supported"),
        ("main: {build: {context: ../..}}", "leads out of the task directory"),
        ("main: {build: {context: ., args: {A: b}}}", "field 'services.main.build.args': is not supported"),
        ("main: {build: ., environment: ['A=${HOME}']}", "the variable HOME is not set"),
        ("main: {image: 'rootfs:/'}", "names something of this machine"),
    ],
)
def test_a_compose_file_that_needs_more_than_a_sandbox_is_refused(
    tmp_path: Path, service: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/root")
    files = {
        "task.toml": "",
        "environment/docker-compose.yaml": f"services:\n  {service}\n",
        "environment/Dockerfile": "FROM debian:13\n",
    }
    with pytest.raises(InputError) as caught:
        read_harbor_task(write_task(tmp_path / "t", files))
    assert reason in caught.value.message
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (environment('os = "windows"\n'), "{}/task.toml: field 'environment.os': is windows, and sandboxes run Linux"),
        (
            environment('docker_image = "a"\ntpu = { type = "v6e", topology = "2x4" }\n'),
            "{}/task.toml: field 'environment.tpu': sandboxes have no TPU",
        ),
        (environment('cpus = "x"\n'), "{}/task.toml:2: field 'environment.cpus': must be a whole number, not 'x'"),
        (
            environment("cpus = -1\ndocker_image = 'a'"),
            "{}/task.toml: field 'environment.cpus': must be a number above 0",
        ),
        (
            environment("memory_mb = 0\ndocker_image = 'a'"),
            "{}/task.toml: field 'environment.memory_mb': must be a number",
        ),
        ({"task.toml": "a = "}, "{}/task.toml:1: is not TOML: Invalid value"),
        ({"task.toml": "\n\n[agent]\nuser = []"}, "{}/task.toml:4: field 'agent.user': must be a string, not an array"),
        ({"task.toml": "a = " + "[" * 5000}, "{}/task.toml: is not TOML that can be read: it is nested too deep"),
        ({"task.toml": "\na" + " . a" * 60_000}, "{}/task.toml:2: is not TOML that can be read: it is nested too deep"),
        ({"task.toml": "#" * 300_000}, "{}/task.toml: cannot be read: is larger than 262144 bytes"),
        ({"instruction.md": None}, "{}/instruction.md: is missing"),
        ({"tests/test.sh": None}, "{}/tests/test.sh: is missing: a task needs a program that decides the reward"),
        ({"tests/.harborignore": "*.sh\n"}, "{}/tests/test.sh: is left out by .harborignore"),
        ({"task.toml": ""}, "{}/environment/Dockerfile: is missing"),
        (
            environment('docker_image = "host:3.11"'),
            "field 'environment.docker_image': names something of this machine",
        ),
        (environment('docker_image = "dockerfile:/root"'), "names something of this machine ('dockerfile:/root')"),
        (environment('docker_image = "a b"'), "field 'environment.docker_image': must be the name of an image"),
        (
            environment('docker_image = "a"\n[[verifier.collect]]\ncommand = "x"\nservice = "db"'),
            "field 'verifier.collect[0].service': is 'db', and a task has one sandbox",
        ),
        (
            {"task.toml": 'artifacts = [{ source = "/x", service = "db" }]\n[environment]\ndocker_image = "a"'},
            "field 'artifacts[0].service': is 'db', and a task has one sandbox",
        ),
        (
            environment('docker_image = "a"\n[agent]\ntimeout_sec = nan'),
            "field 'agent.timeout_sec': must be a number of",
        ),
        (environment('docker_image = "a"\n[agent]\nuser = "a b"'), "field 'agent.user': must be the name or number"),
        (
            environment('docker_image = "a"\n[metadata.sandrl]\nend_processes = 1'),
            "field 'metadata.sandrl.end_processes': must be true or false",
        ),
        ({**STEP_FILES, "steps/second/instruction.md": None}, "{}/steps/second/instruction.md: is missing"),
        (
            {**STEP_FILES, "steps/first/instruction.md": None, "steps/first/tests/extra.txt": None}
            | {"steps/first/workdir/setup.sh": None, "steps/first/solution/solve.sh": None},
            "{}/steps/first: is missing",
        ),
    ],
)
def test_what_is_wrong_or_cannot_be_run_is_named_by_file_and_field(
    tmp_path: Path, files: dict[str, str | None], message: str
) -> None:
    place = write_task(tmp_path / "t", files)
    with pytest.raises(InputError) as caught:
        read_harbor_task(place)
    assert message.format(place) in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<!-- canary GUID 1 -->\n# CANARY\n\n \nDo it.\n", "Do it.\n"),
        ("Do it.\n# canary\n", "Do it.\n# canary\n"),
        ("\n\nDo it.", "Do it."),
        ("# Title\nDo it.", "# Title\nDo it."),
        ("", ""),
    ],
)
def test_canaries_at_the_beginning_are_no_part_of_an_instruction(text: str, shown: str) -> None:
    assert without_canary(text) == shown


def test_line_ends_of_an_instruction_are_line_feeds(tmp_path: Path) -> None:
    place = write_task(tmp_path / "t")
    (place / "instruction.md").write_bytes(b"a\r\nb\rc")
    assert read_harbor_task(place).steps[0].instruction == "a\nb\nc"
    (place / "instruction.md").write_bytes(b"a\n\xff")
    with pytest.raises(InputError, match=r"instruction\.md:2: invalid UTF-8"):
        read_harbor_task(place)


# What strangers put into a directory


@pytest.mark.parametrize("name", ["instruction.md", "task.toml", "tests", "environment", "solution", "tests/data"])
def test_a_link_out_of_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    secret = write_task(tmp_path / "other", {"environment/x": "1"})
    place = write_task(tmp_path / "t", {name: None})
    if (place / name).is_dir():
        (place / name).rename(tmp_path / "moved")
    (place / name).symlink_to(secret / name.partition("/")[0])
    with pytest.raises(InputError, match="leads out of the task directory"):
        read_harbor_task(place)


def test_links_are_copied_as_links_and_lead_nowhere_else(tmp_path: Path) -> None:
    place = write_task(tmp_path / "t", {"tests/data/a.txt": "1"})
    (place / "tests/b").symlink_to("data/a.txt")
    (place / "README").symlink_to("/etc/passwd")
    task = read_harbor_task(place)
    found = files_of(task, task.steps[0].verifier.directories, [("run.sh", b"#!/bin/sh\n")])
    assert {each.name: (oct(each.mode), each.is_directory, each.target) for each in found} == {
        "b": ("0o777", False, "data/a.txt"),
        "data": ("0o755", True, None),
        "data/a.txt": ("0o644", False, None),
        "test.sh": ("0o755", False, None),
        "run.sh": ("0o755", False, None),
    }


def test_devices_pipes_and_endless_links_are_refused(tmp_path: Path) -> None:
    place = write_task(tmp_path / "t")
    os.mkfifo(place / "tests/pipe")
    with pytest.raises(InputError, match="is neither a file, a directory nor a link"):
        read_harbor_task(place)
    (place / "tests/pipe").unlink()
    (place / "instruction.md").unlink()
    (place / "instruction.md").symlink_to("instruction.md")
    with pytest.raises(InputError, match=r"instruction\.md"):
        read_harbor_task(place)
    (place / "instruction.md").unlink()
    os.mkfifo(place / "instruction.md")
    with pytest.raises(InputError, match="is not a regular file"):
        read_harbor_task(place)


def test_a_directory_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = write_task(tmp_path / "t")
    monkeypatch.setattr("sandrl.problems.tasks.content.MOST_ENTRIES", 7)
    read_harbor_task(place)
    for number in range(3):
        (place / f"tests/{number}").touch()
    with pytest.raises(InputError, match="has more than 7 files"):
        read_harbor_task(place)
    with (place / "tests/0").open("wb") as file:
        file.truncate(1 << 40)
    monkeypatch.undo()
    with pytest.raises(InputError, match="has more than 100000 files or 8 GiB"):
        read_harbor_task(place)


def test_rules_of_harborignore_leave_files_out(tmp_path: Path) -> None:
    files = {
        "tests/.harborignore": "*.log\n!keep.log\n/only-top\n",
        "tests/a.log": "1",
        "tests/keep.log": "1",
        "tests/only-top": "1",
        "tests/sub/only-top": "1",
        "tests/sub/.harborignore": "x*\n",
        "tests/sub/xyz": "1",
        "environment/a.log": "1",
        "environment/.harborignore": "*\n",
    }
    place = write_task(tmp_path / "t", files)
    content = TaskContent(place)
    assert [each.name for each in content.entries("tests")] == [
        *("keep.log", "sub", "test.sh", "sub/only-top"),
    ]
    assert [each.name for each in content.entries("environment")] == ["a.log"]


def test_the_digest_stands_for_names_contents_and_whether_files_can_be_run(tmp_path: Path) -> None:
    place = write_task(tmp_path / "a", {"environment/x": "1"})
    digests = [read_harbor_task(place).digest]
    copy = write_task(tmp_path / "b", {"environment/x": "1"})
    (copy / ".git").mkdir()
    (copy / ".git/config").write_text("x")
    (copy / "environment/x").chmod(0o600)
    assert read_harbor_task(copy).digest == digests[0]
    for change in (
        lambda: (place / "environment/x").chmod(0o755),
        lambda: (place / "environment/x").write_text("2"),
        lambda: (place / "environment/x").rename(place / "environment/y"),
        lambda: (place / "tests/link").symlink_to("test.sh"),
        lambda: (place / "empty").mkdir(),
        lambda: (place / "instruction.md").write_text("Do it!"),
    ):
        change()
        digests.append(read_harbor_task(place).digest)
    assert len(set(digests)) == len(digests)


def test_directories_within_one_another_have_a_limit(tmp_path: Path) -> None:
    task = write_task(tmp_path / "t", {})
    path = task / "tests"
    for _ in range(1200):
        path = path / "d"
        os.mkdir(path)
    try:
        with pytest.raises(InputError, match="has more than 64 directories within one another"):
            read_harbor_task(task)
    finally:
        # Too deep for Python 3.11's shutil, with which pytest removes directories of earlier sessions.
        subprocess.run(["rm", "-r", task / "tests"], check=True)
