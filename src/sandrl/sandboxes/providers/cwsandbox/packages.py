"""Installs packages in a sandbox of the service, with the pip of its image, before the first command of the sandbox.

The installation is a part of that command, so that the SDK creates, waits and runs in one call as for any other. It has
time of its own. A random word marks its message, because a completion may print and exit as it likes.
"""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass, field, replace

from sandrl.errors import UsageError
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.providers.protocol import Packages, Result

SECONDS = 600.0
"""How much longer the first command of a sandbox may take."""

_PIP_SECONDS = 540
_FAILED = 96
_MARK = "/tmp/.sandrl-packages"
_SHOWN = 300


@dataclass(slots=True)
class Installation:
    """The packages of one sandbox.

    Attributes:
        packages: The packages; `needed` has requirements only.
        is_done: Whether a command has ended in the sandbox, so that they are installed.
    """

    packages: Packages
    is_done: bool = False
    _word: str = field(default_factory=lambda: secrets.token_hex(16))

    def before(self, command: Command) -> Command:
        if self.is_done or self.packages == Packages():
            return command
        return replace(command, argv=self.words(command.argv), timeout_seconds=command.timeout_seconds + SECONDS)

    def words(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        if self.packages == Packages():
            return argv
        pip = ["python", "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        pip += ["--root-user-action", "ignore"]

        def install(requirements: tuple[str, ...]) -> str:
            return f"$limit {shlex.join([*pip, *requirements])}" if requirements else "true"

        needed = self.packages.needed
        each = "".join(f" {install((one,))};" for one in needed) if len(needed) > 1 else ""
        script = (
            f"if ! [ -e {_MARK} ]; then limit=; command -v timeout >/dev/null && limit='timeout {_PIP_SECONDS}'\n"
            f"{install(self.packages.asked)} >{_MARK}.log 2>&1 </dev/null ||"
            f" {{ echo {self._word} >&2; tail -n 2 {_MARK}.log >&2; exit {_FAILED}; }}\n"
            f"{{ {install(needed)} || {{{each} true; }}; }} >{_MARK}.log 2>&1 </dev/null\n"
            f'touch {_MARK}; fi; exec "$@"'
        )
        return ("sh", "-c", script, "sh", *argv)

    def checked(self, result: Result) -> Result:
        """The result of a command.

        Raises:
            UsageError: If the packages could not be installed before it.
        """
        if not self.is_done and result.exit_code == _FAILED and self._word.encode() in result.stderr:
            told = result.stderr.decode("utf-8", "replace").rpartition(self._word)[2].split("\n")
            reason = " ".join(line.strip().removeprefix("ERROR: ") for line in told if line.strip())[-_SHOWN:]
            names = ", ".join(self.packages.asked)
            raise UsageError(
                f"packages: {names} cannot be installed in a sandbox: {reason or 'pip failed'}",
                hint="change the packages, or set `image` to an image that has them",
                fields=("packages", "image"),
            )
        self.is_done = True
        return result
