"""An OpenAI-compatible endpoint as a policy: the one module that needs `openai`.

The design decision: every answer is a request of its own, many in flight, because servers differ in what they make of
`n`. The client retries what may pass (429, 5xx, lost connections, with the pauses a server asks for); what is left ends
the evaluation, because answers that are missing at random would shift every rate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from sandrl.addresses import check_address, refuse_password
from sandrl.errors import AuthenticationError, InputError, SandrlError, ServiceError
from sandrl.extras import require
from sandrl.rollouts.policy import Question, Sampling

EXTRA = "endpoint"
"""The extra that brings `openai`."""

BATCH_SIZE = 32
KEY_VARIABLE = "OPENAI_API_KEY"

_RETRIES = 5
_TIMEOUT_SECONDS = 600.0
_POLL_SECONDS = 0.2
# Servers of one's own ask for no key, and the client insists on one.
_NO_KEY = "none"


class EndpointPolicy:
    """A model behind an endpoint.

    Args:
        base_url: The endpoint, with its `/v1`.
        model: What it calls the model; None for the only one it has.
        api_key: Its key, where it asks for one.
        batch_size: How many requests at once.
        retries: How often a request that failed is tried again.

    Raises:
        MissingExtraError: If `openai` is not installed.
        UsageError: If the address is none; `InputError` if the endpoint has several models and none is named.
        ServiceError: If the endpoint does not answer.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        batch_size: int | None = None,
        retries: int = _RETRIES,
    ) -> None:
        check_address(base_url, "--base-url")
        refuse_password(base_url, "--base-url", hint=f"give the key in {KEY_VARIABLE}")
        self._openai = require("openai", extra=EXTRA)
        self._base_url = base_url
        self._client = self._openai.OpenAI(
            base_url=base_url, api_key=api_key or _NO_KEY, max_retries=retries, timeout=_TIMEOUT_SECONDS
        )
        self.batch_size = batch_size or BATCH_SIZE
        self.name = model or self._only_model()

    def answer(
        self, questions: Sequence[Question], sampling: Sampling, *, is_stopped: Callable[[], bool]
    ) -> list[str] | None:
        """Answers each question, in order. See `Policy.answer`."""
        answers: SimpleQueue[tuple[int, str | SandrlError]] = SimpleQueue()

        def ask(number: int, question: Question) -> None:
            try:
                answers.put((number, self._ask(question, sampling)))
            except SandrlError as error:
                answers.put((number, error))

        for number, question in enumerate(questions):
            # Daemons: nobody waits for a request whose answer is not wanted any more, not even the end of the process.
            threading.Thread(target=ask, args=(number, question), daemon=True).start()
        texts: dict[int, str] = {}
        while len(texts) < len(questions):
            if is_stopped():
                return None
            try:
                number, answer = answers.get(timeout=_POLL_SECONDS)
            except Empty:
                continue
            if isinstance(answer, SandrlError):
                raise answer
            texts[number] = answer
        return [texts[number] for number in range(len(questions))]

    def _ask(self, question: Question, sampling: Sampling) -> str:
        try:
            response = self._client.chat.completions.create(
                model=self.name,
                messages=list(question.messages),
                temperature=sampling.temperature,
                top_p=1.0,
                max_tokens=sampling.max_tokens,
                seed=question.seed,
            )
        except self._openai.OpenAIError as error:
            raise self._explain(error) from error
        choices = response.choices or ()
        return str(choices[0].message.content or "") if choices else ""

    def _only_model(self) -> str:
        try:
            names = [str(model.id) for model in self._client.models.list()]
        except self._openai.OpenAIError as error:
            raise self._explain(error) from error
        if len(names) != 1:
            some = f"{len(names)} models" if names else "no model"
            listed = f": {', '.join(names[:10])}" if names else ""
            raise InputError(f"{self._base_url} offers {some}{listed}", hint="name one with --model")
        return names[0]

    def _explain(self, error: Any) -> SandrlError:
        openai, place = self._openai, self._base_url
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            return AuthenticationError(f"{place} refuses the credentials", hint=f"set {KEY_VARIABLE}")
        reason = " ".join(str(getattr(error, "message", error)).split())[:300]
        if isinstance(error, openai.NotFoundError):
            return InputError(f"{place} has no such model or address: {reason}", hint="see --model and --base-url")
        if isinstance(error, openai.APIStatusError) and error.status_code < 500 and error.status_code != 429:
            return InputError(f"{place} refuses the request: {reason}")
        if isinstance(error, openai.APITimeoutError):
            return ServiceError(f"{place} took longer than {_TIMEOUT_SECONDS:.0f} s for an answer")
        if isinstance(error, openai.APIConnectionError):
            return ServiceError(f"{place} does not answer: {reason}", hint="is the server running at --base-url?")
        return ServiceError(f"{place} fails: {reason}")
