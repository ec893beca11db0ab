"""`POST /get_reward`: the remote reward model of OpenRLHF.

OpenRLHF sends a prompt and its completion as one text, decoded from tokens. The completion is the text after the
prompt, of which a beginning may have been cut off and the blanks may differ; if the prompt is not found, the request is
an error, because code in a prompt must never count as an answer.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import Any

from fastapi import Request

from sandrl.jsonl import parse_object
from sandrl.problems import Completion, Problem
from sandrl.runs.statistics import training_reward
from sandrl.service.failures import Failure
from sandrl.service.models import RewardRequest, RewardResponse
from sandrl.service.scoring import score_all
from sandrl.service.state import Service, client_of, read_body, unless_gone

# Tokens that stand before a prompt or end a completion, as tokenizers of the field write them.
_TOKEN = r"(?:<\|[^|<>\s]{1,40}\|>|<｜[^｜<>]{1,40}｜>|</?s>|<[be]os>|<(?:start|end)_of_turn>|<pad>|<unk>)"
_FIRST_TOKEN, _LAST_TOKEN = re.compile(_TOKEN), re.compile(_TOKEN + r"\Z")
_LONGEST_TOKEN = 60
_LEAST_OF_PROMPT = 20


async def get_reward(service: Service, request: Request) -> RewardResponse:
    """Answers a request for rewards.

    Raises:
        Failure: If it cannot be understood; or if a completion has no reward, unless the service has a number for that.
    """
    body = await read_body(request, RewardRequest)
    if not len(body.query) == len(body.prompts) == len(body.labels):
        raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, "query, prompts and labels must have the same length")
    # Labels may be problems, and texts long: the loop has other requests, too.
    rows = await asyncio.to_thread(_answers, service, body)
    reply = await score_all(service, rows, client_of(request))
    results = await unless_gone(request, reply.wait(), reply.give_up)
    rewards: list[float] = []
    for result in results:
        reward = training_reward(result.reward, result.components)
        if reward is None:
            reward = service.config.unscorable_reward
        if reward is None:
            message = f"query[{result.index}] could not be scored: {result.status.value}: {result.detail}"
            hint = "send the request again, or start the service with an unscorable_reward, which is returned instead"
            raise Failure(HTTPStatus.SERVICE_UNAVAILABLE, message, hint, {"Retry-After": "2"})
        rewards.append(reward)
    passed = [float(result.is_pass) for result in results]
    unscorable = [float(result.reward is None) for result in results]
    return RewardResponse(rewards=rewards, scores=rewards, extra_logs={"passed": passed, "unscorable": unscorable})


def _answers(service: Service, body: RewardRequest) -> list[tuple[Completion, Problem]]:
    sent = zip(body.query, body.prompts, body.labels, strict=True)
    return [_answer(service, number, *each) for number, each in enumerate(sent)]


def _answer(service: Service, number: int, query: str, prompt: str, label: Any) -> tuple[Completion, Problem]:
    problem = _problem(service, label, f"labels[{number}]")
    text = completion_in(query, prompt)
    if text is None:
        message = f"query[{number}] does not begin with prompts[{number}]"
        raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, message, place=f"query[{number}]")
    return Completion(f"{problem.task_id}#{number}", problem.task_id, completion=text), problem


def _problem(service: Service, label: Any, place: str) -> Problem:
    if isinstance(label, str) and label in service.book.loaded:
        return service.book.loaded[label]
    if isinstance(label, str) and label.lstrip().startswith("{"):
        try:
            label = parse_object(label.encode("utf-8", "surrogatepass"))
        except ValueError as error:
            raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, f"{place}: {error}", place=place) from None
    if isinstance(label, dict):
        return service.book.inline({"task_id": place, **label}, place, service.options(None)[0])
    return service.find_problem(str(label), place)


def completion_in(query: str, prompt: str) -> str | None:
    """The completion in the text of a prompt and its completion; None if the prompt is not found there."""
    end = _end_of_prompt(query, prompt)
    return None if end is None else _without_last_tokens(query[end:])


def _without_last_tokens(text: str) -> str:
    end = shown = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        begin = max(end - _LONGEST_TOKEN, 0)
        found = _LAST_TOKEN.search(text[begin:end])
        if found is None:
            return text[:shown]
        shown = end = begin + found.start()
        while shown and text[shown - 1].isspace():
            shown -= 1


def _end_of_prompt(query: str, prompt: str) -> int | None:
    if query.startswith(prompt):
        return len(prompt)
    # Blanks may have changed on the way through a tokenizer, and tokens may stand before the prompt.
    places = [place for place, letter in enumerate(query) if not letter.isspace()]
    letters = "".join(query[place] for place in places)
    wanted = "".join(prompt.split())
    if not wanted:
        return 0
    begin: int | None = 0
    while begin is not None and not letters.startswith(wanted, begin):
        token = _FIRST_TOKEN.match(letters, begin)
        begin = None if token is None else token.end()
    # Without such tokens alone before it, the prompt is there if its beginning was cut off.
    end = _overlap(wanted, letters) if begin is None else begin + len(wanted)
    if begin is None and end < _LEAST_OF_PROMPT:
        return None
    return places[end - 1] + 1


def _overlap(first: str, second: str) -> int:
    # The length of the longest end of one text with which another begins, but not all of the first.
    pattern = second[: len(first) - 1]
    failure = [0] * len(pattern)
    matched = 0
    for position in range(1, len(pattern)):
        while matched and pattern[position] != pattern[matched]:
            matched = failure[matched - 1]
        matched += pattern[position] == pattern[matched]
        failure[position] = matched
    matched = 0
    for letter in first:
        while matched and (matched == len(pattern) or letter != pattern[matched]):
            matched = failure[matched - 1]
        matched += bool(pattern) and letter == pattern[matched]
    return matched
