"""The tiny policy is what it says it is: a real model, in a cache that is always whole."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="not installed: torch (make test-grpo)")
transformers: Any = pytest.importorskip("transformers", reason="not installed: transformers (make test-grpo)")

from sandrl.events import Event, PolicyBuilding, PolicyReady  # noqa: E402
from sandrl.problems import SUBMIT_INSTRUCTION, chat_prompt  # noqa: E402
from sandrl.problems.tiny import tasks  # noqa: E402
from sandrl.tiny import Recipe, tiny_policy  # noqa: E402
from sandrl.tiny.chat import RESPONSE_TEMPLATE  # noqa: E402
from sandrl.tiny.demonstrations import TOOLS, answer_in_text, answer_with_tool  # noqa: E402
from sandrl.tiny.policy import MANIFEST, TINY_COURSE, is_whole  # noqa: E402
from sandrl.tiny.warmup import IGNORED, encode  # noqa: E402

QUICK = Recipe(hidden=32, intermediate=32, layers=1, batch=2, clean_steps=2, check_every=1, checked=2, muddled_steps=1)
MAKE = """
import sys
from pathlib import Path
from sandrl.events import PolicyReady
from sandrl.tiny import Recipe, tiny_policy
recipe = Recipe(hidden=32, intermediate=32, layers=1, batch=2, clean_steps={steps}, check_every=1, checked=2,
                clean_enough=2.0, muddled_steps=1)
