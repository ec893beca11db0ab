"""A model in this process as a policy: loaded and asked through transformers, in batches.

The design decision: sampled as it is trained, from the whole distribution. What a model's own generation settings would
cut off (top-k, top-p) is part of the policy that rewards train.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandrl.rollouts import Question, Sampling
from sandrl.trainers import libraries
from sandrl.trainers.models import find_model

BATCH_SIZE = 64

# Below this size a second thread costs more than it brings.
_SMALL = 10_000_000


class InProcessPolicy:
    """A model on this machine's GPU, or its processors.

    Args:
        model: A directory with a model, or with an adapter and the name of its base; or a model's id on the hub.
        name: What to call it; the model's own name unless given.
        batch_size: How many questions to answer at once.

    Attributes:
        device: What it runs on.

    Raises:
        MissingExtraError: If transformers or torch are not installed.
        InputError: If there is no such model, or it cannot be loaded.
        ServiceError: If it is on the hub, which does not answer, and not in the hub's cache.
    """

    def __init__(self, model: str, *, name: str | None = None, batch_size: int | None = None) -> None:
        self._torch = libraries.load("torch")
        self._transformers = libraries.load("transformers")
        self.name = name or Path(model).name
        self.batch_size = batch_size or BATCH_SIZE
        self.device = "cuda" if self._torch.cuda.is_available() else "cpu"
        with libraries.kept_quiet():
            self._tokenizer, self._model = self._load(model)
        self._is_small = self._model.num_parameters() < _SMALL

    def answer(
        self, questions: Sequence[Question], sampling: Sampling, *, is_stopped: Callable[[], bool]
    ) -> list[str] | None:
        """Answers each question, in order; the first one's seed decides for the batch. See `Policy.answer`."""
        tokenizer, torch = self._tokenizer, self._torch
        prompts = [self._rendered(question) for question in questions]
        inputs = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False).to(self.device)
        settings: dict[str, Any] = {"do_sample": False, "temperature": None, "top_k": None, "top_p": None}
        if not sampling.is_greedy:
            settings = {"do_sample": True, "temperature": sampling.temperature, "top_k": 0, "top_p": 1.0}

        def stops(tokens: Any, scores: Any, **_: Any) -> Any:
            return torch.full((tokens.shape[0],), is_stopped(), dtype=torch.bool, device=tokens.device)

        with libraries.kept_quiet(), torch.no_grad(), self._prepared(questions[0].seed):
            outputs = self._model.generate(
                **inputs,
                max_new_tokens=sampling.max_tokens,
                stopping_criteria=self._transformers.StoppingCriteriaList([stops]),
                **settings,
            )
        if is_stopped():
            return None
        answers: list[str] = tokenizer.batch_decode(
            outputs[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return answers

    def _rendered(self, question: Question) -> str:
        if self._tokenizer.chat_template is None:
            # A base model continues a text; it was never told of roles.
            return "\n\n".join(message["content"] for message in question.messages) + "\n\n"
        return str(
            self._tokenizer.apply_chat_template(list(question.messages), tokenize=False, add_generation_prompt=True)
        )

    @contextmanager
    def _prepared(self, seed: int) -> Iterator[None]:
        """Seeds torch, and gives it the threads that suit the model, for the length of a `with` block."""
        torch = self._torch
        threads = torch.get_num_threads()
        if self._is_small and self.device == "cpu":
            torch.set_num_threads(1)
        try:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                yield
        finally:
            torch.set_num_threads(threads)

    def _load(self, model: str) -> tuple[Any, Any]:
        place = find_model(model)
        try:
            tokenizer = self._transformers.AutoTokenizer.from_pretrained(
                place.name, padding_side="left", local_files_only=place.is_offline
            )
            network = self._transformers.AutoModelForCausalLM.from_pretrained(
                place.name, dtype="auto", local_files_only=place.is_offline
            )
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            raise place.explain(error) from error
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer, network.to(self.device).eval()
