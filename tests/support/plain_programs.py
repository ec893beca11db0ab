"""Programs in other languages, compiled and run with plain commands in a sandbox: what the judge is compared with.

Nothing of the judge is used: commands are those of MultiPL-E's own evaluation, and an answer is put together as
its authors do (`published_program`). Each program has a sandbox of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sandrl.errors import InfrastructureError
from sandrl.sandboxes import Command, Job, Launch

_JAVA = "/usr/share/java/javatuples.jar"
COMMANDS = {
    "cpp": ("main.cpp", "g++ -std=c++17 main.cpp -o main -lcrypto && ./main"),
    "go": ("main_test.go", "GOCACHE=$PWD/cache GOFLAGS=-buildvcs=false GO111MODULE=off HOME=$PWD go test main_test.go"),
    "java": ("Main.java", f"javac -encoding UTF8 -cp {_JAVA} -d out Main.java && java -ea -cp out:{_JAVA} Problem"),
    "javascript": ("main.js", "node main.js"),
    "rust": ("main.rs", "rustc --edition 2021 main.rs -o main 2>&1 && ./main"),
    "typescript": ("main.ts", "tsc --target es2020 --skipLibCheck main.ts; node main.js"),
    "php": ("main.php", "php -f main.php"),
    "perl": ("main.pl", "perl main.pl"),
    "lua": ("main.lua", "lua main.lua"),
    "r": ("main.R", "Rscript main.R"),
    "ruby": ("main.rb", "ruby main.rb"),
    "bash": ("main.sh", "bash main.sh"),
}
"""By language: the file, and the shell command that compiles and runs it."""

_OWN_RUN = re.compile(r"^[ \t]*(?:(?:int|fn|func|public static void) main\(|func Test\w*\()", re.MULTILINE)
_IMPORTED = re.compile(r'^(?:import)?[ \t]*"([\w/]+)"$', re.MULTILINE)
_INCLUDED = re.compile(r"^#[ \t]*include\b.*$", re.MULTILINE)
_HEAD = re.compile(r'^(?:package \w+|import \((?s:.*?)\)|import "[^"]+")$', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*")
_FENCE = re.compile(r"```[^\n]*\n(.*?)(?:^```|\Z)", re.MULTILINE | re.DOTALL)


def published_program(row: dict[str, Any]) -> str:
    """The program that a row's `gpt_solution` and tests make.

    The first fence replaces the prompt, and what the answer runs itself (its `main`, its tests) is cut off. Where the
    tests begin with the end of the function, the answer loses its own.
    """
    found = _FENCE.search(row["gpt_solution"])
    code = whole = row["gpt_solution"] if found is None else found[1]
    own = _OWN_RUN.search(code)
    if own is not None:
        code = code[: own.start()]
    if row["language"] == "go_test.go":
        return _file_of_go(code, whole, row)
    if row["language"] == "cpp":
        # The tests need those of the prompt, whether or not the answer has them.
        code = "\n".join([*_INCLUDED.findall(row["prompt"]), code])
    if row["tests"].lstrip().startswith("}"):
        # Of the class, too, if no `main` in it was cut off.
        for _ in range(2 if row["language"] == "java" and own is None else 1):
            # Not one in a comment, where answers quote how they are used.
            last = _COMMENT.sub(lambda found: " " * len(found[0]), code).rfind("}")
            code = code[:last] + code[last + 1 :] if last >= 0 else code
    return f"{code}\n{row['tests']}"


# An import that the whole answer does not use stays: Go refuses that answer, with or without tests.
def _file_of_go(code: str, whole: str, row: dict[str, Any]) -> str:
    paths = {"testing", "fmt", *_IMPORTED.findall(code)}
    body = _HEAD.sub("", code)
    after, before = f"{body}\n{row['tests']}", _HEAD.sub("", whole)
    names = {path: f"{path.rpartition('/')[2]}." for path in sorted(paths)}
    given = {"testing", "fmt"}
    used = [path for path, name in names.items() if name in after or (path not in given and name not in before)]
    lines = [row["prompt"].lstrip().partition("\n")[0], *(f'import "{path}"' for path in used)]
    return "\n".join([*lines, body, row["tests"]])


def run_programs(
    programs: Sequence[tuple[str, str]], job: Job, *, timeout_seconds: float = 60.0, concurrency: int = 2
) -> list[tuple[int | None, str]]:
    """The exit status of each program, None if it ran out of time, and the end of what it printed."""
    ends: list[tuple[int | None, str]] = [(None, "")] * len(programs)
    flying: dict[Launch, int] = {}
    waiting = list(enumerate(programs))[::-1]
    while waiting or flying:
        while waiting and len(flying) < concurrency:
            number, (language, source) = waiting.pop()
            file, command = COMMANDS[language]
            script = f"mkdir /tmp/plain && cd /tmp/plain && cat > {file} && {{ {command}; }} < /dev/null 2>&1"
            request = Command(("bash", "-c", script), source.encode(), timeout_seconds)
            flying[job.launch(request)] = number
        for launch in job.wait_any():
            number = flying.pop(launch)
            with suppress(InfrastructureError):
                outcome = job.collect(launch)
                ends[number] = outcome.exit_code, outcome.stdout.decode(errors="replace")[-2000:]
    return ends


def rows_of(path: str) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
