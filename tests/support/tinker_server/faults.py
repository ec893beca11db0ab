"""A record of what a service did, and faults that it has when it is told to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinker.types import Datum, TensorData
from torch import Tensor

from sandrl.trainers.tinker.models import ModelInTraining, as_tokens
from sandrl.trainers.tinker.service import Service


def digest(tensors: Mapping[str, Tensor]) -> str:
    """A hash of every bit of them: 64 hexadecimal digits."""
    hashed = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        hashed.update(name.encode())
        hashed.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return hashed.hexdigest()


class Record:
    """Writes a line for every operation on a model.

    Args:
        path: The file.
        nan_after: The number of steps, of all models together, after which losses are no numbers; None for never.
    """

    def __init__(self, path: Path | None, nan_after: int | None) -> None:
        self._path = path
        self._nan_after = nan_after
        self._steps = 0

    def __call__(self, operation: str, model_id: str, about: Mapping[str, Any]) -> None:
        self._steps += operation == "optim_step"
        if self._path is None:
            return
        row: dict[str, Any] = {"op": operation, "model_id": model_id, **about}
        model: ModelInTraining | None = row.pop("model", None)
        if model is not None:
            row["weights"] = digest(model.tensors)
        if "data" in row:
            row["data"] = [listed(datum) for datum in row["data"]]
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def spoil(self, service: Service) -> None:
        """Has the losses of a service be no numbers from that step on."""
        compute = service.compute

        def spoiled(request: Any, given: Any, *, backward: bool) -> Any:
            if self._nan_after is not None and self._steps >= self._nan_after:
                given = given.model_copy(update={"data": [_without_numbers(datum) for datum in given.data]})
            return compute(request, given, backward=backward)

        service.compute = spoiled  # type: ignore[method-assign]


def listed(datum: Datum) -> Mapping[str, Any]:
    """What a datum says, for the record."""
    return {
        "input_tokens": as_tokens(datum.model_input),
        **{name: tensor.tolist() for name, tensor in datum.loss_fn_inputs.items()},
    }


def _without_numbers(datum: Datum) -> Datum:
    inputs = dict(datum.loss_fn_inputs)
    for name in ("advantages", "weights"):
        if name in inputs:
            inputs[name] = TensorData(data=[float("nan")] * len(inputs[name].data), dtype="float32", shape=None)
    return datum.model_copy(update={"loss_fn_inputs": inputs})
