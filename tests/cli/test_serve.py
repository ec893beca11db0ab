"""`sandrl serve` and `--service` as users meet them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sandrl as sandrl_package
from sandrl.errors import UsageError
from sandrl.installation import install_command
from sandrl.problems import load_problems
from tests.cli.conftest import Run
from tests.support.chat_server import ChatServer
from tests.support.service import TOKEN, RunningService, running_service

PROBLEM = '{"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2", "assert f(2) == 3"]}\n'
ROWS = [
    {"task_id": "inc", "id": "right", "completion": "```python\ndef f(x):\n    return x + 1\n```"},
    {"task_id": "inc", "id": "wrong", "completion": "```python\ndef f(x):\n    return x\n```"},
    {"task_id": "inc", "id": "none", "completion": "I do not know."},
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> object:
    with running_service(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    problems, completions = tmp_path / "problems.jsonl", tmp_path / "completions.jsonl"
    problems.write_text(PROBLEM)
    completions.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return problems, completions


def test_a_service_gives_the_same_table_codes_and_run(
    sandrl: Run, service: RunningService, files: tuple[Path, Path], tmp_path: Path
) -> None:
    problems, completions = files
    words = ("reward", completions, "--problems", problems, "--fail-under", "0.5", "--runs-dir", "runs")
    here = sandrl(*words, "--run-name", "here")
    there = sandrl(*words, "--run-name", "there", "--service", service.url, SANDRL_SERVICE_TOKEN=TOKEN)
    assert there.returncode == here.returncode == 1, there.stderr
    assert sorted(there.stdout.splitlines()[3:]) == sorted(here.stdout.splitlines()[3:])
    assert f"Service: {service.url}, 3 completions" in there.stderr
    rows = {}
    for name in ("here", "there"):
        lines = (tmp_path / "runs" / name / "trajectories.jsonl").read_text().splitlines()
        rows[name] = {row["id"]: (row["reward"], row["status"], row["code"]) for row in map(json.loads, lines)}
    assert rows["here"] == rows["there"]
    assert TOKEN not in (tmp_path / "runs" / "there" / "config.json").read_text()


def test_the_document_is_the_same(sandrl: Run, service: RunningService, files: tuple[Path, Path]) -> None:
    problems, completions = files
    words = ("reward", completions, "--problems", problems, "--json", "--reward", "fraction")
    documents = [
        json.loads(sandrl(*words, *more, SANDRL_SERVICE_TOKEN=TOKEN).stdout)
        for more in ((), ("--service", service.url))
    ]
    for document in documents:
        document.pop("job_id")
        document["summary"].pop("isolation")
        # Only who has the sandboxes knows for how long.
        for name in ("counts", "sandbox_seconds", "cost", "currency"):
            document["summary"].pop(name, None)
        for result in document["results"]:
            for name in ("duration_seconds", "sandbox_id", "isolation"):
                result.pop(name)
    assert documents[0] == documents[1]


def test_a_service_that_does_not_answer_is_named(sandrl: Run, files: tuple[Path, Path]) -> None:
    problems, completions = files
    words = ("reward", completions, "--problems", problems, "--service")
    missing = sandrl(*words, "http://127.0.0.1:9", SANDRL_SERVICE_TOKEN="")
    assert missing.returncode == 3
    assert "there is no token for the service at http://127.0.0.1:9" in missing.stderr
    assert "SANDRL_SERVICE_TOKEN" in missing.stderr
    wrong = sandrl(*words, "nowhere", SANDRL_SERVICE_TOKEN=TOKEN)
    assert wrong.returncode == 2
    assert "--service is not an address" in wrong.stderr


def test_a_wrong_token_is_said_to_be_that(sandrl: Run, service: RunningService, files: tuple[Path, Path]) -> None:
    problems, completions = files
    done = sandrl(
        "reward", completions, "--problems", problems, "--service", service.url, SANDRL_SERVICE_TOKEN="x" * 20
    )
    assert done.returncode == 3
    assert "refuses the token" in done.stderr
    assert "x" * 20 not in done.stderr


@pytest.mark.parametrize("words", [("--image", "x"), ("--runtime", "local"), ("--cache", "d"), ("--fresh-sandboxes",)])
def test_options_of_sandboxes_are_the_services(sandrl: Run, words: tuple[str, ...]) -> None:
    done = sandrl("reward", "--service", "http://127.0.0.1:9", *words)
    assert done.returncode == 2
    assert f"{words[0]} cannot be used with service, which has its own sandboxes" in done.stderr


def test_a_reward_function_of_ones_own_is_not_sent(sandrl: Run) -> None:
    done = sandrl("reward", "--service", "http://127.0.0.1:9", "--reward", "json:dumps")
    assert done.returncode == 2
    assert "--reward names a function" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--host", "0.0.0.0"), "--host 0.0.0.0 can be reached from other machines"),
        (("--certificate", "missing.pem"), "--certificate and --key belong together"),
        (("--certificate", "missing.pem", "--key", "missing.pem"), "missing.pem: cannot be read"),
        (
            ("--certificate", "text.pem", "--key", "text.pem"),
            "--certificate text.pem and --key text.pem cannot be used",
        ),
        (("--problems", "missing.jsonl"), "missing.jsonl: no such file"),
        (("--host", "no.such.host.invalid", "--insecure"), "--host no.such.host.invalid is not a valid address"),
        (("--second-opinion", "0.5"), "--second-opinion is not an option of a service"),
        (("--reward", "nothing"), "nothing"),
    ],
)
def test_what_cannot_be_served_is_said_in_two_lines(
    sandrl: Run, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "text.pem").write_text("text")
    done = sandrl("serve", *words)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_without_its_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import importlib.util, sys\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'uvicorn' else find(name, *rest)\n"
        "from sandrl.cli.entry import main\nsys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "serve"], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "'uvicorn' is not installed" in done.stderr
    assert install_command("serve") in done.stderr


def test_ctrl_c_during_a_run_with_a_service_keeps_what_is_there(
    service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "problems.jsonl").write_text(PROBLEM)
    code = "import time\ntime.sleep(0.2)\ndef f(x): return x + 1"
    rows = [json.dumps({"task_id": "inc", "code": f"{code}  # {number}"}) for number in range(600)]
    (tmp_path / "completions.jsonl").write_text("\n".join(rows))
    monkeypatch.setenv("SANDRL_SERVICE_TOKEN", TOKEN)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "sandrl", "reward", "completions.jsonl", "--problems", "problems.jsonl"),
            *("--service", service.url, "--runs-dir", "runs", "--run-name", "run", "--verbose"),
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "[10/600]" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    while "finishing" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted" in errors
    path = tmp_path / "runs" / "run" / "trajectories.jsonl"
    assert 10 <= len(path.read_text().splitlines()) < 600
    assert "Total reward" in out


def test_answers_of_a_model_are_scored_by_a_service(sandrl: Run, service: RunningService) -> None:
    prompts = {problem.prompt: problem for problem in load_problems("toy").problems.values()}

    def half_right(body: dict[str, Any]) -> str:
        problem = prompts[body["messages"][-1]["content"]]
        return f"<answer>\n{problem.reference if body['seed'] % 2 == 0 else 'print(0)'}</answer>"

    with ChatServer(half_right) as server:
        words = ("eval", "--base-url", server.base_url, "--problems", "toy", "--samples", "2", "--json")
        done = sandrl(*words, "--service", service.url, SANDRL_SERVICE_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["pass_rate"] == 0.5


def test_a_reward_function_of_a_trainer_scores_with_a_service(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDRL_SERVICE_TOKEN", TOKEN)
    problems = [json.loads(PROBLEM)]
    texts = [row["completion"] for row in ROWS]
    with sandrl_package.reward_function(problems, service=service.url, reward="fraction") as function:
        assert function([""] * 3, texts, task_id=["inc"] * 3) == [1.0, 0.0, 0.0]
        assert function.last_report is not None
        assert [result.code is None for result in function.last_report.results] == [False, False, True]
        assert function([""], texts[:1], task_id=["inc"]) == [1.0]
    with pytest.raises(UsageError, match="`image` has no effect with `service`"):
        sandrl_package.reward_function(problems, service=service.url, image="x")
    with pytest.raises(UsageError, match="`reward` is a function"):
        sandrl_package.reward_function(problems, service=service.url, reward=lambda verdict, completion: 1.0)
