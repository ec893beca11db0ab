"""`sandrl doctor`: on machines that can do everything, and on those that lack something.

Most of its time goes into booting sandboxes and starting compilers. Tests of other checks share one real result of
each (`doctor`); tests of isolation, of signals and of whole processes start the command (`sandrl`, `SANDRL`).
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandrl.cli.app import main
from sandrl.doctor import examination, imports
from sandrl.doctor.imports import broken_packages
from sandrl.doctor.machine import gpu_check, languages_check
from sandrl.doctor.packages import extra_checks, vouched_packages
from sandrl.doctor.report import Check
from sandrl.doctor.services import hub_check, wandb_check
from sandrl.installation import again_command, install_command, package_command
from sandrl.runtime import daemon
from sandrl.runtime.selfcheck import SelfCheck, check_isolation
from sandrl.settings import can_be_private, load_settings
from sandrl.trainers.art.libraries import VERSION
from tests.cli.conftest import RIGHT, SANDRL, Run
from tests.support.terminal import run_on_terminal

PROPERTIES = {
    *("own namespaces", "no host files", "read-only system", "own /tmp and /workspace", "no other processes"),
    *("no network", "no privileges", "refused system calls", "no host environment"),
    *("memory limit", "process limit", "disk limit", "no survivors", "host uids"),
    *("limits of what is shared", "undisturbed sandboxes", "accounting", "own locks", "cells", "images", "network"),
}
UNNEEDED = (
    "__pycache__",
    "mypy*",
    "uv",
    "uv-*",
    "ruff*",
    "hypothesis",
    "cryptography",
    "pip",
    "setuptools",
)
NOWHERE = "http://127.0.0.1:1"

Doctor = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def isolation() -> SelfCheck:
    """How this machine isolates, tried once."""
    return check_isolation(examination.worker_trial())


@pytest.fixture(scope="module")
def languages() -> Check:
    """The languages of this machine, whose tools are started once."""
    return languages_check()


@pytest.fixture
def doctor(
    isolation: SelfCheck, languages: Check, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Runs `sandrl doctor` in this process, without trying the isolation or starting compilers again."""

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            patch.setattr(examination, "check_isolation", lambda _: isolation)
            patch.setattr(examination, "languages_check", lambda: languages)
            patch.setattr(examination, "broken_packages", lambda _: {})
            for name, value in environment.items():
                patch.setenv(name, value)
            code = main(["doctor", *words])
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(["sandrl", "doctor", *words], code, printed.out, printed.err)

    return run


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def states(found: dict[str, Any], section: str) -> dict[str, str]:
    return {check["name"]: check["state"] for check in found[section]}


