"""The tools of an episode, as trainers want them: methods whose names, types and docstrings are what a model is told.

The design decision: a submission is only kept here. It is judged after the episode, in a fresh sandbox with the judge's
own isolation, because whatever the policy did to the sandbox it worked in, or left there, must not decide its reward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandrl.rollouts.workbench import Workplace

# Programs that the tools run; what they work on comes through standard input, and only names through arguments.
_READ = """import sys
try:
    sys.stdout.write(open(sys.argv[1], encoding="utf-8", errors="replace").read())
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error.strerror}")
"""
_WRITE = """import os, sys
try:
    os.makedirs(os.path.dirname(sys.argv[1]) or ".", exist_ok=True)
    with open(sys.argv[1], "wb") as file:
        file.write(sys.stdin.buffer.read())
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error.strerror}")
"""


class CodeTools:
    """An episode in which a policy may execute code, and submits its solution.

    Args:
        workshop: Where its sandbox comes from.

    Attributes:
        submission: The code that was submitted first; empty if none was.
        workbench: The episode's sandbox; to be closed when the episode is over.
    """

    def __init__(self, workshop: Workplace) -> None:
        self._workshop = workshop
        self.submission = ""
        self.workbench = workshop.bench("")

    def reset(self, **row: Any) -> None:
        """Begins another episode.

        Args:
            row: The row of the dataset it is about, of which `task_id` is used.
        """
        self.workbench.close()
        self.submission = ""
        self.workbench = self._workshop.bench(str(row.get("task_id", "")))

    def execute_code(self, code: str) -> str:
        """Run a Python program and return what it prints.

        Args:
            code: The program.

        Returns:
            Its output, and how it ended if not well.
        """
        return self.workbench.run("python", "-", stdin=code)

    def submit_solution(self, code: str) -> str:
        """Submit the solution of the task. Only the first submission counts.

        Args:
            code: The Python code of the solution.

        Returns:
            Whether it was taken.
        """
        if self.submission:
            return "error: a solution was submitted before"
        self.submission = code
        return "Submitted."


class AllTools(CodeTools):
    """An episode with a shell and files, too."""

    def bash(self, command: str) -> str:
        """Run a shell command and return what it prints.

        Args:
            command: The command.

        Returns:
            Its output, and its exit code if not 0.
        """
        return self.workbench.run("sh", "-s", stdin=command)

    def read_file(self, path: str) -> str:
        """Read a text file.

        Args:
            path: Where it is.

        Returns:
            Its text, or why it cannot be read.
        """
        return self.workbench.run("python", "-c", _READ, path)

    def write_file(self, path: str, content: str) -> str:
        """Write a text file, with the directories it needs.

        Args:
            path: Where.
            content: Its text.

        Returns:
            Nothing to speak of, or why it cannot be written.
        """
        return self.workbench.run("python", "-c", _WRITE, path, stdin=content)


ToolsFactory = Callable[[], CodeTools]


def tools_factory(name: str, workshop: Workplace) -> ToolsFactory:
    """What makes the environments of episodes.

    Args:
        name: `code` or `all`.
        workshop: Where sandboxes come from.
    """
    kind = {"code": CodeTools, "all": AllTools}[name]
    return lambda: kind(workshop)
