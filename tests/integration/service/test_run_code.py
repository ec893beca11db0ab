"""`POST /run_code` as clients of SandboxFusion know it, and `POST /v1/execute`."""

from __future__ import annotations

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandrl.sandboxes import SandboxRequest
from sandrl.settings import load_settings
from tests.support.service import TOKEN, RunningService, running_service

URL = f"/t/{TOKEN}/run_code"


def encoded(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


@pytest.fixture
def bare(service: RunningService) -> Any:
    with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as client:
        yield client


def ran(client: httpx.Client, code: str, language: str = "python", **fields: Any) -> dict[str, Any]:
    answer = client.post(URL, json={"code": code, "language": language, **fields})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    assert set(document) == {"status", "message", "compile_result", "run_result", "executor_pod_name", "files"}
    return document


def test_a_program_that_ends_with_0_is_a_success(bare: httpx.Client) -> None:
    document = ran(bare, "print(input())", stdin="hello")
    assert (document["status"], document["message"], document["compile_result"]) == ("Success", "", None)
    run = document["run_result"]
    assert set(run) == {"status", "execution_time", "return_code", "stdout", "stderr"}
    assert (run["status"], run["return_code"], run["stdout"], run["stderr"]) == ("Finished", 0, "hello\n", "")
    assert run["execution_time"] > 0


def test_a_program_that_fails_is_finished_and_failed(bare: httpx.Client) -> None:
    document = ran(bare, "import sys\nprint('o')\nsys.stderr.write('e')\nsys.exit(3)")
    assert document["status"] == "Failed"
    run = document["run_result"]
    assert (run["status"], run["return_code"], run["stdout"], run["stderr"]) == ("Finished", 3, "o\n", "e")
    raised = ran(bare, "def f():\n    raise KeyError('k')\nf()")["run_result"]
    assert raised["return_code"] == 1
    assert "Traceback (most recent call last)" in raised["stderr"]
    assert "KeyError: 'k'" in raised["stderr"]


def test_a_time_limit_is_told_as_one(bare: httpx.Client) -> None:
    document = ran(bare, "print('begun', flush=True)\nwhile True: pass", run_timeout=0.5)
    assert document["status"] == "Failed"
    run = document["run_result"]
    assert (run["status"], run["return_code"], run["stdout"]) == ("TimeLimitExceeded", None, "begun\n")


def test_a_compiler_has_its_own_result(bare: httpx.Client) -> None:
    good = ran(bare, '#include <cstdio>\nint main() { puts("1"); return 0; }', "cpp")
    assert good["status"] == "Success"
    assert good["compile_result"]["status"] == good["run_result"]["status"] == "Finished"
    assert good["run_result"]["stdout"] == "1\n"
    bad = ran(bare, "int main() { return x; }", "cpp")
    assert (bad["status"], bad["run_result"]) == ("Failed", None)
    assert bad["compile_result"]["return_code"] == 1
    assert "error" in bad["compile_result"]["stderr"]


def test_much_output_comes_whole_or_not_as_a_success(bare: httpx.Client) -> None:
    much = ran(bare, "print('x' * 3_000_000)")
    assert much["run_result"]["stdout"] == "x" * 3_000_000 + "\n"
    more = ran(bare, "print('x' * 9_000_000)")
    assert more["status"] == "SandboxError"
    assert "the output of the program is too long" in more["message"]


@pytest.mark.parametrize("code", ["", "  \n", "# nothing"])
def test_an_empty_program_is_one_that_does_nothing(bare: httpx.Client, code: str) -> None:
    document = ran(bare, code)
    assert (document["status"], document["run_result"]["return_code"]) == ("Success", 0)


@pytest.mark.parametrize(
    ("number", "status"), [("2**70", 255), ("2**63", 255), ("2**40 + 3", 3), ("-1", 255), ("256", 0), ("True", 1)]
)
def test_an_exit_status_is_what_an_interpreter_makes_of_it(bare: httpx.Client, number: str, status: int) -> None:
    assert ran(bare, f"import sys\nsys.exit({number})")["run_result"]["return_code"] == status


def test_files_come_and_go(bare: httpx.Client) -> None:
    code = "import os\nopen('out', 'wb').write(open('a/in', 'rb').read()[::-1])"
    files = {"a/in": encoded(b"\x00\x01\x02"), "none": None, "IGNORE_THIS_FILE": "x"}
    document = ran(bare, code, files=files, fetch_files=["out", "missing"])
    assert document["files"] == {"out": encoded(b"\x02\x01\x00")}


@pytest.mark.parametrize(
    ("language", "code"),
    [("Python", "print(7)"), ("nodejs", "console.log(7)"), ("bash", "echo 7"), ("perl", 'print "7\\n";')],
)
def test_languages_have_the_names_that_they_have_there(bare: httpx.Client, language: str, code: str) -> None:
    document = ran(bare, code, language, compile_timeout=60)
    if document["status"] == "SandboxError":
        assert "cannot run it" in document["message"]
        pytest.skip(document["message"])
    assert document["run_result"]["stdout"] == "7\n"


@pytest.mark.parametrize(
    "body",
    [
        {"code": "def test_one(): assert False", "language": "pytest"},
        {"code": "", "language": "verilog"},
        {"language": "python"},
        {"code": "", "language": "python", "files": {"../x": ""}},
        {"code": "", "language": "python", "files": {"x": "no base64!"}},
        {"code": "", "language": "python", "fetch_files": ["../../etc/passwd"]},
        {"code": "", "language": "python", "run_timeout": 0},
        {"code": "", "language": "python", "run_timeout": 1e300},
    ],
)
def test_what_cannot_be_run_is_refused_and_never_a_success(bare: httpx.Client, body: dict[str, Any]) -> None:
    answer = bare.post(URL, json=body)
    assert answer.status_code == 422, answer.text
    assert "detail" in answer.json()


def test_more_memory_than_a_sandbox_has_is_told_only_where_it_was_needed(tmp_path: Path) -> None:
    with running_service(tmp_path, "--sandbox-memory", str(256 << 20)) as service, service.client() as client:
        small = ran(client, "print(1)", memory_limit_MB=1024)
        assert small["status"] == "Success"
        large = ran(client, "x = bytearray(600 << 20)\nprint(len(x))", memory_limit_MB=1024)
        assert large["status"] == "SandboxError"
        assert "1024 MiB" in large["message"]
        assert "256 MiB" in large["message"]
        assert service.said.count("allows 1024 MiB of memory") == 1
        within = ran(client, "x = bytearray(200 << 20)\nprint(len(x))", memory_limit_MB=64)
        assert within["status"] == "Failed"


def test_a_request_waits_for_room_within_its_clients_patience(tmp_path: Path) -> None:
    """SandboxFusion's clients count every answer but a program's own end as a failed test."""
    words = ("--max-queue", "4", "--concurrency", "2")
    with running_service(tmp_path, *words) as service, service.client() as client, ThreadPoolExecutor(40) as threads:
        code = "import time\ntime.sleep(0.2)\nprint({number})"
        asked = [threads.submit(ran, client, code.format(number=number)) for number in range(40)]
        assert [each.result()["run_result"]["stdout"] for each in asked] == [f"{number}\n" for number in range(40)]


def test_504_is_the_answer_where_there_is_no_room_and_the_program_is_taken_over(tmp_path: Path) -> None:
    """A client's patience is the times of its program and ten seconds; asked again, it goes on from where it was."""
    words = ("--concurrency", "1", "--fresh-sandboxes")
    with running_service(tmp_path, *words) as service, service.client() as client, ThreadPoolExecutor(4) as threads:
        crowd = {"code": "import time\ntime.sleep(13)", "language": "python", "run_timeout": 20}
        first = threads.submit(client.post, "/v1/execute", json={"code": crowd["code"], "timeout_seconds": 20})
        time.sleep(1)
        body = {"code": "print(5)", "language": "python", "compile_timeout": 0.5, "run_timeout": 0.5}
        late = client.post("/run_code", json=body)
        assert late.status_code == 504, late.text
        assert int(late.headers["retry-after"]) >= 1
        again = client.post("/run_code", json=body)
        assert again.json()["run_result"]["stdout"] == "5\n"
        assert first.result().json()["status"] == "passed"


def test_lost_sandboxes_are_no_failed_test(service: RunningService, bare: httpx.Client) -> None:
    """While programs run, their sandboxes are stopped by somebody else, again and again."""
    other = SandboxRequest().connect(load_settings()).open()
    with ExitStack() as stack:
        stack.callback(other.close, 30)
        threads = stack.enter_context(ThreadPoolExecutor(12))
        code = "import time\ntime.sleep(0.3)\nprint({number})"
        asked = [threads.submit(ran, bare, code.format(number=number)) for number in range(60)]
        stopped = 0
        for _ in range(3):
            time.sleep(0.4)
            for found in other.list(["sandrl-service"]).result(30):
                found.stop().result(30)
                stopped += 1
        assert stopped
        assert [each.result()["run_result"]["stdout"] for each in asked] == [f"{number}\n" for number in range(60)]


def test_execute_answers_in_words_of_its_own(http: httpx.Client) -> None:
    body = {
        "code": "import sys\nopen('b', 'wb').write(b'\\xff')\nopen('t', 'w').write('text')\nprint(sys.stdin.read())",
        "stdin": "in",
        "files": {"x": "y", "z": {"base64": "AAE="}},
        "fetch": ["b", "t", "z", "missing"],
        "timeout_seconds": 5,
    }
    document = http.post("/v1/execute", json=body).json()
    assert document["status"] == "passed"
    assert document["run"]["stdout"] == "in\n"
    assert document["files"] == {"b": {"base64": "/w=="}, "t": "text", "z": "\x00\x01"}
    assert document["omitted"] == []
    assert document["compile"] is None


def test_execute_tells_timeouts_and_signals_apart(http: httpx.Client) -> None:
    late = http.post("/v1/execute", json={"code": "while True: pass", "timeout_seconds": 0.5}).json()
    assert (late["status"], late["run"]["timed_out"], late["run"]["exit_status"]) == ("timeout", True, None)
    killed = http.post("/v1/execute", json={"code": "import os\nos.kill(os.getpid(), 9)"}).json()
    assert (killed["run"]["timed_out"], killed["run"]["exit_status"]) == (False, -9)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"code": "", "language": "klingon"}, "language"),
        ({"code": "", "files": {"/abs": ""}}, "files"),
        ({"code": "", "fetch": ["../x"]}, "fetch[0]"),
        ({"code": "", "timeout_seconds": -1}, "timeout_seconds"),
        ({"code": "", "wrong": 1}, "wrong"),
        ({"code": "", "max_output_bytes": 9000000}, "max_output_bytes"),
        ({}, "code"),
    ],
)
def test_execute_says_what_is_wrong(http: httpx.Client, body: dict[str, Any], place: str) -> None:
    answer = http.post("/v1/execute", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["place"].startswith(place)
