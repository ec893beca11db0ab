"""Measures the cost of a second reward function: called after the function of sandrl, against both at once.

`python -m benchmarks.reward_overlap` rewards the completions of a step by sandboxes and by a second function that
waits, as a function that calls a model does. `serial` calls one after the other, as TRL calls plain reward functions;
`overlapped` awaits `sandrl.combined_rewards(...).as_async()`, as TRL awaits a coroutine function. They take turns, on
completions that no other round has. The least that `overlapped` can take is the longer of the two parts.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import sandrl
from sandrl.problems import Problem

PROBLEM = Problem("double", "Write `double(n)`.", tests=("assert double(2) == 4", "assert double(-1) == -2"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--completions", type=int, default=64)
    parser.add_argument("--other-seconds", type=float, default=2.0, help="how long the second function waits")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    async def other(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        await asyncio.sleep(arguments.other_seconds)
        return [0.0] * len(completions)

    async def both(prompts: Sequence[Any], completions: Sequence[Any]) -> list[float | None]:
        return await sandrl.combined_rewards(function, (other, 0.5)).as_async()(prompts, completions)

    with sandrl.reward_function([PROBLEM]) as function:
        ways: dict[str, Callable[[list[str], list[str]], list[float | None]]] = {
            "sandboxes": lambda prompts, completions: function(prompts, completions),
            "serial": lambda prompts, completions: [
                *function(prompts, completions),
                *asyncio.run(other(prompts, completions)),
            ][: len(completions)],
            "overlapped": lambda prompts, completions: asyncio.run(both(prompts, completions)),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(arguments.rounds + 1):
            for name, way in ways.items():
                completions = [_completion(f"{number} {name} {each}") for each in range(arguments.completions)]
                began = time.monotonic()
                rewards = way([PROBLEM.prompt] * len(completions), completions)
                seconds[name].append(time.monotonic() - began)
                if any(reward != 1.0 for reward in rewards):
                    raise SystemExit(f"{name}: a completion did not pass")
    # The first round loads what later ones find loaded.
    middle = {name: statistics.median(each[1:]) for name, each in seconds.items()}
    for name, each in middle.items():
        print(f"{name}: {each:.2f} s for {arguments.completions} completions (median of {arguments.rounds})")
    least = max(middle["sandboxes"], arguments.other_seconds)
    print(
        f"overlapped / serial: {middle['overlapped'] / middle['serial']:.2f} (at best {least / middle['serial']:.2f})"
    )


def _completion(comment: str) -> str:
    return f"<answer># {comment}\ndef double(n):\n    return 2 * n</answer>"


if __name__ == "__main__":
    main()
