"""What of the local backend can be tried without a GPU: how a teacher's words are scored, and where vLLM's token is."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import EndpointError, RequestRefusedError
from sandrl.models.client import Client, ModelEndpoint
from sandrl.trainers.art.local import hide_token, score_tokens, spoken_tokens


def test_what_a_message_says_is_told_from_what_its_template_adds(untrained_policy: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(untrained_policy)
    tokenizer.eos_token = "<|im_end|>"
    # As Qwen3's does: an empty thought before each answer.
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if m.role == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}"
        "{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ '\n' }}<tool_call>{{ c.function.name }}</tool_call>{% endfor %}"
        "<|im_end|>\n{% endfor %}"
    )
    call = {"id": "1", "type": "function", "function": {"name": "execute_code", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": "First."},
        {"role": "user", "content": "No."},
        {"role": "assistant", "content": "Second.", "tool_calls": [call]},
    ]
    prompt, spoken = spoken_tokens(tokenizer, messages, None)
    assert tokenizer.decode(spoken) == "Second.\n<tool_call>execute_code</tool_call><|im_end|>"
    before = tokenizer.decode(prompt)
    assert before.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert before.count("First.") == 1


class Vllm(ThreadingHTTPServer):
    """Answers completions as vLLM does: a logprob for each token of the prompt but the first."""

    daemon_threads = True

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                bodies.append(body)
                tokens = body["prompt"]
                found = [None, *({str(token): {"logprob": -token / 8, "rank": 1}} for token in tokens[1:])]
                choice = {"index": 0, "text": "x", "prompt_logprobs": found if body["model"] == "m@1" else None}
                too_long = {"error": {"message": "the context is 8 tokens", "code": 400}}
                answer = json.dumps(too_long if len(tokens) > 8 else {"choices": [choice]}).encode()
                self.send_response(400 if len(tokens) > 8 else 200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def vllm() -> Iterator[Vllm]:
    with Vllm() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


def test_vllm_scores_the_tokens_after_the_prompt(vllm: Vllm) -> None:
    client = Client(ModelEndpoint(f"http://127.0.0.1:{vllm.server_address[1]}/v1", retries=0))
    assert score_tokens(client, "m@1", [1, 2, 3], [4, 5]) == (-0.5, -0.625)
    (body,) = vllm.bodies
    assert (body["prompt"], body["prompt_logprobs"]) == ([1, 2, 3, 4, 5], 0)
    with pytest.raises(RequestRefusedError, match="the context is 8 tokens"):
        score_tokens(client, "m@1", list(range(9)), [4])
    with pytest.raises(EndpointError, match="no logprobs of the prompt"):
        score_tokens(client, "other", [1], [2])


def test_vllms_token_is_not_on_its_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from types import SimpleNamespace

    from art import vllm_runtime

    program = tmp_path / "runtime"
    program.touch(0o755)
    monkeypatch.setenv("ART_VLLM_RUNTIME_BIN", str(program))
    config = vllm_runtime.VllmRuntimeLaunchConfig(
        base_model="m",
        port=1,
        cuda_visible_devices="0",
        lora_path="/x",
        served_model_name="m@0",
        rollout_weights_mode="lora",
        server_args={"api_key": "a-token", "return_tokens_as_token_ids": True},
    )
    assert "a-token" in " ".join(vllm_runtime.build_vllm_runtime_server_cmd(config))
    service = SimpleNamespace(build_vllm_runtime_server_cmd=vllm_runtime.build_vllm_runtime_server_cmd)
    for _ in range(2):
        hide_token(service)
    words = service.build_vllm_runtime_server_cmd(config)
    assert "a-token" not in " ".join(words)
    assert any("return_tokens_as_token_ids" in word for word in words)
    # ART itself still has it, to ask vLLM with.
    assert config.server_args["api_key"] == "a-token"
