"""OpenRLHF's own client of remote reward models asks `sandrl serve`."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.integrations.running import file_of
from tests.support.service import TOKEN, RunningService, running_service

sys.modules.setdefault("openrlhf.utils.logging_utils", SimpleNamespace(init_logger=logging.getLogger))  # type: ignore[arg-type]
AGENT = file_of("openrlhf", "utils/agent.py", "openrlhf_agent")
pytestmark = pytest.mark.skipif(AGENT is None, reason="not installed: openrlhf (make test-integrations)")

PROMPT = "<|im_start|>user\nAdd one.\n```python\nassert f(1) == 2\n```<|im_end|>\n<|im_start|>assistant\n"
RIGHT = "```python\ndef f(x):\n    return x + 1\n```<|im_end|>"
WRONG = "```python\ndef f(x):\n    return x\n```<|im_end|>"
LABEL = json.dumps({"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2"]})
# Its setup fails by itself, so nothing can be said about a completion.
BROKEN = json.dumps({**json.loads(LABEL), "task_id": "broken", "setup": "import no_such_module"})


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running_service(tmp_path_factory.mktemp("service"), "--problems", "bundled") as service:
        yield service


def fetch(service: RunningService, queries: list[str], labels: list[Any], prompt: str = PROMPT) -> list[Any]:
    assert AGENT is not None
    executor = AGENT.SingleTurnAgentExecutor(f"{service.url}/t/{TOKEN}/get_reward")
    prompts = [prompt] * len(queries)
    return list(asyncio.run(executor._fetch_rewards_via_http(queries, prompts, labels)))


def test_its_client_gets_rewards_scores_and_logs(service: RunningService) -> None:
    [found] = fetch(service, [PROMPT + RIGHT, PROMPT + WRONG, PROMPT + "I do not know."], [LABEL] * 3)
    assert found["rewards"] == found["scores"] == [1.0, 0.0, 0.0]
    assert found["extra_logs"] == {"passed": [1.0, 0.0, 0.0], "unscorable": [0.0, 0.0, 0.0]}


def test_a_label_may_name_a_problem_of_the_service(service: RunningService) -> None:
    with service.client() as http:
        body = {"query": ["P" + WRONG], "prompts": ["P"], "labels": ["no-such-problem"]}
        refused = http.post("/get_reward", json=body)
        assert refused.status_code == 422
        assert refused.json()["place"] == "labels[0]"
        named = http.post("/get_reward", json={**body, "labels": ["slow-sum"]})
        assert named.json()["rewards"] == [0.0]


@pytest.mark.parametrize("label", ['{"a":' * 100_000, "{", '{"task_id": "x"}', 3, None])
def test_a_label_that_is_no_problem_and_a_query_without_its_prompt_are_refused(
    service: RunningService, label: Any
) -> None:
    with service.client() as http:
        refused = http.post("/get_reward", json={"query": ["P" + RIGHT], "prompts": ["P"], "labels": [label]})
        other = {"query": [RIGHT], "prompts": ["another prompt, which is not there"], "labels": [LABEL]}
        assert http.post("/get_reward", json=other).status_code == 422
    assert refused.status_code == 422
    assert refused.json()["place"].startswith("labels[0]")


def test_what_cannot_be_scored_is_what_the_operator_says(service: RunningService, tmp_path: Path) -> None:
    body = {"query": [PROMPT + RIGHT], "prompts": [PROMPT], "labels": [BROKEN]}
    with service.client() as http:
        refused = http.post("/get_reward", json=body)
    assert refused.status_code == 503
    assert "query[0] could not be scored: invalid_problem" in refused.json()["detail"]
    with running_service(tmp_path, "--unscorable-reward", "-0.25") as other:
        [found] = fetch(other, body["query"], body["labels"])
    assert found["rewards"] == [-0.25]
    assert found["extra_logs"]["unscorable"] == [1.0]