def test_every_property_holds_here_and_nothing_is_left_behind(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    state = tmp_path / "state"
    done = sandrl("doctor", "--json", TMPDIR=str(tmp_path / "tmp"), SANDRL_STATE_DIR=str(state))
    assert done.returncode == 0, done.stderr
    found = document(done)
    assert (found["ok"], found["problem"]) == (True, None)
    isolation = states(found, "isolation")
    assert set(isolation) == PROPERTIES | {"sandbox"}
    assert set(isolation.values()) == {"ok"}, done.stdout
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not state.exists(), "neither a daemon nor its directory"


def test_the_screen_says_the_same_in_lines_and_needs_no_home(sandrl: Run, tmp_path: Path) -> None:
    done = sandrl("doctor", HOME="/nonexistent")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 66
    for name in PROPERTIES:
        assert any(line.startswith(f"  ok     {name} ") for line in lines), name
    assert lines[0].startswith("versions: sandrl ")
    assert any(install_command("grpo", directory=tmp_path) in line for line in lines)
    assert lines[-1] == "Completions can be scored here."


def test_no_cluster_is_joined_and_ray_is_not_loaded_for_another_runtime(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise SystemExit('ray was loaded')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = sandrl("doctor", "--json", PYTHONPATH=path, RAY_ADDRESS="127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    found = document(done)
    assert states(found, "runtime")["ray"] in ("skipped", "absent")
    assert "nodes" not in found


def test_a_cluster_that_does_not_answer_is_the_problem_where_it_is_asked_for(doctor: Doctor) -> None:
    pytest.importorskip("ray")
    done = doctor("--runtime", "ray:127.0.0.1:1", "--json")
    assert done.returncode == 1
    found = document(done)
    assert states(found, "runtime")["ray"] == "absent"
    assert "Ray cluster: runtime ray: no Ray cluster answers at" in found["problem"]["message"]


def test_lines_are_broken_where_the_terminal_ends() -> None:
    shown = run_on_terminal([*SANDRL, "doctor"], columns=40)
    assert shown.exit_code == 0
    # A word that is longer than a line stays whole.
    assert [line for line in shown.plain.splitlines() if len(line) > 40 and len(line.split()) > 1] == []


def test_keys_are_told_by_name_and_never_by_value(doctor: Doctor) -> None:
    secret = "s3cret-of-the-user"
    done = doctor("--json", CWSANDBOX_API_KEY=secret, WANDB_API_KEY=secret, HF_TOKEN=secret)
    found = document(done)
    assert secret not in done.stdout + done.stderr
    assert {"CWSANDBOX_API_KEY", "WANDB_API_KEY", "HF_TOKEN"} <= set(states(found, "services"))
    assert found["runtime"][0]["detail"] == "remote: CWSANDBOX_API_KEY is set"
    assert states(found, "services")["sandbox service"] == "skipped"


def test_a_state_directory_that_cannot_be_used_is_the_problem(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = doctor(SANDRL_STATE_DIR=str(tmp_path / "file"))
    assert done.returncode == 1
    assert f"completions cannot be scored here: state directory: {tmp_path / 'file'}" in done.stderr
    assert "hint: set SANDRL_STATE_DIR" in done.stderr
    assert can_be_private(tmp_path / "file" / "below") == "cannot be created"
    assert can_be_private(tmp_path / "new" / "below") is None


def test_where_no_way_of_isolating_works_that_is_the_problem(sandrl: Run) -> None:
    done = sandrl("doctor", "--json", SANDRL_RUNTIME_ISOLATION="none-of-them")
    assert done.returncode == 1
    assert document(done)["problem"]["hint"] == "unset SANDRL_RUNTIME_ISOLATION"
    assert "cannot isolate code" in done.stderr
    remote = sandrl("doctor", SANDRL_RUNTIME_ISOLATION="none-of-them", CWSANDBOX_API_KEY="a-key")
    assert remote.returncode == 0, "remotely this machine need not isolate"


def test_a_kernel_without_user_namespaces_is_the_problem_with_its_way_out(tmp_path: Path) -> None:
    without = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    trial = subprocess.run(["unshare", "-Ur", "sh", "-c", without, "sh", "true"], capture_output=True, check=False)
    if trial.returncode != 0:
        pytest.skip("no user namespace to take user namespaces away in")
    # A namespace of this user's alone: nothing changes for the machine.
    command = ["unshare", "-Ur", "sh", "-c", without, "sh", *SANDRL, "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 1
    assert "this machine cannot isolate code (native: " in done.stderr
    assert "hint: sudo sysctl user.max_user_namespaces" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_report_says_which_runtimes_work_here(sandrl: Run, doctor: Doctor) -> None:
    found = states(document(doctor("--json")), "runtime")
    assert (found["local"], found["daemonless"], found["remote"]) == ("ok", "ok", "absent")
    without = states(document(sandrl("doctor", "--json", SANDRL_RUNTIME_ISOLATION="none-of-them")), "runtime")
    assert (without["local"], without["daemonless"]) == ("absent", "absent")
    unusable = states(document(doctor("--json", CWSANDBOX_BASE_URL=NOWHERE)), "runtime")
    assert (unusable["choice"], unusable["local"], unusable["daemonless"]) == ("failed", "ok", "ok")


def test_the_runtime_that_is_asked_about_decides(sandrl: Run, doctor: Doctor) -> None:
    without_isolation = {"SANDRL_RUNTIME_ISOLATION": "none-of-them", "CWSANDBOX_API_KEY": "a-key"}
    assert sandrl("doctor", **without_isolation).returncode == 0
    done = sandrl("doctor", "--runtime", "daemonless", **without_isolation)
    assert done.returncode == 1
    assert "completions cannot be scored here: sandbox: this machine cannot isolate code" in done.stderr
    assert "needs credentials" in doctor("--runtime", "remote").stderr


def test_without_a_port_only_the_daemonless_runtime_works_and_it_does(
    problems: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not make a network without a loopback interface")
    monkeypatch.setenv("SANDRL_STATE_DIR", str(tmp_path / "state"))

    def cut_off(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["unshare", "-n", *SANDRL, *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)

    done = cut_off("doctor", "--json")
    assert done.returncode == 1
    found = states(document(done), "runtime")
    assert (found["local"], found["daemonless"], found["port on 127.0.0.1"]) == ("absent", "ok", "failed")
    assert "or use --runtime daemonless" in document(done)["problem"]["hint"]
    (tmp_path / "c.jsonl").write_text(RIGHT, encoding="utf-8")
    assert cut_off("reward", "c.jsonl", "--problems", problems.name, "--runtime", "daemonless").returncode == 0


@pytest.mark.parametrize("runtime", ["local", "daemonless"])
def test_a_limit_of_open_files_below_what_a_sandbox_promises_is_the_problem(tmp_path: Path, runtime: str) -> None:
    command = ["sh", "-c", 'ulimit -n 300; exec "$@"', "sh", *SANDRL]
    environment = {**os.environ, "SANDRL_STATE_DIR": str(tmp_path / "state")}
    # One `doctor` is enough: which runtime needs files is no question of the command.
    commands = ((["doctor"], 1), (["reward"], 3))
    for words, exit_code in commands if runtime == "local" else commands[1:]:
        done = subprocess.run(
            [*command, *words, "--runtime", runtime], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == exit_code, done.stderr
        assert "a sandbox gives each program 512 open files, and this process is limited to 300" in done.stderr


def test_an_address_without_credentials_is_the_problem(doctor: Doctor) -> None:
    done = doctor(CWSANDBOX_BASE_URL=NOWHERE)
    assert done.returncode == 1
    assert "CWSANDBOX_BASE_URL is set, but no credentials are" in done.stderr


def test_online_the_services_are_asked(doctor: Doctor) -> None:
    endpoint = daemon.ensure_running(load_settings().state_dir)
    service = {"CWSANDBOX_BASE_URL": endpoint.base_url, "CWSANDBOX_API_KEY": endpoint.token, "HF_ENDPOINT": NOWHERE}
    done = doctor("--online", "--json", **service)
    assert done.returncode == 0, "the hub is not needed to score completions"
    found = states(document(done), "services")
    assert (found["sandbox service"], found["dataset hub"]) == ("ok", "failed")
    assert endpoint.token not in done.stdout
    for wrong in ({"CWSANDBOX_API_KEY": "wrong-key"}, {"CWSANDBOX_BASE_URL": NOWHERE}):
        refused = doctor("--online", **(service | wrong))
        assert refused.returncode == 1
        assert "completions cannot be scored here: sandbox service: " in refused.stderr
        assert "hint: " in refused.stderr
        assert "wrong-key" not in refused.stdout + refused.stderr


class Hub(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_hub_and_its_cache_are_told_apart(hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "hf" / "hub" / "datasets--google--mbpp").mkdir(parents=True)
    cache = {"HF_HOME": str(tmp_path / "hf")}
    kept = "1 dataset in its cache"
    for online, environment, state, detail in (
        (True, {"HF_ENDPOINT": hub}, "ok", f"127.0.0.1 answers; {kept}"),
        (False, {"HF_ENDPOINT": "http://user:s3cret@hub"}, "skipped", f"not tested; {kept}"),
        (True, {"HF_ENDPOINT": "http://user:s3cret@127.0.0.1:1"}, "failed", f"127.0.0.1 does not answer; {kept}"),
        (True, {"HF_HUB_OFFLINE": "1"}, "skipped", f"HF_HUB_OFFLINE is set; {kept}"),
    ):
        check = hub_check(cache | environment, online=online)
        assert (check.state, check.detail) == (state, detail)


def test_a_key_of_wandb_is_told_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "packages", "wandb", "0.31.0")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password s3cret")
    assert wandb_check({}).detail == "wandb 0.31.0, no key"
    assert wandb_check({"WANDB_API_KEY": "s3cret"}).detail == "wandb 0.31.0, key in WANDB_API_KEY"
    assert wandb_check({"HOME": str(tmp_path)}).detail == f"wandb 0.31.0, key in {tmp_path / '.netrc'}"


def installed(folder: Path, name: str, version: str) -> None:
    place = folder / f"{name}-{version}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.mark.parametrize(
    ("version", "state", "detail"),
    [
        ("4.9.1", "ok", "datasets 4.9.1"),
        ("1.0", "absent", "other version: datasets 1.0 (needs <6,>=4.8)"),
        (None, "absent", "not installed: datasets"),
    ],
)
def test_an_extra_is_installed_or_there_is_a_line_that_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, state: str, detail: str
) -> None:
    if version is not None:
        installed(tmp_path / "packages", "datasets", version)
        monkeypatch.syspath_prepend(tmp_path / "packages")
    found = {check.name: check for check in extra_checks()}
    assert set(found) == {
        *(
            "art-local",
            "art-serverless",
            "art-tinker",
            "docker",
            "endpoint",
            "grpo",
            "hub",
            "kubernetes",
            "mlflow",
            "ray",
            "serve",
        ),
        *("swe", "tensorboard", "tinker", "trackio", "unsloth", "vllm", "wandb"),
    }
    assert (found["hub"].state, found["hub"].detail) == (state, detail)
    assert found["hub"].hint == (None if state == "ok" else install_command("hub"))


def broken(folder: Path, name: str, version: str, text: str) -> None:
    """Installs a package that cannot be imported."""
    installed(folder, name, version)
    (folder / f"{name}-{version}.dist-info" / "RECORD").write_text(f"{name}/__init__.py,,\n")
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(text)


LOADS = "import ctypes\nctypes.CDLL('libno_such.so.12')\n"


def test_a_package_that_cannot_be_imported_is_not_reported_as_working(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "OSError: libno_such.so.12: cannot open shared object file: No such file or directory"
    broken(tmp_path, "datasets", "4.9.1", LOADS)
    broken(tmp_path, "torch", "2.13.0", LOADS)
    monkeypatch.syspath_prepend(tmp_path)
    found = {check.name: check for check in extra_checks(broken_packages(vouched_packages()))}
    assert (found["hub"].state, found["hub"].detail) == ("failed", f"datasets 4.9.1 cannot be imported: {reason}")
    assert found["hub"].hint == again_command("datasets")
    assert found["endpoint"].state == "ok"
    broken(tmp_path, "wandb", "0.31.0", "raise ImportError('cannot import name a from b')")
    problems = broken_packages(["wandb", "torch"])
    assert problems == {"torch": reason, "wandb": "ImportError: cannot import name a from b"}
    assert wandb_check({"WANDB_API_KEY": "x"}, problems).state == "failed"
    [torch] = [check for check in extra_checks({"torch": reason}) if check.name == "torch"]
    assert torch.detail == f"torch 2.13.0 cannot be imported: {reason}"
    assert torch.hint == again_command("torch")


def test_an_import_that_ends_the_process_or_never_ends_hides_no_other_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(tmp_path, "aborts", "1.0", "import os\nos.abort()\n")
    broken(tmp_path, "hangs", "1.0", "import time\ntime.sleep(100)\n")
    broken(tmp_path, "leaves", "1.0", "raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(imports, "DEADLINE_SECONDS", 5.0)
    assert broken_packages(["httpx", "aborts", "rich", "hangs", "leaves", "no-such-package", "packaging"]) == {
        "aborts": "its import ended the process with signal 6",
        "hangs": "its import did not end within 5 s",
        "leaves": "SystemExit: 3",
    }


def test_the_extras_of_an_extra_s_packages_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("openpipe_art", VERSION), ("openai", "2.20"), ("pyarrow", "25.0")):
        installed(tmp_path / "packages", name, version)
    [art] = (tmp_path / "packages").glob("openpipe_art-*/METADATA")
    with art.open("a") as file:
        file.write("Provides-Extra: tinker\nRequires-Dist: tinker<0.19; extra == 'tinker'\n")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    [tinker] = [check for check in extra_checks() if check.name == "art-tinker"]
    assert tinker.detail == "not installed: tinker"


def test_a_version_that_does_not_fit_is_the_problem(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path / "packages", "cwsandbox", "9.0")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    done = doctor()
    assert done.returncode == 1
    assert "cwsandbox: 9.0, but sandrl needs" in done.stderr
    assert f"hint: {package_command('cwsandbox<1.23,>=1.22')}\n" in done.stderr


def test_a_gpu_is_told_by_its_driver_or_else_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    (tmp_path / "gpus" / "0000:01:00.0" / "information").write_text("Model: \t\t NVIDIA A100\nIRQ: 1\n")
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nfor i in 1 2; do echo 'NVIDIA H200, 143771 MiB, 570.1'; done\n")
    program.chmod(0o755)
    assert gpu_check(tmp_path / "gpus").detail == "2 × NVIDIA H200, 143771 MiB, 570.1"
    program.write_text("#!/bin/sh\necho 'Failed to initialize NVML'; exit 9\n")
    assert gpu_check(tmp_path / "gpus").detail == "1 × NVIDIA A100"
    assert gpu_check(tmp_path / "missing").state == "absent"


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_in_the_middle_leaves_nothing_behind(tmp_path: Path, number: int, exit_code: int) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [*SANDRL, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("sandrl-doctor-*/template")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == exit_code, stderr
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []


def test_looking_loads_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys; from sandrl.cli.app import main; assert main(['doctor']) == 0; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded & {"torch", "trl", "datasets", "wandb", "huggingface_hub", "cwsandbox", "grpc", "openai"} == set()


def test_another_user_without_a_home_can_ask(tmp_path: Path) -> None:
    system = "/usr/bin/python3"
    wanted = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if os.getuid() != 0 or subprocess.run([system, "-c", wanted], check=False).returncode != 0:
        pytest.skip("needs root, and a system interpreter of the version of this one")
    import pydantic

    import sandrl

    place = Path("/tmp") / f"sandrl-doctor-test-{os.getpid()}"
    try:
        for name, source in (("src", Path(sandrl.__file__).parent), ("site", Path(pydantic.__file__).parents[1])):
            target = place / name / ("sandrl" if name == "src" else "")
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(*UNNEEDED))
        subprocess.run(["chmod", "-R", "a+rX", str(place)], check=True)
        done = subprocess.run(
            [system, "-m", "sandrl", "doctor"],
            env={"PATH": os.defpath, "HOME": "/nonexistent", "PYTHONPATH": f"{place}/src:{place}/site"},
            capture_output=True,
            text=True,
            cwd="/",
            user=65534,
            group=65534,
            extra_groups=[],
            timeout=60,
            check=False,
        )
    finally:
        shutil.rmtree(place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
