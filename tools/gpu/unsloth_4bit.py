"""Verifies `sandrl unsloth` in 4 bits on a GPU, end to end, with a small model.

    python tools/gpu/unsloth_4bit.py
    python tools/gpu/unsloth_4bit.py --model DIRECTORY        # without network
    python tools/gpu/unsloth_4bit.py --vllm                   # also generates with Unsloth's vLLM engine

It needs an environment with `pip install '.[unsloth]'` (and `vllm` for `--vllm`), one NVIDIA GPU with 8 GiB of
free memory, 4 GiB of disk space, and the model: from the hub (0.5 GB), from its cache, or from a directory. A model
that is not in 4 bits is loaded in 4 bits. The sizes are estimates.

It trains adapters for a few steps on the problems that come with sandrl. Then it does so again, kills that run with
SIGKILL and resumes it.

Exit code: 0 if every check passes, 1 if one fails, 2 if something that it needs is missing.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sandrl.runs import RunReader
from sandrl.trainers.unsloth import UNSLOTH
from tools.gpu import checks
from tools.gpu.grpo_vllm import real_options, tiny_options
from tools.gpu.preconditions import Needs
from tools.gpu.report import Check
from tools.gpu.verification import Verification, execute, make_parser, skipped

_MILESTONE = r"Checkpoint: {step} steps,"


def main(words: list[str] | None = None) -> int:
    """Runs the script; returns its exit code."""
    parser = make_parser(__doc__, model=UNSLOTH.model, steps=6, problems="bundled", has_cpu=True)
    parser.add_argument("--vllm", action="store_true", help="generate with Unsloth's own vLLM engine")
    arguments = parser.parse_args(words)
    packages = (*UNSLOTH.packages, *(() if arguments.on_cpu else ("bitsandbytes",)), *(("vllm",) * arguments.vllm))
    needs = Needs(UNSLOTH.extra, packages, gpu_gib=8.0, disk_gib=4.0)
    return execute(arguments, "unsloth-4bit", needs, lambda: verification(arguments), on_gpu=not arguments.on_cpu)


def verification(arguments: argparse.Namespace) -> Verification:
    """What is run, and what must hold of it."""
    generation = ("--vllm", "colocate", "--set", "vllm_gpu_memory_utilization=0.5") if arguments.vllm else ()
    options = tiny_options() if arguments.on_cpu else (*real_options(arguments), *generation)
    return Verification(
        "sandrl unsloth " + ("on the processor" if arguments.on_cpu else "in 4 bits"),
        ("unsloth",),
        (*options, "--eval-greedy"),
        steps=arguments.steps,
        kill_after=arguments.steps // 2,
        milestone=_MILESTONE,
        on_gpu=not arguments.on_cpu,
        further=lambda reader, text: _found(reader, text, arguments),
        timeout_seconds=60 * arguments.timeout_minutes,
    )


def _found(reader: RunReader, text: str, arguments: argparse.Namespace) -> list[Check]:
    bits = skipped("the trained model is in 4 bits") if arguments.on_cpu else checks.bits_check(text)
    found = [checks.evaluation_check(reader, arguments.steps), bits, checks.adapters_check(text)]
    return found + (checks.vllm_checks(reader, 0.2) if arguments.vllm and not arguments.on_cpu else [])


if __name__ == "__main__":
    sys.exit(main())
