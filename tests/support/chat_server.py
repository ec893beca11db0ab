"""The scripted server for those who only need texts: a body in, a text or a status out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.scripted_model import MODEL, Fault, Question, Says, ScriptedModel

TextAnswer = Callable[[dict[str, Any]], "str | int | Says"]
"""From a request's body to the text of the answer, to all of it, or to the HTTP status to fail with."""


class ChatServer(ScriptedModel):
    """Serves texts, between the two ends of a `with` block.

    It asks for no key if that is None.
    """

    def __init__(
        self, answer: TextAnswer, *, models: Sequence[str | Mapping[str, object]] = (MODEL,), key: str | None = None
    ) -> None:
        def script(question: Question) -> Says | Fault:
            text = answer(question.body)
            if not isinstance(text, int):
                return Says(text) if isinstance(text, str) else text
            error = {"error": {"message": f"scripted {text}", "type": "scripted"}}
            return Fault(text, {"Retry-After": "0.01"} if text == 429 else {}, error)

        super().__init__(script, models=models, key=key)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the requests, in order."""
        return [question.body for question in self.questions]
