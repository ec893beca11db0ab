"""A process that trains with ART's own backend for Tinker.

`python -m tests.support.art_session MODEL ART_DIRECTORY STEPS` registers a model, asks its OpenAI-compatible server for
groups of two completions, trains on them, rewarding one and not the other, and prints what it saw as one line of JSON.
A second process with the same directory goes on where the first one ended. The address and the key of the Tinker server
are in the environment, as the SDK wants them.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

from art.tinker_native import TinkerNativeBackend

import art

QUESTION = "Write a function f that adds 1.\n\nYour code should pass this test:\n\n```python\nassert f(2) == 3\n```"


async def session(model_directory: str, art_directory: Path, steps: int) -> dict[str, Any]:
    """Trains for some steps.

    Returns:
        The step before and after, the metrics of each step, and what was sampled at the end, greedily.
    """
    backend = TinkerNativeBackend(path=str(art_directory))
    model = art.TrainableModel(
        name="tiny",
        project="sandrl",
        base_model=model_directory,
        _internal_config={
            "tinker_native_args": {"renderer_name": "qwen3_instruct", "training_client_args": {"rank": 8, "seed": 0}}
        },
    )
    try:
        # Unless it is told where, ART listens on every address of the machine.
        server = {"server_args": {"host": "127.0.0.1", "port": _free_port()}}
        await model.register(backend, _openai_client_config=server)
        seen: dict[str, Any] = {"before": await model.get_step(), "metrics": []}
        for _ in range(steps):
            choices = await _ask(backend, model, n=2, temperature=1.0)
            group = art.TrajectoryGroup(
                art.Trajectory(messages_and_choices=[{"role": "user", "content": QUESTION}, choice], reward=reward)
                for choice, reward in zip(choices, (1.0, 0.0), strict=True)
            )
            result = await backend.train(model, [group], learning_rate=1e-2, save_checkpoint=True)
            seen["metrics"].append(result.metrics)
        seen["after"] = await model.get_step()
        greedy = (await _ask(backend, model, temperature=0.0))[0]
        seen["tokens"] = [each.token for each in greedy.logprobs.content]
        seen["logprobs"] = [each.logprob for each in greedy.logprobs.content]
        seen["finish_reason"] = greedy.finish_reason
        return seen
    finally:
        await backend.close()


async def _ask(backend: Any, model: Any, **options: Any) -> Any:
    answer = await model.openai_client().chat.completions.create(
        model=backend._model_inference_name(model),
        messages=[{"role": "user", "content": QUESTION}],
        max_completion_tokens=12,
        logprobs=True,
        **options,
    )
    return answer.choices


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    print(json.dumps(asyncio.run(session(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))))  # noqa: T201
