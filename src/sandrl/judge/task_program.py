"""The verifier of a problem that was written as a task: judges the answer's file, as a judge of sandrl would.

This file is copied into the task as it is, and runs there with the Python of the task's image. It reads everything that
it needs and removes its directory before the answer runs, and it runs the answer as another user where it can. So an
answer finds no checks, and cannot write the reward.
"""

from __future__ import annotations

import base64
import contextlib
import json
import marshal
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import zlib
from typing import Any

PLAN = "problem.json"
_LOGS = "/logs/verifier"
_MOST_ANSWER_BYTES = 8 << 20
_HEADER_BYTES = 64
_USER = "nobody"
_FIELDS = 13
# A status that the way of judging may have brought about.
_DOUBTFUL = ("failed", "crashed", "not_isolated", "timeout")
_INVALID = "invalid_problem"


class NoVerdictError(Exception):
    """The problem, or this machine, allows no verdict: there is no reward."""


class Said:
    """What the judge has said: the status, the letters of the checks, and whether all have passed."""

    def __init__(self, status: str, letters: str, detail: str) -> None:
        self.status = status
        self.letters = letters
        self.detail = detail

    @property
    def passes(self) -> bool:
        return self.status == "passed"


class Verifier:
    def __init__(self, directory: str) -> None:
        with open(os.path.join(directory, PLAN), encoding="utf-8") as file:
            self.plan: dict[str, Any] = json.load(file)
        self.programs: dict[str, bytes] = {}
        for way in self.plan["ways"].values():
            for name in way["program"]:
                with open(os.path.join(directory, name), "rb") as file:
                    self.programs[name] = zlib.compress(file.read())

    def judge(self, code: str) -> Said:
        """What is said of the answer."""
        if "together" not in self.plan["ways"]:
            return self.run("apart", code)
        if not self.is_split():
            return self.run("together", code)
        said = self.run("apart", code)
        may_need = self.plan["needs_one_process"] or (said.status == "not_isolated" and self.plan["hands_over"])
        if not said.passes and said.status in _DOUBTFUL and not self.plan["has_reference"] and may_need:
            return self.run("together", code)
        return said

    def is_split(self) -> bool:
        """Whether the checks mean the same apart from an answer, as known code shows that is right."""
        plan = self.plan
        if not plan["is_tried"]:
            return True
        if plan["obstacle"]:
            self.known("together")
            return False
        first = self.known("apart")
        is_refused = first.status == "not_isolated"
        if not plan["has_reference"]:
            return not is_refused
        for _ in range(plan["runs"] - 1):
            if first.passes:
                first = self.known("apart")
        if first.passes or first.status not in _DOUBTFUL:
            return True
        for _ in range(plan["runs"]):
            if not self.known("together").passes and not is_refused:
                return True
        return not is_refused and bool(plan["runs"] == 1) and self.known("apart").passes

    def known(self, way: str) -> Said:
        said = self.run(way, self.plan["known"])
        if said.status == _INVALID:
            raise NoVerdictError(said.detail)
        return said

    def run(self, name: str, code: str) -> Said:
        way = self.plan["ways"][name]
        request = marshal.loads(base64.b64decode(way["request"]))
        request["code"] = code
        body, hidden = marshal.dumps(request, 2), base64.b64decode(way["hidden"])
        key = secrets.token_hex(way["key_bytes"])
        parts = [self.programs[each] for each in way["program"]]
        # No interpreter has this number, so the program is compiled from its source.
        header = " ".join(["00", *(f"0 {len(part)}" for part in parts), str(len(body))])
        content = [header.encode().ljust(_HEADER_BYTES), parts[0], body, *parts[1:], hidden, key.encode()]
        ended, printed = started(self.plan["command"], b"".join(content), way["seconds"])
        if ended is None:
            return Said("timeout", "", "it stopped the judge's clock")
        fields = printed.rstrip(b"\n").rpartition(b"\n")[2].decode("ascii", "replace").split(" ")
        is_whole = len(fields) == _FIELDS and secrets.compare_digest(fields[0].encode(), key.encode())
        if is_whole and len(fields[2]) == way["checks"] and (fields[1] == "passed") == (ended == 0):
            detail = "" if fields[8] == "-" else bytes.fromhex(fields[8]).decode("utf-8", "replace")
            return Said(fields[1], fields[2], detail)
        if not 0 <= ended <= 128:
            return Said("crashed", "", f"it killed its judge (exit status {ended})")
        raise NoVerdictError(f"the judge ended with exit status {ended} and no verdict")


def started(command: list[str], content: bytes, seconds: float) -> tuple[int | None, bytes]:
    """The exit status (None if it took too long) and the output of a program, which runs as another user if it can."""
    with tempfile.TemporaryDirectory() as place:
        for user in (_USER, None):
            try:
                rights: dict[str, Any] = {}
                if user is not None:
                    rights = {"user": user, "group": group_of(user), "extra_groups": []}
                    shutil.chown(place, user)
                done = subprocess.run(
                    command, input=content, stdout=subprocess.PIPE, cwd=place, timeout=seconds, check=False, **rights
                )
            except subprocess.TimeoutExpired:
                return None, b""
            except (OSError, LookupError, subprocess.SubprocessError):
                if user is None:
                    raise
            else:
                return done.returncode, done.stdout
    raise NoVerdictError("the judge could not be started")


def group_of(user: str) -> int:
    import pwd

    return pwd.getpwnam(user).pw_gid


def answer_of(path: str) -> str | None:
    """The text of the answer; None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            content = file.read(_MOST_ANSWER_BYTES + 1)
    except OSError:
        return None
    return None if len(content) > _MOST_ANSWER_BYTES else content.decode("utf-8", "replace")


def emptied(directory: str) -> None:
    """Removes what is in a directory, as far as it can."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)


def report(said: Said, names: list[str]) -> None:
    """Writes the reward, and which checks have passed."""
    os.makedirs(_LOGS, exist_ok=True)
    emptied(_LOGS)
    states = {"p": "passed", "s": "skipped", "n": "skipped"}
    tests = [
        {"name": names[number] or f"check {number + 1}", "status": states.get(letter, "failed"), "duration": 0}
        for number, letter in enumerate(said.letters)
    ]
    summary = {"tests": len(tests), "pending": 0, "other": 0, "start": 0, "stop": 0}
    for state in ("passed", "failed", "skipped"):
        summary[state] = sum(test["status"] == state for test in tests)
    results = {"results": {"tool": {"name": "sandrl"}, "summary": summary, "tests": tests}}
    with open(os.path.join(_LOGS, "ctrf.json"), "w", encoding="utf-8") as file:
        json.dump(results, file)
    with open(os.path.join(_LOGS, "reward.txt"), "w", encoding="utf-8") as file:
        file.write("1\n" if said.passes else "0\n")


def main() -> None:
    directory = os.path.dirname(os.path.abspath(__file__))
    verifier = Verifier(directory)
    code = answer_of(verifier.plan["answer"])
    emptied(directory)
    try:
        said = (
            Said("failed", "", f"there is no file {verifier.plan['answer']}") if code is None else verifier.judge(code)
        )
    except NoVerdictError as error:
        sys.exit(f"no verdict: {error}")
    report(said, verifier.plan["names"])
    sys.stdout.write(f"{said.status}: {said.detail}\n" if said.detail else f"{said.status}\n")


if __name__ == "__main__":
    main()
