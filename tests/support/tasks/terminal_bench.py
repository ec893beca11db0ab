"""Tasks of Terminal-Bench's first format, each with an oracle: every parser of its test results, and its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.tasks.base import BASE, write_files

_DOCKERFILE = "FROM BASE\nRUN mkdir -p /app && chmod 777 /app\nWORKDIR /app\n"
# As in published tasks; the program that runs them sets the variables.
_COMPOSE = """
services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [ "sh", "-c", "sleep infinity" ]
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}
"""
# What pytest prints with `-rA`, for checks that are commands.
_PYTEST = """
lines=
check() {
    if eval "$2" > /dev/null 2>&1; then word=PASSED end=; else word=FAILED end=" - AssertionError: not $2"; fi
    lines="$lines$word ../tests/test_outputs.py::$1$end
"
}
report() {
    echo "=================================== FAILURES ==================================="
    echo "=========================== short test summary info ============================"
    echo -n "$lines"
    echo "========================= tests in 0.01s =========================="
}
"""


@dataclass(frozen=True)
class TerminalBenchTask:
    """A task, and what is right for it: the oracle earns 1.

    Attributes:
        files: By path. A Dockerfile may begin with `FROM BASE`.
        checks: How many checks its verifier has for the oracle.
        nothing: The reward of an agent that does nothing; None where its verifier does not end.
    """

    name: str
    files: Mapping[str, str]
    checks: int = 1
    nothing: float | None = 0.0

    def write(self, place: Path) -> Path:
        """Writes it into a directory of its name; returns that."""
        files = {name: text.replace("BASE", BASE) for name, text in self.files.items()}
        return write_files(place / self.name, files)


def _task(config: str, solve: str, test: str, **files: str) -> dict[str, str]:
    return {
        "task.yaml": "author_email: someone@example.org\ndifficulty: easy\ncategory: tests\ntags: [shell]\n" + config,
        "Dockerfile": _DOCKERFILE,
        "docker-compose.yaml": _COMPOSE,
        "solution.sh": "#!/bin/bash\n" + solve,
        "run-tests.sh": "#!/bin/bash\n" + test,
        **files,
    }


def _marks(title: str, right: str, wrong: str) -> str:
    return (
        f'echo "{title} results starts here"\n[ -e answer ] && echo "{right}" || echo "{wrong}"\n'
        f'echo "{title} results ends here"\n'
    )


_MAKE = "instruction: Make the file /app/answer.\n"
_COMMANDS = """
- command: cd /app && mkdir made
  min_timeout_sec: 0.1
  max_timeout_sec: 20.0
  block: true
  append_enter: true
- command: cd made
  block: true
  append_enter: true
- command: echo one > here
  block: true
  append_enter: true
- command: "echo two >> /app/made/here"
  min_timeout_sec: 0.5
  block: false
  append_enter: true
"""

TASKS = (
    TerminalBenchTask(
        "pytest",
        _task(
            "instruction: |-\n  Write the first three square numbers into the file squares,\n  one a line.\n"
            "parser_name: pytest\nmax_agent_timeout_sec: 60.0\nmax_test_timeout_sec: 60.0\n",
            "for i in 1 2 3; do echo $((i * i)); done > squares\n",
            _PYTEST + '. "$TEST_DIR/checks.sh"\nreport\n',
            **{
                "tests/checks.sh": 'check test_exists "[ -e /app/squares ]"\n'
                "check 'test_values[1 4 9]' '[ \"$(echo $(cat /app/squares))\" = \"1 4 9\" ]'\n"
            },
        ),
        checks=2,
    ),
    TerminalBenchTask(
        "pytest-words",
        _task(
            _MAKE,
            "touch answer\n",
            'echo "=== short test summary info ==="\n'
            '[ -e answer ] && echo "PASSED t.py::test_a" || echo "ERROR t.py::test_a"\n'
            'echo "XFAIL t.py::test_b - is known"\necho "SKIPPED [1] t.py:3: no reason"\necho "=== done ==="\n',
        ),
        checks=3,
    ),
    TerminalBenchTask(
        "commands",
        {
            name: text
            for name, text in _task(
                "instruction: Write one and two into /app/made/here.\n",
                "",
                _PYTEST + 'check test_here \'[ "$(echo $(cat /app/made/here))" = "one two" ]\'\nreport\n',
            ).items()
            if name != "solution.sh"
        }
        | {"solution.yaml": _COMMANDS},
    ),
    TerminalBenchTask(
        "swebench",
        _task(_MAKE + "parser_name: swebench\n", "touch answer\n", _marks("SWEBench", "PASSED", "FAILED")),
    ),
    TerminalBenchTask(
        "sweperf",
        _task(_MAKE + "parser_name: sweperf\n", "touch answer\n", _marks("SWE-Perf", "PASSED", "FAILED")),
    ),
    TerminalBenchTask(
        "mlebench",
        _task(
            _MAKE + "parser_name: mlebench\n", "touch answer\n", _marks("MLEBench", "ALL TESTS PASSED", "a test failed")
        ),
    ),
    TerminalBenchTask(
        "swelancer",
        _task(
            _MAKE + "parser_name: swelancer\n",
            "touch answer\n",
            '[ -e answer ] && echo "SWE Lancer success" || echo "SWE Lancer failure"\n',
        ),
    ),
    TerminalBenchTask(
        "descriptions",
        _task(
            "descriptions:\n- key: base\n  description: Make the file /app/answer.\n"
            "- key: hard\n  description: Do it.\nmax_agent_timeout_sec: 3\nrun_tests_in_same_shell: true\n",
            "touch answer; sleep 600; rm answer\n",
            _PYTEST + 'check test_answer "[ -e answer ]"\nreport\n',
        ),
    ),
    TerminalBenchTask(
        "compose",
        _task(
            _MAKE + "run_tests_in_same_shell: false\n",
            '[ "$LEVEL" = 3 ] && touch answer\n',
            _PYTEST + 'check test_answer "[ -e answer ]"\ncheck test_directory "[ $PWD = /srv ]"\nreport\n',
            **{
                "docker-compose.yaml": _COMPOSE.replace(
                    "container_name:", "working_dir: /srv\n    container_name:"
                ).replace("environment:\n", 'environment:\n      - "LEVEL=3"\n')
            },
        ),
        checks=2,
    ),
    TerminalBenchTask(
        "test-time",
        _task(
            _MAKE + "max_test_timeout_sec: 4\n",
            "touch answer\n",
            _PYTEST + 'until [ -e answer ]; do sleep 1; done\ncheck test_answer "[ -e answer ]"\nreport\n',
        ),
        nothing=None,
    ),
)
TASKS_BY_NAME = {task.name: task for task in TASKS}
