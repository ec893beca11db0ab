"""tinker-cookbook's recipe `code_rl` as it is, on problems that a tiny model can learn.

`python -m tests.support.cookbook_session MODEL LOG STEPS` trains a model, first by examples (the recipe's own prompts,
answered right every second time), and from that checkpoint on by the recipe. Of the recipe only `load_dataset` is
replaced. The address and the key of the Tinker service are in the environment, and the address of the sandboxes in
SANDBOX_URL, as the cookbook takes them.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import tinker
from datasets import Dataset
from tinker_cookbook import renderers, tokenizer_utils
from tinker_cookbook.recipes.code_rl import code_env, train

RENDERER = "qwen3_instruct"
NUMBERS = (2, 3, 5, 7)
TIMES = 3
"""How often each problem is in the set: the recipe goes through it once."""

WARM_UP_STEPS = 40


def rows() -> list[dict[str, Any]]:
    """Problems in the rows of DeepCoder: programs that multiply a number."""
    found = []
    for number in NUMBERS:
        cases = [{"input": f"{each}\n", "output": f"{each * number}\n", "type": "stdin_stdout"} for each in (1, 4, 9)]
        found.append({"problem": f"Print n times {number}.", "tests": json.dumps(cases), "metadata": "{}"})
    return found


def load_dataset(place: str, *, name: str, split: str) -> Dataset:
    """What `datasets.load_dataset` would give: these rows, under one of the names."""
    assert place == "agentica-org/DeepCoder-Preview-Dataset"
    assert split in ("train", "test")
    every = rows()
    # Each of the configurations is asked for; together they are all rows.
    chosen = {"primeintellect": every[:2], "taco": every[2:3], "lcbv5": every[3:], "codeforces": every[:1]}[name]
    return Dataset.from_list(chosen * TIMES)


def answer(problem: str, *, right: bool) -> str:
    """A program for a problem, in the fence that the recipe looks for."""
    number = next(each for each in NUMBERS if f"times {each}." in problem)
    sign = "*" if right else "+"
    return f"```python\nprint(int(input()) {sign} {number})\n```"


async def warm_up(model: str) -> str:
    """Trains on answers to the recipe's own prompts; returns the path of the checkpoint."""
    tokenizer = tokenizer_utils.get_tokenizer(model)
    renderer = renderers.get_renderer(RENDERER, tokenizer, model_name=model)
    tasks = {task.problem: task for task in code_env.load_deepcoder_tasks("train")}.values()
    client = await tinker.ServiceClient().create_lora_training_client_async(model, rank=32)
    choice = random.Random(0)
    for step in range(WARM_UP_STEPS):
        data = []
        for task in tasks:
            tool = code_env.DeepcoderTool(task)
            messages = code_env._initial_messages(task, renderer, tool)
            spoken = {"role": "assistant", "content": answer(task.problem, right=choice.random() < 0.5)}
            tokens, weights = renderer.build_supervised_example([*messages, spoken])
            ids = tokens.to_ints()
            inputs = {"target_tokens": ids[1:], "weights": [float(each) for each in weights.tolist()[1:]]}
            data.append(tinker.Datum(model_input=tinker.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs))
        trained = await client.forward_backward_async(data, "cross_entropy")
        await (await client.optim_step_async(tinker.AdamParams(learning_rate=2e-3))).result_async()
        loss = (await trained.result_async()).metrics["loss:sum"]
        print(f"warm-up {step}: loss {loss:.3f}, {len(ids)} tokens", file=sys.stderr)  # noqa: T201
    saved = await (await client.save_state_async("warm")).result_async()
    return str(saved.path)


async def session(model: str, log: Path, steps: int) -> None:
    """Warms up, and runs the recipe."""
    code_env.load_dataset = load_dataset
    config = train.CLIConfig(
        model_name=model,
        renderer_name=RENDERER,
        load_checkpoint_path=await warm_up(model),
        lora_rank=32,
        group_size=8,
        groups_per_batch=len(NUMBERS),
        learning_rate=5e-4,
        max_tokens=48,
        eval_every=0,
        save_every=1,
        log_path=str(log),
        behavior_if_log_dir_exists="resume",
        max_steps=steps,
    )
    await train.cli_main(config)


if __name__ == "__main__":
    asyncio.run(session(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
