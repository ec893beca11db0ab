"""The proxy of models before the tiny policy in this process: recorded tokens are those that the policy sampled."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from sandrl.config.words import EpisodeKind  # noqa: E402
from sandrl.models import Message, Sampling  # noqa: E402
from sandrl.models.endpoint import chat_message  # noqa: E402
from sandrl.models.in_process import GatheringModel, InProcessModel  # noqa: E402
from sandrl.problems.loading import load_problems  # noqa: E402
from sandrl.rollouts.calls import tool_schemas  # noqa: E402
from sandrl.rollouts.episodes import EpisodeOptions, new_episode  # noqa: E402
from sandrl.rollouts.proxy import Branch, Conversation, ModelProxy  # noqa: E402
from sandrl.rollouts.proxy.recording import token_ids  # noqa: E402
from tests.integration.rollouts.test_model_proxy import ask, assistant, client_of, post, user  # noqa: E402

TEMPERATURE = 1.3


@pytest.fixture
def policy(tiny_directory: Path) -> Iterator[GatheringModel]:
    stop = threading.Event()
    sampling = Sampling(temperature=TEMPERATURE, max_tokens=48)
    model = InProcessModel(
        str(tiny_directory), sampling, name="tiny", stop=stop, tells_logprobs=True, offers_tools=True
    )
    with closing(GatheringModel(model, seed=0, stop=stop)) as gathering:
        yield gathering


def check_logprobs(directory: Path, branch: Branch) -> None:
    """Computes each turn's logprobs anew, from the ids of its prompt and its answer."""
    network = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()
    for prompt, turn in zip(branch.prompts, branch.turns, strict=True):
        sampled = token_ids(turn)
        with torch.no_grad():
            logits = network(torch.tensor([[*prompt, *sampled]])).logits[0, len(prompt) - 1 : -1]
        expected = torch.log_softmax(logits.float() / TEMPERATURE, -1)[range(len(sampled)), list(sampled)]
        assert turn.logprobs == pytest.approx(expected.tolist(), abs=1e-3)


def test_recorded_ids_and_logprobs_are_those_of_the_policy(policy: GatheringModel, tiny_directory: Path) -> None:
    conversation = ModelProxy(policy).open()
    history: list[Any] = []
    with client_of(conversation) as client:
        for number in range(3):
            history.append(user(f"def add_{number}(a, b):"))
            history.append(assistant(ask(client, *history).content))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_directory)
    branches = conversation.recording.branches
    assert sum(len(branch.turns) for branch in branches) == 3
    for branch in branches:
        assert branch.is_trainable
        check_logprobs(tiny_directory, branch)
        # In a branch each prompt continues the tokens of the turn before.
        for place, prompt in enumerate(branch.prompts[1:]):
            known = (*branch.prompts[place], *token_ids(branch.turns[place]))
            assert prompt[: len(known)] == known
        for prompt, turn in zip(branch.prompts, branch.turns, strict=True):
            before = branch.messages[: branch.messages.index(turn)]
            said = [{"role": each.role, "content": each.content} for each in before]
            rendered = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=True)["input_ids"]
            assert list(prompt) == list(rendered)
            assert tokenizer.decode(token_ids(turn), skip_special_tokens=True) == turn.content


def test_a_call_of_a_tool_is_read_from_the_tokens_and_its_result_continues_them(
    policy: GatheringModel, tiny_directory: Path
) -> None:
    options = EpisodeOptions(kind=EpisodeKind.TOOLS)
    called = 0
    for problem in list(load_problems("tiny:test").problems.values())[:8]:
        conversation = ModelProxy(policy).open()
        asked = [chat_message(each) for each in new_episode(0, "e", problem, options).messages]
        tools = [{"type": "function", "function": each} for each in tool_schemas(options.tools(problem))]
        with client_of(conversation) as client:
            said = ask(client, *asked, tools=tools)
            if not said.tool_calls:
                continue
            call = said.tool_calls[0]
            assert json.loads(call.function.arguments).keys() <= {"code", "command", "text"}
            result = {"role": "tool", "tool_call_id": call.id, "content": "ok"}
            ask(client, *asked, said.model_dump(exclude_none=True), result, tools=tools)
        called += 1
        for branch in conversation.recording.branches:
            assert branch.is_trainable
            check_logprobs(tiny_directory, branch)
    assert called


def test_conversations_at_once_keep_their_own_tokens(policy: GatheringModel, tiny_directory: Path) -> None:
    proxy = ModelProxy(policy)
    conversations = [proxy.open() for _ in range(8)]

    def act(conversation: Conversation, number: int) -> None:
        with client_of(conversation) as client:
            ask(client, user("x" * number))

    threads = [threading.Thread(target=act, args=each) for each in zip(conversations, range(1, 9), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, conversation in enumerate(conversations, 1):
        (branch,) = conversation.recording.branches
        assert branch.messages[0] == Message("user", "x" * number)
        check_logprobs(tiny_directory, branch)


def test_a_conversation_that_the_model_cannot_read_fails_alone(policy: GatheringModel) -> None:
    proxy = ModelProxy(policy)
    with proxy.open() as one, proxy.open() as other:
        status, document = post(one, json.dumps({"messages": [user("word " * 20_000)]}).encode())
        assert (status, document["error"]["code"]) == (400, "context_length_exceeded")
        assert post(other, json.dumps({"messages": [user("x")]}).encode())[0] == 200
        assert (one.recording.end, one.recording.loss) == ("", "")
