"""Runs the commands of a page as a reader does: in one directory, in their order, in one shell after another."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sandrl.runtime import daemon
from tests.support.pages import Block, Page, pages

BLOCK_SECONDS = 1800
READY_SECONDS = 120
# Variables and the directory go on from one block to the next, as they do in the shell of a reader.
_SHELL = """
set -a
[ ! -e "$PAGE_SHELL" ] || . "$PAGE_SHELL"
trap 'code=$?; {{ export -p; printf "cd %q\\n" "$PWD"; }} > "$PAGE_SHELL"; exit $code' EXIT
set -euo pipefail
{script}
"""
_ADDRESS = re.compile(r"https?://\S+")
_SERVERS = re.compile(r"\bsandrl (?:\S+ )?(?:serve|view)\b")


@dataclass
class PageRun:
    """A page whose blocks are being run."""

    directory: Path
    environment: Mapping[str, str]
    output: dict[int, str] = field(default_factory=dict)
    _servers: list[tuple[Block, subprocess.Popen[bytes]]] = field(default_factory=list)

    def run(self, block: Block) -> None:
        """Writes the file that a block shows, or runs its commands.

        Raises:
            AssertionError: If it does not end as the page says.
        """
        if block.title is not None:
            path = self.directory / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            self._console(block)
        elif "background" in block.classes:
            self._serve(block)
        elif block.language == "python":
            self._expect(block, [sys.executable, "-c", block.text])
        else:
            self._expect(block, ["bash", "-c", _SHELL.format(script=block.text)])

    def _expect(self, block: Block, command: list[str]) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BLOCK_SECONDS,
            check=False,
        )
        self.output[block.line] = self.output.get(block.line, "") + done.stdout
        assert done.returncode == block.exit_code, (
            f"{block.place} ended with {done.returncode}, not {block.exit_code}:\n{block.text}\n"
            f"{done.stdout}\n{done.stderr}"
        )
        return done

    def _console(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            done = self._expect(block, ["bash", "-c", _SHELL.format(script=command)])
            printed = done.stdout + (done.stderr if block.exit_code else "")
            # A program that is known to be right runs where a verdict on other code is to be trusted, not each time.
            lines = [line.rstrip() for line in printed.splitlines() if not line.startswith("Canaries: ")]
            text = "\n".join(lines).strip("\n") + "\n"
            assert re.fullmatch(_pattern(shown), text), f"{block.place}: $ {command}\nprints\n{printed}"

    def _serve(self, block: Block) -> None:
        log = self.directory.parent / f"background-{block.line}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                ["bash", "-c", _SHELL.format(script=block.text)],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._servers.append((block, process))
        is_server = bool(_SERVERS.search(block.text))
        deadline = time.monotonic() + (READY_SECONDS if is_server else 2)
        while time.monotonic() < deadline and not (is_server and _ADDRESS.search(log.read_text("utf-8", "replace"))):
            if process.poll() is not None:
                break
            time.sleep(0.05)
        printed = log.read_text("utf-8", "replace")
        assert process.poll() in (None, 0), f"{block.place} ended with {process.returncode}:\n{printed}"
        assert not is_server or _ADDRESS.search(printed), f"{block.place} printed no address:\n{printed}"

    def close(self) -> None:
        """Ends what runs in the background, as Ctrl-C does.

        Raises:
            AssertionError: If a program does not end, or not as a program that was stopped.
        """
        for block, process in reversed(self._servers):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            try:
                code = process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise AssertionError(f"{block.place} does not end after Ctrl-C") from None
            assert code in (0, 130, -signal.SIGINT), f"{block.place} ended with {code} after Ctrl-C"


# `…` is any text, and on a line of its own any lines.
def _pattern(shown: str) -> str:
    lines = []
    for line in shown.strip("\n").splitlines():
        # Each repetition takes one whole line: a pattern that can split a line takes exponential time.
        is_any = line.strip() == "…"
        lines.append(r"(?:.*\n)*" if is_any else ".*".join(map(re.escape, line.rstrip().split("…"))) + "\n")
    return "".join(lines)


@contextmanager
def page_run(folder: Path) -> Iterator[PageRun]:
    """A directory, a home and a local runtime of one page; all that it started has ended afterwards."""
    programs, directory = folder / "bin", folder / "page"
    state = folder / "state"
    for path in (programs, directory, folder / "home", state):
        path.mkdir(mode=0o700)
    for name, words in {"sandrl": (sys.executable, "-m", "sandrl"), "python": (sys.executable,)}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("SANDRL_RUNS_DIR", "BASH_ENV")},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "SANDRL_STATE_DIR": str(state),
        "SANDRL_CONFIG_DIR": str(folder / "home" / "config"),
        "PAGE_SHELL": str(folder / "shell"),
        "OMP_NUM_THREADS": "1",
    }
    running = PageRun(directory, environment)
    try:
        yield running
    finally:
        try:
            running.close()
        finally:
            daemon.stop(state)


def pages_needing(extra: str) -> list[Page]:
    """The pages with commands that need this extra."""
    return [page for page in pages() if any(block.extra == extra and block.is_run_here for block in page.blocks)]


def run_page(page: Page, folder: Path, *, extra: str | None = None) -> PageRun:
    """Runs the blocks of a page that need no extra, or this one.

    A block that needs what another has made needs the same extra.

    Raises:
        AssertionError: If a block does not end as the page says.
    """
    with page_run(folder) as running:
        for block in page.blocks:
            if block.title is not None or (block.is_run_here and block.extra in (None, extra)):
                running.run(block)
    return running
