r"""Verifies `sandrl grpo` with vLLM on a GPU, end to end, with a small model.

    python tools/gpu/grpo_vllm.py                             # vLLM on the GPU that trains, with its sleep mode
    python tools/gpu/grpo_vllm.py --model DIRECTORY           # without network
    python tools/gpu/grpo_vllm.py --server-url http://HOST:8000   # a vLLM server on another GPU

It needs an environment with `pip install '.[vllm]'`, one NVIDIA GPU with 20 GiB of free memory, 30 GiB of disk
space for checkpoints, and the model: from the hub (1 GB), from its cache, or from a directory. The sizes are estimates.

A server must be started before, on a separate GPU, as TRL's page on vLLM describes:

    VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --weight-transfer-config '{"backend": "nccl"}' \
        --logprobs-mode processed_logprobs --max-logprobs -1

It trains the model for a few steps on the problems that come with sandrl. Then it does so again, kills that run with
SIGKILL and resumes it.

Exit code: 0 if every check passes, 1 if one fails, 2 if something that it needs is missing.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sandrl.errors import ServiceError, UsageError
from sandrl.models import libraries
from sandrl.problems.hub import hub_answers
from sandrl.runs import RunReader
from tools.gpu import checks
from tools.gpu.preconditions import Needs
from tools.gpu.report import Check
from tools.gpu.verification import Verification, execute, make_parser, skipped

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
_NEEDS = Needs("vllm", (*libraries.PACKAGES, "vllm"), gpu_gib=20.0, disk_gib=30.0)
_NEEDS_ON_CPU = Needs("grpo", libraries.PACKAGES, gpu_gib=0.0, disk_gib=1.0)
_MILESTONE = r"Checkpoint: {step} steps,"
_SLEEPS = "vLLM's sleep mode freed GPU memory"


def main(words: list[str] | None = None) -> int:
    """Runs the script; returns its exit code."""
    parser = make_parser(__doc__, model=MODEL, steps=6, problems="bundled", has_cpu=True)
    parser.add_argument("--server-url", metavar="URL", help="generate with the vLLM server at this address")
    parser.add_argument("--no-sleep", action="store_true", help="leave vLLM's sleep mode off")
    parser.add_argument(
        "--gpu-memory-utilization", type=float, default=0.3, help="vLLM's share of the memory (default: %(default)g)"
    )
    parser.add_argument(
        "--most-logprob-difference",
        type=float,
        default=0.1,
        help="the most that vLLM's logprobs may differ on average (default: %(default)g)",
    )
    arguments = parser.parse_args(words)
    needs = _NEEDS_ON_CPU if arguments.on_cpu else _NEEDS
    return execute(
        arguments,
        "grpo-vllm",
        needs,
        lambda: verification(arguments),
        on_gpu=not arguments.on_cpu,
        further=lambda: _check_server(arguments),
    )


def verification(arguments: argparse.Namespace) -> Verification:
    """What is run, and what must hold of it."""
    title = "sandrl grpo --vllm " + ("server" if arguments.server_url else "colocate")
    if arguments.on_cpu:
        return Verification(
            "sandrl grpo on the processor, without vLLM",
            ("grpo",),
            (*tiny_options(), "--eval-greedy"),
            steps=arguments.steps,
            kill_after=arguments.steps // 2,
            milestone=_MILESTONE,
            on_gpu=False,
            further=lambda reader, text: _found(reader, text, arguments),
            timeout_seconds=60 * arguments.timeout_minutes,
        )
    generation = ["--vllm", "colocate", "--set", f"vllm_gpu_memory_utilization={arguments.gpu_memory_utilization}"]
    if not arguments.no_sleep:
        generation += ["--set", "vllm_enable_sleep_mode=true"]
    if arguments.server_url:
        generation = ["--vllm", "server", "--vllm-server-url", arguments.server_url]
    return Verification(
        title,
        ("grpo",),
        (*real_options(arguments), "--learning-rate", "1e-5", "--eval-greedy", *generation),
        steps=arguments.steps,
        kill_after=arguments.steps // 2,
        milestone=_MILESTONE,
        further=lambda reader, text: _found(reader, text, arguments),
        # Its lines about sleep are of this level.
        environment={"VLLM_LOGGING_LEVEL": "INFO"},
        timeout_seconds=60 * arguments.timeout_minutes,
    )


def tiny_options() -> tuple[str, ...]:
    """The options of `sandrl grpo` and `sandrl unsloth` where the script is tried on the processor."""
    return (
        *("--model", "tiny", "--batch-size", "16", "--samples", "8", "--save-steps", "1", "--keep-checkpoints", "2"),
        # Lengths differ in every group, so that every step has a gradient.
        *("--eval-problems", "4", "--length-penalty", "0.1", "--set", "warmup_steps=0"),
    )


def real_options(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The options of `sandrl grpo` and `sandrl unsloth` on a GPU."""
    return (
        *("--model", arguments.model, "--problems", arguments.problems, "--batch-size", "16", "--samples", "4"),
        *("--save-steps", "1", "--keep-checkpoints", "2", "--eval-problems", "8", "--max-tokens", "256"),
        *("--length-penalty", "0.1"),
    )


def _check_server(arguments: argparse.Namespace) -> None:
    if arguments.server_url is None:
        return
    if arguments.on_cpu:
        raise UsageError("--server-url: the processor trains without vLLM")
    if not hub_answers(f"{arguments.server_url.rstrip('/')}/health"):
        raise ServiceError(f"no vLLM server answers at {arguments.server_url}", hint="--help shows how to start it")


def _found(reader: RunReader, text: str, arguments: argparse.Namespace) -> list[Check]:
    found = [checks.evaluation_check(reader, arguments.steps)]
    if arguments.on_cpu:
        return [*found, skipped("vLLM generated in every step"), skipped(_SLEEPS)]
    found += checks.vllm_checks(reader, arguments.most_logprob_difference)
    if not arguments.server_url and not arguments.no_sleep:
        found.append(checks.sleep_check(checks.printed_by(reader, text)))
    return found


if __name__ == "__main__":
    sys.exit(main())
