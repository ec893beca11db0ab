"""Verifies GRPO with vLLM, Unsloth in 4 bits and ART's local backend on a GPU, one after the other, with one report.

    python tools/gpu/all.py                                        # makes an environment for each, which takes minutes
    python tools/gpu/all.py --only unsloth_4bit                    # one of them
    python tools/gpu/all.py --python grpo_vllm=.venv/bin/python    # with an environment that is there

It needs one NVIDIA GPU with 20 GiB of free memory, nearly all of its memory for ART, 60 GiB of disk space, a package
index (`pip install`), and the models of the scripts from the hub, or its cache. The sizes are estimates. It
needs no package but those of sandrl itself (`pip install .`).

The libraries do not fit into one environment, so each script runs in its own. Nothing is installed before a GPU is
found. A script whose requirements are missing does not stop the others. The report, `report.md` in the directory of
the runs, has a line for each script, and then the report of each.

Exit code: 0 if every check passes, 1 if one fails, 2 if something that is needed is missing.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sandrl.errors import SandrlError, UsageError
from tools.gpu.machine import look_at_gpu
from tools.gpu.report import State, masked
from tools.gpu.verification import default_work

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS: Mapping[str, str] = {"grpo_vllm": "vllm", "unsloth_4bit": "unsloth", "art_local": "art-local"}
"""The scripts, in order, with the extra of sandrl that each needs."""

_MISSING = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a script ended.

    Attributes:
        code: Its exit code.
        states: How many of its checks ended in each state.
        text: What it has printed.
    """

    script: str
    code: int
    states: Mapping[State, int]
    text: str

    @property
    def line(self) -> str:
        """The outcome as a row of a table."""
        result = {0: "PASS", _MISSING: "MISSING"}.get(self.code, "FAIL")
        return f"| `{self.script}.py` | {result} | {' | '.join(str(self.states[state]) for state in State)} |"


def main(words: list[str] | None = None) -> int:
    """Runs the script; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[*SCRIPTS], help="run this script; repeatable")
    parser.add_argument(
        "--python", action="append", default=[], metavar="SCRIPT=PYTHON", help="run it with this Python"
    )
    parser.add_argument("--work", type=Path, help="a new directory for the runs and the report (default: below runs)")
    parser.add_argument("--steps", type=int, default=6, help="steps of each run, 4 or more (default: 6)")
    parser.add_argument("--on-cpu", action="store_true", help="try the scripts without a GPU, on the tiny policy")
    arguments = parser.parse_args(words)
    work: Path = arguments.work or default_work("all")
    try:
        pythons = _pythons(arguments.python)
        if work.exists():
            raise UsageError(f"{work} is there already", hint="--work DIRECTORY takes a new directory")
        if not arguments.on_cpu:
            look_at_gpu()
    except SandrlError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return _MISSING
    work.mkdir(parents=True)
    options = ["--steps", str(arguments.steps), *(["--on-cpu"] if arguments.on_cpu else [])]
    outcomes = [_run(name, pythons.get(name), work.absolute(), options) for name in arguments.only or SCRIPTS]
    report = _report(outcomes)
    (work / "report.md").write_text(report, encoding="utf-8")
    print(report)
    print(f"The report is in {work / 'report.md'}.", file=sys.stderr)
    codes = {outcome.code for outcome in outcomes}
    return 1 if codes - {0, _MISSING} else max(codes)


def _pythons(given: list[str]) -> dict[str, str]:
    found = {}
    for word in given:
        name, _, path = word.partition("=")
        if name not in SCRIPTS or not Path(path).is_file():
            raise UsageError(f"--python {word}: must be SCRIPT=PYTHON, with a script of {', '.join(SCRIPTS)}")
        found[name] = path
    return found


def _run(name: str, python: str | None, work: Path, options: list[str]) -> Outcome:
    none = dict.fromkeys(State, 0)
    try:
        python = python or _environment(SCRIPTS[name], work)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or "").strip().split("\n")[-1]
        message = f"error: the environment for sandrl[{SCRIPTS[name]}] cannot be made: {said}"
        return Outcome(name, _MISSING, none, message)
    document, log = work / f"{name}.json", work / f"{name}.log"
    print(f"{name}: {python}; its progress: {log}", file=sys.stderr, flush=True)
    argv = [python, str(ROOT / "tools" / "gpu" / f"{name}.py"), *options, "--work", str(work / name)]
    with log.open("w", encoding="utf-8") as progress:
        done = subprocess.run(
            [*argv, "--json", str(document)], stdout=subprocess.PIPE, stderr=progress, text=True, check=False
        )
    if not document.is_file():
        return Outcome(name, done.returncode or 1, none, done.stdout + log.read_text("utf-8", "replace")[-2000:])
    states = [check["state"] for check in json.loads(document.read_text("utf-8"))["checks"]]
    return Outcome(name, done.returncode, {state: states.count(state) for state in State}, done.stdout)


def _environment(extra: str, work: Path) -> str:
    # Beside the runs: an environment of one report is not used by another one.
    place = work / f"venv-{extra}"
    print(f"installing sandrl[{extra}] into {place} …", file=sys.stderr, flush=True)
    python = str(place / "bin" / "python")
    for argv in ([sys.executable, "-m", "venv", str(place)], [python, "-m", "pip", "install", f"{ROOT}[{extra}]"]):
        subprocess.run(argv, capture_output=True, text=True, check=True)
    return python


def _report(outcomes: list[Outcome]) -> str:
    rows = [f"| script | result | {' | '.join(State)} |", "|---|---|---|---|---|", *(each.line for each in outcomes)]
    return masked("\n\n".join(["# GPU report", "\n".join(rows), *(each.text.strip() for each in outcomes)])) + "\n"


if __name__ == "__main__":
    sys.exit(main())
