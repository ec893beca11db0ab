"""A record of what a service did, and faults that it has when it is told to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sandrl.trainers.tinker.bodies import Computation, Datum
from sandrl.trainers.tinker.models import ModelInTraining
from sandrl.trainers.tinker.service import Service
from sandrl.trainers.tinker.work import Answer


def digest(tensors: Mapping[str, Tensor]) -> str:
    """A hash of every bit of them: 64 hexadecimal digits."""
    hashed = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        hashed.update(name.encode())
        hashed.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return hashed.hexdigest()


class Record:
    """Writes a line for every operation on a model, after it, with a hash of the model's weights.

    Args:
        path: The file.
        nan_after: The number of steps, of all models together, after which losses are no numbers; None for never.
    """

    def __init__(self, path: Path | None, nan_after: int | None) -> None:
        self._path = path
        self._nan_after = nan_after
        self._steps = 0

    def watch(self, service: Service) -> None:
        """Records what a service does from now on, and spoils its losses from that step on."""
        ask, compute = service._ask, service.compute

        def recorded(request: Any, run: Callable[[], Answer], tokens: int = 0) -> Any:
            def run_and_write() -> Answer:
                answer = run()
                self._write(request, service._model(request.model_id))
                return answer

            return ask(request, run_and_write, tokens)

        async def spoiled(request: Computation) -> Any:
            if self._nan_after is not None and self._steps >= self._nan_after:
                request = replace(request, data=[_without_numbers(datum) for datum in request.data])
            return await compute(request)

        service._ask = recorded  # type: ignore[method-assign]
        service.compute = spoiled  # type: ignore[method-assign]

    def _write(self, request: Any, model: ModelInTraining) -> None:
        operation = getattr(request, "type", "")
        if isinstance(request, Computation):
            operation = "forward_backward" if request.backward else "forward"
        self._steps += operation == "optim_step"
        if self._path is None:
            return
        row = {"op": operation, "model_id": request.model_id, "step": model.steps, "weights": digest(model.tensors)}
        row |= {name: getattr(request, name) for name in ("path", "optimizer") if hasattr(request, name)}
        if isinstance(request, Computation):
            row["data"] = [listed(datum) for datum in request.data]
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def listed(datum: Datum) -> Mapping[str, Any]:
    """What a datum says, for the record."""
    return {
        "input_tokens": datum.tokens,
        **{name: tensor.tolist() for name, tensor in datum.inputs.items()},
    }


def _without_numbers(datum: Datum) -> Datum:
    inputs = {
        name: torch.full_like(tensor, float("nan")) if name in ("advantages", "weights") else tensor
        for name, tensor in datum.inputs.items()
    }
    return replace(datum, inputs=inputs)
