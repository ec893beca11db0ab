"""`sandrl art train` as users have it: a process of its own, killed, misled, and asked what it would do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandrl.errors import UsageError
from sandrl.runs import RunReader
from sandrl.settings import Settings
from sandrl.trainers.art.checks import check
from sandrl.trainers.art.plan import make_request
from sandrl.trainers.art.results import GRADIENT_STEPS, STEP
from sandrl.trainers.art.service import renderer_name
from tests.art.training import RENDERER, Uneven
from tests.support.scripted_model import ScriptedModel
from tests.support.tinker_server.process import TinkerServer

pytestmark = pytest.mark.timeout(600)

Command = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def command(tiny_server: TinkerServer, tmp_path: Path) -> Command:
    """Starts `sandrl art train` on a few tiny problems."""

    def start(*words: str | Path, **environment: str) -> subprocess.Popen[str]:
        usual = (
            "--backend", "tinker", "--base-model", tiny_server.model, "--renderer", RENDERER, "--problems", "tiny",
            "--num-problems", "5", "--samples", "4", "--rollout", "attempts", "--max-attempts", "2",
            "--extract", "answer", "--max-tokens", "48", "--learning-rate", "4e-4", "--runtime", "local",
        )  # fmt: skip
        given = words if "--resume" in words else (*usual, *words)
        argv = [sys.executable, "-m", "sandrl", "art", "train", *map(str, given)]
        known = {**os.environ, **tiny_server.environment, "SANDRL_RUNS_DIR": str(tmp_path / "runs")}
        return subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**known, **environment},
        )

    return start


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        stdout, stderr = process.communicate(timeout=300)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return process.returncode, stdout, stderr


@pytest.mark.timeout(1200)  # four commands that load ART, and three environments may be tested at once
def test_a_training_killed_at_any_moment_goes_on_without_a_lost_or_repeated_step(
    command: Command, tiny_server: TinkerServer, tmp_path: Path
) -> None:
    steps = 3
    for pause in (0.0, 0.7):
        process = command("--policy", "trained", "--steps", str(steps), "--run-name", f"killed-{pause}")
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Step 1/"):
                break
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        code, stdout, stderr = ended(command("--resume", f"killed-{pause}"))
        assert code == 0, stderr
        assert f"step {steps} of {steps}" in stdout
        run = tmp_path / "runs" / f"killed-{pause}"
        rows = [row for row in RunReader(run).metrics().rows if row.metrics.get(GRADIENT_STEPS)]
        assert [row.metrics[STEP] for row in rows] == [1, 2, 3]
        # The weights of each step follow from those of the one before: what was loaded is what was saved last.
        (state,) = (run / "art").rglob("state.json")
        ids = json.loads(state.read_text())["tinker_run_ids"]
        done = [row for row in tiny_server.records() if row.get("model_id") in ids]
        (loaded,) = (row for row in done if row["op"] == "load_weights")
        at = done.index(loaded)
        saved = [row for row in done[:at] if row["op"] == "save_weights"]
        assert loaded["weights"] == saved[-1]["weights"]
        assert loaded["optimizer"]
        assert len(saved) + sum(row["op"] == "optim_step" for row in done[at:]) == steps


def test_a_dry_run_says_what_it_would_use_and_uses_nothing(
    command: Command, tiny_server: TinkerServer, tmp_path: Path
) -> None:
    before = len(tiny_server.records())
    with ScriptedModel(Uneven(), key="sk-teacher") as teacher:
        words = ("--policy", "teacher", "--model", "scripted", "--base-url", teacher.base_url, "--dry-run")
        code, stdout, stderr = ended(command(*words, OPENAI_API_KEY="sk-teacher"))
        assert code == 0, stderr
        assert not teacher.questions
        wrong, _, refused = ended(command(*words, "--model", "other", OPENAI_API_KEY="sk-teacher"))
        denied, _, locked = ended(command(*words, OPENAI_API_KEY="sk-wrong"))
    assert "Rollouts: 100\n" in stdout
    assert "Sandboxes: " in stdout
    assert "Cost: no price set: sandrl prices set local PRICE" in stdout
    assert f"scored under {tiny_server.model}" in stdout
    assert (wrong, denied) == (2, 3)
    assert "has no model 'other'" in refused
    assert "refuses access" in locked
    assert "sk-wrong" not in locked
    assert len(tiny_server.records()) == before
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "environment", "code", "said"),
    [
        ((), {"TINKER_BASE_URL": "http://127.0.0.1:1"}, 3, "Tinker at http://127.0.0.1:1 cannot be reached: "),
        ((), {"TINKER_API_KEY": "tml-no-key-of-theirs"}, 3, "Tinker refuses the key in TINKER_API_KEY"),
        ((), {"TINKER_API_KEY": "sk-1234567890"}, 3, "TINKER_API_KEY does not contain a Tinker key"),
        ((), {"TINKER_API_KEY": ""}, 3, "--backend tinker needs an API key, and no key is set"),
        (("--base-model", "Qwen/Qwen3-8B"), {}, 2, "has no model 'Qwen/Qwen3-8B'"),
        (("--renderer", "llama3"), {}, 2, "--renderer llama3 does not suit"),
        (("--renderer", "smoke"), {}, 2, "--renderer smoke does not suit"),
        (("--renderer", "role_colon", "--rollout", "tools"), {}, 2, "does not support tool calls"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(
    command: Command, tmp_path: Path, words: tuple[str, ...], environment: dict[str, str], code: int, said: str
) -> None:
    returned, stdout, stderr = ended(command("--policy", "trained", *words, **environment))
    assert returned == code, stderr
    assert said in stderr
    assert "hint: " in stderr
    assert "Traceback" not in stderr
    assert stdout == ""
    assert not (tmp_path / "runs").exists()
    assert not [value for value in environment.values() if value.startswith(("tml-", "sk-")) and value in stderr]


def test_what_art_says_of_a_model_is_no_part_of_the_results(
    capsys: pytest.CaptureFixture[str], tiny_server: TinkerServer, tmp_path: Path
) -> None:
    settings = Settings.from_environment({**os.environ, **tiny_server.environment, "SANDRL_RUNS_DIR": str(tmp_path)})
    request = make_request({"backend": "tinker", "policy": "trained", "problems": "tiny"}, settings)
    # ART has pages to say of its default model, before this server says that it has none of that name.
    with pytest.raises(UsageError, match="has no model 'Qwen/Qwen3-8B'"):
        check(request, settings, spends=False)
    assert renderer_name(request.config) == "qwen3_disable_thinking"
    assert capsys.readouterr().out == ""


def test_the_document_of_a_training_has_every_round(command: Command) -> None:
    with ScriptedModel(Uneven()) as teacher:
        words = ("--model", "scripted", "--base-url", teacher.base_url, "--steps", "2", "--json")
        code, stdout, stderr = ended(command(*words))
    assert code == 0, stderr
    document = json.loads(stdout)
    assert (document["first_step"], document["step"], document["of"]) == (0, 2, 2)
    assert [each["step"] for each in document["rounds"] if not each["failure"]] == [1, 2]
    assert document["flags"] == []
    assert "Step 2/2: reward " in stderr