tiny_policy(Path(sys.argv[1]), recipe=recipe, emit=lambda event: isinstance(event, PolicyReady) and print(event.cached))
"""


def make(cache: Path, *, steps: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", MAKE.format(steps=steps), str(cache)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def loaded(directory: Path) -> tuple[Any, Any]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    return tokenizer, transformers.AutoModelForCausalLM.from_pretrained(directory)


def generated(tokenizer: Any, model: Any, prompts: Sequence[str]) -> list[str]:
    inputs = tokenizer(list(prompts), return_tensors="pt", padding=True, add_special_tokens=False)
    torch.manual_seed(0)
    outputs = model.generate(**inputs, max_new_tokens=64)
    texts = tokenizer.batch_decode(outputs[:, inputs["input_ids"].shape[1] :])
    return [text.replace(tokenizer.pad_token, "") for text in texts]


def test_it_is_a_qwen_2_of_less_than_half_a_million_weights(tiny_directory: Path) -> None:
    _, model = loaded(tiny_directory)
    assert type(model).__name__ == "Qwen2ForCausalLM"
    assert model.num_parameters() < 500_000
    settings = model.generation_config
    assert (settings.do_sample, settings.temperature, settings.top_k, settings.top_p) == (True, 1.0, 0, 1.0)


def test_its_tokenizer_loads_as_it_was_trained_and_knows_any_text(tiny_directory: Path) -> None:
    from sandrl.tiny.tokenizer import train_tokenizer

    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_directory)
    trained = train_tokenizer(Recipe(), TINY_COURSE)
    for task in tasks()[::10]:
        assert encode(tokenizer, answer_in_text(task)) == encode(trained, answer_in_text(task))
    text = "def größe(x):\n\treturn f'{x!r:>12}'  # 日本\r\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_what_it_learns_is_what_it_says_and_the_end_of_its_turn(tiny_directory: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_directory)
    task = tasks("train")[0]
    for demonstration in (answer_in_text(task), answer_with_tool(task, random.Random(0))):
        example = encode(tokenizer, demonstration)
        rendered = tokenizer.apply_chat_template(demonstration.messages, tools=demonstration.tools, tokenize=False)
        assert tokenizer.decode(example.tokens) == rendered.removesuffix("\n")
        said = tokenizer.decode([label for label in example.labels if label != IGNORED])
        assert task.right.strip() in said
        turns = sum(message["role"] == "assistant" for message in demonstration.messages)
        assert said.count("<|im_end|>") == turns
        assert task.to_problem().prompt not in said


def test_its_chat_template_is_fit_for_the_trainers_tools(tiny_directory: Path) -> None:
    utilities: Any = importlib.import_module("trl.chat_template_utils")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_directory)
    assert utilities.supports_tool_calling(tokenizer)
    assert utilities.is_chat_template_prefix_preserving(tokenizer)


def test_a_tool_call_is_read_back_as_it_was_written(tiny_directory: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_directory)
    code = "def f(n):\n    if n:\n        return '<b>'\n\n    return {'a': 1}"
    call = {"type": "function", "function": {"name": "submit_solution", "arguments": {"code": code}}}
    asked = [{"role": "user", "content": "Go."}]
    answer = {"role": "assistant", "content": "", "tool_calls": [call]}
    prompt = tokenizer.apply_chat_template(asked, tools=TOOLS[1], tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template([*asked, answer], tools=TOOLS[1], tokenize=False)
    message = tokenizer.parse_response(whole.removeprefix(prompt), prefix=prompt, tools=TOOLS[1])
    assert message["tool_calls"] == [call]


@pytest.mark.parametrize("tools", TOOLS[:4:3], ids=["submit", "all"])
def test_offered_a_tool_it_submits_and_is_right_now_and_then(tiny_directory: Path, tools: list[Any]) -> None:
    tokenizer, model = loaded(tiny_directory)
    asked = tasks("test")[:96]
    prompts = [
        tokenizer.apply_chat_template(
            chat_prompt(task.to_problem(), instruction=SUBMIT_INSTRUCTION),
            tools=tools,
            tokenize=False,
            add_generation_prompt=True,
        )
        for task in asked
    ]
    codes = []
    for prompt, text in zip(prompts, generated(tokenizer, model, prompts), strict=True):
        calls = tokenizer.parse_response(text, prefix=prompt, tools=tools).get("tool_calls") or []
        codes.append(calls[0]["function"]["arguments"].get("code", "") if calls else "")
    right = sum(code.strip() == task.right.strip() for code, task in zip(codes, asked, strict=True))
    assert sum(map(bool, codes)) > 0.9 * len(asked)
    assert 0.15 < right / len(asked) < 0.65


def test_the_same_recipe_makes_the_same_policy_and_another_seed_another(tmp_path: Path) -> None:
    def weights(cache: Path, seed: int) -> str:
        manifest = json.loads((tiny_policy(cache, seed=seed, recipe=QUICK) / MANIFEST).read_text())
        return str(manifest["files"]["model.safetensors"])

    first = weights(tmp_path / "a", 0)
    torch.rand(1)
    assert weights(tmp_path / "b", 0) == first
    assert weights(tmp_path / "a", 1) != first


def test_a_policy_made_with_an_older_transformers_serves_a_newer_one_from_the_same_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = transformers.PreTrainedTokenizerBase.save_pretrained

    def save_as_before(tokenizer: Any, directory: Path, **options: Any) -> Any:
        saved = save(tokenizer, directory, **options)
        config = directory / "tokenizer_config.json"
        content = json.loads(config.read_text())
        content.pop("response_template", None)
        config.write_text(json.dumps(content))
        return saved

    with monkeypatch.context() as patches:
        patches.setattr(transformers.PreTrainedTokenizerBase, "save_pretrained", save_as_before)
        made = tiny_policy(tmp_path, recipe=QUICK)
    assert tiny_policy(tmp_path, recipe=QUICK) == made
    assert transformers.AutoTokenizer.from_pretrained(made).response_template == RESPONSE_TEMPLATE


def test_making_it_leaves_no_trace_in_the_state_of_torch(tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected, threads = torch.rand(1), torch.get_num_threads()
    torch.manual_seed(7)
    tiny_policy(tmp_path, recipe=QUICK)
    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == threads


def test_it_is_made_once_and_then_found(tmp_path: Path) -> None:
    events: list[Event] = []
    made = tiny_policy(tmp_path, recipe=QUICK, emit=events.append)
    assert any(isinstance(event, PolicyBuilding) for event in events)
    events.clear()
    assert tiny_policy(tmp_path, recipe=QUICK, emit=events.append) == made
    [ready] = events
    assert isinstance(ready, PolicyReady)
    assert ready.cached


@pytest.mark.parametrize("damage", ["truncated", "missing", "no manifest", "foreign manifest"])
def test_a_damaged_one_is_made_again(tmp_path: Path, damage: str) -> None:
    made = tiny_policy(tmp_path, recipe=QUICK)
    weights = (made / "model.safetensors").read_bytes()
    match damage:
        case "truncated":
            (made / "model.safetensors").write_bytes(weights[:-1])
        case "missing":
            (made / "tokenizer.json").unlink()
        case "no manifest":
            (made / MANIFEST).unlink()
        case _:
            (made / MANIFEST).write_text("[]")
    assert not is_whole(made)
    assert tiny_policy(tmp_path, recipe=QUICK) == made
    assert is_whole(made)
    assert (made / "model.safetensors").read_bytes() == weights
    assert [path.name for path in made.parent.iterdir() if "making" in path.name] == []


def test_two_processes_make_it_once_between_them(tmp_path: Path) -> None:
    both = [make(tmp_path, steps=3) for _ in range(2)]
    told = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert sorted(out.strip() for out, _ in told) == ["False", "True"]


def test_a_process_killed_while_it_makes_it_leaves_nothing_that_counts(tmp_path: Path) -> None:
    killed = make(tmp_path, steps=100_000)
    folder = tmp_path / "policies"
    while not list(folder.glob(".*making*")):
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.02)
    killed.kill()
    killed.communicate()
    assert list(folder.glob("tiny-*")) == []
    again = make(tmp_path, steps=2)
    _, complaint = again.communicate(timeout=120)
    assert again.returncode == 0, complaint
    assert [path.name.startswith("tiny-") for path in folder.iterdir() if path.is_dir() and path.name[0] != "."] == [
        True
    ]


def test_the_command_puts_it_into_a_new_directory_and_never_over_anything(tmp_path: Path, tiny_directory: Path) -> None:
    argv = [sys.executable, "-m", "sandrl", "policy", "build", "tiny", str(tmp_path / "new" / "policy")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/new/policy\n"), done.stderr
    names = {path.name: path.read_bytes() for path in (tmp_path / "new" / "policy").iterdir()}
    assert names == {path.name: path.read_bytes() for path in tiny_directory.iterdir()}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["policy"]
    again = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 2
    assert "already exists and is not empty" in again.stderr
