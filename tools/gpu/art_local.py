"""Verifies `sandrl art train --backend local` on a GPU, end to end, with a small model.

    python tools/gpu/art_local.py
    python tools/gpu/art_local.py --model DIRECTORY           # without network, once ART's vLLM is installed
    python tools/gpu/art_local.py --rollout tools             # episodes with tool calls

It needs an environment with `pip install '.[art-local]'`, one NVIDIA GPU with 16 GiB of memory or more, 30 GiB of
disk space, and the model: from the hub (1.5 GB), from its cache, or from a directory. Nearly all memory of the GPU must
be free: vLLM takes nine tenths of it by default, and ART sets no other share. On its first use ART installs vLLM into
its own environment, with `uv` and from the network. The sizes are estimates.

It trains adapters for a few steps on the problems that come with sandrl, with the model itself as the actor. Then it
does so again, kills that run with SIGKILL and resumes it. Last, it trains for a step on the episodes of the first run
as if a teacher had sampled them, so that vLLM scores their tokens.

Exit code: 0 if every check passes, 1 if one fails, 2 if something that it needs is missing.
"""

import argparse
import shutil
import sys
from os import environ
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sandrl.errors import UsageError
from sandrl.runs import RunReader
from sandrl.trainers.art.libraries import check_installed
from tools.gpu import checks
from tools.gpu.preconditions import Needs
from tools.gpu.report import Check
from tools.gpu.verification import Verification, execute, make_parser

MODEL = "Qwen/Qwen3-0.6B"
_NEEDS = Needs("art-local", ("art", "unsloth"), gpu_gib=16.0, disk_gib=30.0, gpu_share=0.92)
_NEEDS_ON_CPU = Needs("art-tinker", ("art", "tinker"), gpu_gib=0.0, disk_gib=1.0)
_MILESTONE = r"Step {step}/"


def main(words: list[str] | None = None) -> int:
    """Runs the script; returns its exit code."""
    parser = make_parser(__doc__, model=MODEL, steps=6, problems="bundled", has_cpu=True)
    parser.add_argument(
        "--rollout", choices=("attempts", "tools"), default="attempts", help="the kind of episode (default: attempts)"
    )
    arguments = parser.parse_args(words)
    return execute(
        arguments,
        "art-local",
        _NEEDS_ON_CPU if arguments.on_cpu else _NEEDS,
        lambda: verification(arguments),
        on_gpu=not arguments.on_cpu,
        further=lambda: _check_art(on_gpu=not arguments.on_cpu),
    )


def verification(arguments: argparse.Namespace) -> Verification:
    """What is run, and what must hold of it."""
    is_local = not arguments.on_cpu
    model = ("--base-model", arguments.model, "--problems", arguments.problems, "--rollout", arguments.rollout)
    options = (
        *(("--backend", "local", *model, "--max-tokens", "512") if is_local else ("--backend", "embedded")),
        *("--num-problems", "4", "--samples", "4", "--length-penalty", "0.1"),
    )
    return Verification(
        "sandrl art train --backend " + ("local" if is_local else "embedded"),
        ("art", "train"),
        (*options, "--policy", "trained"),
        steps=arguments.steps,
        kill_after=arguments.steps // 2,
        milestone=_MILESTONE,
        is_art=True,
        on_gpu=is_local,
        has_checkpoints=is_local,
        further=_found if is_local else (lambda reader, text: []),
        scored=(*options, "--policy", "teacher"),
        environment={"VLLM_LOGGING_LEVEL": "INFO"},
        timeout_seconds=60 * arguments.timeout_minutes,
    )


def _check_art(*, on_gpu: bool) -> None:
    """Makes sure that ART is the release that is known, and that its vLLM is there or can be installed."""
    check_installed("art-local" if on_gpu else "art-tinker")
    if not on_gpu:
        return
    if not environ.get("ART_VLLM_RUNTIME_BIN") and shutil.which("uv") is None:
        raise UsageError(
            "ART installs its vLLM with uv, and uv is not on the PATH",
            hint="pip install uv, or set ART_VLLM_RUNTIME_BIN to the server of an installed one",
        )


def _found(reader: RunReader, text: str) -> list[Check]:
    return [checks.sleep_check(checks.printed_by(reader, text)), checks.logprobs_check(reader)]


if __name__ == "__main__":
    sys.exit(main())
