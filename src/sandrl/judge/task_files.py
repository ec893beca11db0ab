"""Writes a problem whose answer is Python code as the files of a task: the instruction, the image, and the verifier.

The verifier is the guest, with the requests that a judge of this machine would send it. So a task gives the verdicts
that the problem gives, without a copy of this package.
"""

from __future__ import annotations

import base64
import json
import marshal
import shlex
from importlib.resources import files
from typing import Any

from sandrl.errors import InputError
from sandrl.judge.calibrator import imports_packages, needs_trial, obstacle_of, runs_of_reference
from sandrl.judge.facts import facts_of
from sandrl.judge.guest_command import GuestCommands
from sandrl.judge.guest_request import mode_of
from sandrl.judge.limits import Limits
from sandrl.judge.program import ISOLATED_TESTS, TESTS, Mode, command_line, program_of
from sandrl.judge.stubs import empty_answer
from sandrl.judge.task_program import PLAN
from sandrl.problems import Problem, own_row, render_prompt
from sandrl.problems.tasks.images import named

DIRECTORY = "/app"
ANSWER = f"{DIRECTORY}/solution.py"

_IMAGE = "python:3.11-slim"
_PROGRAM = "judge.py"
_KEY_BYTES = 16
_MEMORY_MIB = 2048
_AGENT_SECONDS = 900.0
_TEST = f"""\
#!/bin/bash
cd / && exec python3 /tests/{_PROGRAM}
"""
_SOLVE = f"""\
#!/bin/bash
mkdir -p {DIRECTORY} && cp "$(dirname "$0")/solution.py" {ANSWER}
"""
_ASKS = f"""

Write the answer to `{ANSWER}`: one file of Python code, which is complete.
"""


def task_files(problem: Problem, limits: Limits) -> dict[str, bytes]:
    """The files of a task directory of Harbor, by their paths.

    Raises:
        InputError: If a task could not give the verdicts that the problem gives.
    """
    if why := _obstacle(problem):
        raise InputError(why, field=problem.task_id)
    ways = {"apart": _way(problem, limits, mode_of(problem))}
    plan: dict[str, Any] = {
        "row": own_row(problem),
        "answer": ANSWER,
        "command": list(command_line(limits.hash_seed, with_site_packages=True)),
        "names": list(problem.check_names),
    }
    if problem.kind == "tests":
        obstacle = obstacle_of(problem)
        has_reference = problem.reference is not None
        ways = {"apart": _way(problem, limits, ISOLATED_TESTS), "together": _way(problem, limits, TESTS)}
        plan |= {
            "known": problem.reference if problem.reference is not None else empty_answer(problem),
            "has_reference": has_reference,
            "is_tried": needs_trial(problem),
            "obstacle": obstacle,
            "runs": runs_of_reference(problem),
            "needs_one_process": facts_of(problem).needs_one_process,
            "hands_over": imports_packages(problem),
        }
    found = {
        "instruction.md": (render_prompt(problem, show_tests=0).text + _ASKS).encode(),
        "environment/Dockerfile": _dockerfile(problem).encode(),
        "tests/test.sh": _TEST.encode(),
        f"tests/{_PROGRAM}": files("sandrl.judge").joinpath("task_program.py").read_bytes(),
        f"tests/{PLAN}": (json.dumps({**plan, "ways": ways}, indent=1) + "\n").encode(),
        **{f"environment/files/{name}": content for name, content in problem.files},
    }
    for mode in {mode_of(problem)} if problem.kind != "tests" else {ISOLATED_TESTS, TESTS}:
        found |= {f"tests/{name}": text for name, text in _program(mode).items()}
    if problem.reference is not None:
        found |= {"solution/solve.sh": _SOLVE.encode(), "solution/solution.py": problem.reference.encode()}
    return found


def task_table(problem: Problem, limits: Limits) -> dict[str, Any]:
    """The content of its `task.toml`, without a name."""
    prepared = GuestCommands().prepare(problem, limits, mode_of(problem), None)
    runs = 1 if problem.kind != "tests" else 2 + 3 * runs_of_reference(problem)
    return {
        "schema_version": "1.4",
        "metadata": {"sandrl": {"problem": f"tests/{PLAN}", "task_id": problem.task_id, "end_processes": True}},
        "agent": {"timeout_sec": _AGENT_SECONDS},
        "verifier": {"timeout_sec": 60.0 + runs * prepared.seconds},
        "environment": {"cpus": 1, "memory_mb": _MEMORY_MIB},
    }


# Why a task could not give the verdicts of the problem; empty if it can.
def _obstacle(problem: Problem) -> str:
    if problem.task is not None:
        return "is a task"
    if not problem.is_python:
        return f"is in {problem.language}, and the verifier of a task is written for answers in Python"
    if problem.asks_reference:
        return "has calls without an expected value, which the verifier of a task does not have either"
    try:
        if problem.image is not None:
            named(problem.image, None, "image")
        json.dumps(own_row(problem)).encode("ascii").decode()
        (render_prompt(problem, show_tests=0).text + (problem.reference or "")).encode()
    except InputError as error:
        return f"has an image that {error.reason}"
    except UnicodeEncodeError:
        return "holds half of a surrogate pair, which no file of text can hold"
    return ""


def _way(problem: Problem, limits: Limits, mode: Mode) -> dict[str, Any]:
    prepared = GuestCommands().prepare(problem, limits, mode, None)
    return {
        "program": list(_program(mode)),
        "request": base64.b64encode(marshal.dumps(prepared.request, 2)).decode(),
        "hidden": base64.b64encode(prepared.hidden).decode(),
        "checks": prepared.checks,
        "seconds": prepared.seconds,
        "key_bytes": _KEY_BYTES,
    }


# The files of the guest's program in a mode, in the order in which it loads them.
def _program(mode: Mode) -> dict[str, bytes]:
    program = program_of(mode)
    parts = {f"{mode.judge}.py": program.first.source, f"{mode.judge}_rest.py": program.rest.source}
    return {name: source for name, source in parts.items() if source}


def _dockerfile(problem: Problem) -> str:
    lines = [f"FROM {problem.image or _IMAGE}"]
    if problem.packages and problem.image is None:
        lines.append("RUN pip install --no-cache-dir " + " ".join(map(shlex.quote, problem.packages)))
    lines.append(f"WORKDIR {DIRECTORY}")
    if problem.files:
        lines.append(f"COPY files/ {DIRECTORY}/")
    return "\n".join(lines) + "\n"
