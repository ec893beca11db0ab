"""W&B Training: its HTTP API, as its reference describes it and ART's client uses it, with a scripted model.

Jobs run in threads of the service, as those of the real one continue without their client. Every step is a checkpoint,
and answers come from the checkpoint that is named. Nothing is learned; what a job gets is recorded, and refused if the
models of ART do not take it.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.scripted_model import Answer, Fault, Question, Says, ScriptedModel, chat_document

KEY = "0123456789abcdef0123456789abcdef01234567"
BASE_MODEL = "OpenPipe/Qwen3-14B-Instruct"

Route = Callable[[str, str], Fault | None]
"""From a method and a path to the fault that a request meets; None for none."""


@dataclass
class Job:
    """A training job, with what it was given and the events so far."""

    id: str
    model_id: str
    groups: list[dict[str, Any]]
    config: Mapping[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, kind: str, **data: Any) -> None:
        self.events.append({"id": str(uuid.uuid4()), "type": kind, "data": data})


class TrainingService(ScriptedModel):
    """The service, between the two ends of a `with` block; `base_url` is its address.

    Attributes:
        jobs: Those that were begun, in order.
        asked: Of each answer: the step of the model that gave it; None if none was named.
        policy: Says what is answered.
        fault: Decides which requests fail.
        may_end: Jobs wait for it before their model has its next step.
        failure: Why jobs fail; empty if they do not.
        gradient_steps: How many a job takes.
    """

    def __init__(self, policy: Callable[[Question], Says], *, checkpoints: int = 0) -> None:
        super().__init__(self._routed, models=None, key=KEY)
        self.policy = policy
        self.models: dict[str, dict[str, Any]] = {}
        self.checkpoints: dict[str, list[int]] = {}
        self.jobs: list[Job] = []
        self.asked: list[int | None] = []
        self.fault: Route = lambda method, path: None
        self.may_end = threading.Event()
        self.may_end.set()
        self.failure = ""
        self.gradient_steps = 2
        self._checkpoints = checkpoints

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.may_end.set()
        super().__exit__(kind, error, traceback)

    def admits(self, headers: Mapping[str, str]) -> bool:
        return super().admits({name.title(): value for name, value in headers.items()})

    def found(self, path: str) -> object:
        if fault := self.fault("GET", path):
            return fault
        parts, query = urlsplit(path).path.split("/")[2:], parse_qs(urlsplit(path).query)
        match parts:
            case ["health"]:
                return {"status": "ok"}
            case ["preview", "base-models"]:
                return [BASE_MODEL, "Qwen/Qwen3-30B-A3B-Instruct-2507"]
            case ["preview", "models", model, "checkpoints"] if model in self.models:
                steps = sorted(self.checkpoints[model], reverse=query.get("order") == ["desc"])
                items = [{"id": f"{model}-{step}", "step": step, "metrics": {}} for step in steps]
                return _page(items, query)
            case ["preview", "training-jobs", name, "events"]:
                return next((_page(job.events, query) for job in self.jobs if job.id == name), None)
        return None

    def chat_document(self, answer: Says) -> dict[str, Any]:
        document = chat_document(answer)
        logprobs = document["choices"][0]["logprobs"]
        for number, entry in enumerate(logprobs["content"] if logprobs else ()):
            entry.update(token=f"token_id:{number + 10}", top_logprobs=[])
        return document

    def _routed(self, question: Question) -> Answer:
        path, body = question.path, question.body
        if fault := self.fault("POST", path):
            return fault
        match path.split("/")[2:]:
            case ["chat", "completions"]:
                return self._sampled(question)
            case ["preview", "models"]:
                return self._made(body)
            case ["preview", "training-jobs"]:
                return self._begun(body)
        return Fault(404, body={"detail": "Not Found"})

    def _sampled(self, question: Question) -> Answer:
        name, _, version = str(question.body["model"]).removeprefix("wandb-artifact:///").partition(":step")
        known = [each for each in self.models.values() if name == f"{each['entity']}/{each['project']}/{each['name']}"]
        step = int(version) if version else None
        if not known or (step is not None and step not in self.checkpoints[known[0]["id"]]):
            return Fault(404, body={"error": {"message": f"no model {name}:{version}"}})
        if not question.body.get("return_tokens_as_token_ids"):
            return Fault(400, body={"error": {"message": "training needs the numbers of tokens"}})
        self.asked.append(step)
        return self.policy(question)

    def _made(self, body: Mapping[str, Any]) -> Answer:
        if body["base_model"] not in ("Qwen/Qwen3-30B-A3B-Instruct-2507", BASE_MODEL):
            return Fault(422, body={"detail": f"Unsupported base model {body['base_model']}"})
        place = {"entity": body["entity"] or "someone", "project": body["project"], "name": body["name"]}
        for known in self.models.values():
            if all(known[name] == value for name, value in place.items()):
                return _document(known) if body["return_existing"] else Fault(409, body={"detail": "exists"})
        made = {"id": str(uuid.uuid4()), **place, "base_model": body["base_model"], "run_id": None}
        self.models[made["id"]] = made
        self.checkpoints[made["id"]] = [*range(self._checkpoints + 1)]
        return _document(made)

    def _begun(self, body: Mapping[str, Any]) -> Answer:
        from art import TrajectoryGroup

        groups = list(body["trajectory_groups"])
        try:
            for group in groups:
                TrajectoryGroup.model_validate(group)
        except ValueError as error:
            return Fault(422, body={"detail": str(error)})
        job = Job(str(uuid.uuid4()), body["model_id"], groups, body["experimental_config"])
        self.jobs.append(job)
        threading.Thread(target=self._work, args=(job,), daemon=True).start()
        return _document({"id": job.id})

    def _work(self, job: Job) -> None:
        job.tell("training_started", num_sequences=self.gradient_steps)
        for number in range(self.gradient_steps):
            job.tell("gradient_step", loss=0.5 - number / 4, grad_norm=1.5, learning_rate=job.config["learning_rate"])
        self.may_end.wait()
        time.sleep(0.01)
        if self.failure:
            job.tell("training_failed", error_message=self.failure)
            return
        steps = self.checkpoints[job.model_id]
        steps.append(max(steps) + 1)
        job.tell("training_ended")


def _document(body: Mapping[str, Any]) -> Fault:
    # Any document that is no answer of a model.
    return Fault(200, body=body)


def _page(items: list[dict[str, Any]], query: Mapping[str, list[str]]) -> dict[str, Any]:
    after, limit = query.get("after", [""])[0], int(query.get("limit", ["20"])[0])
    first = next((place + 1 for place, item in enumerate(items) if item["id"] == after), 0)
    data = items[first : first + limit]
    return {"object": "list", "data": data, "has_more": len(items) > first + limit}
