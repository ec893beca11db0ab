"""Bodies of requests and answers in both encodings of the SDK.

Early versions of the SDK send and read JSON. Later ones send the data of a training as protocol buffers, and read
samples and the results of a training only as these. In the service both are the same: a `Computation`, and an answer of
plain JSON. The messages are those of the installed SDK; an early one has none, so a client with a later SDK is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from tinker import types
from tinker.proto import tinker_public_pb2 as messages
from torch import Tensor

from sandrl.trainers.tinker.options import RequestError

PROTOCOL_BUFFERS = "application/x-protobuf"

_HAS_MESSAGES = hasattr(messages, "ForwardBackwardRequest")
# What the SDK reads as "no logprob".
_EMPTY_LOGPROB = -99999.0


@dataclass(frozen=True, slots=True)
class Datum:
    """A sequence of tokens, and the tensors by name that a loss function takes with it."""

    tokens: list[int]
    inputs: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Computation:
    """A request for the loss of some data, and with `backward` for its gradients.

    Attributes:
        seq_id: The number that the client gave to the request.
    """

    model_id: str
    seq_id: int | None
    data: Sequence[Datum]
    loss_fn: str
    loss_fn_config: Mapping[str, float]
    backward: bool


class _Tensor(BaseModel):
    data: list[int] | list[float]
    dtype: Literal["float32", "int64"]
    shape: list[int] | None = None
    sparse_crow_indices: list[int] | None = None

    def read(self) -> Tensor:
        if self.sparse_crow_indices is not None:
            raise _sparse()
        return _shaped(torch.tensor(self.data, dtype=getattr(torch, self.dtype)), self.shape)


class _Datum(BaseModel):
    model_input: types.ModelInput
    loss_fn_inputs: dict[str, _Tensor]


class _Input(BaseModel):
    data: list[_Datum]
    loss_fn: str
    loss_fn_config: dict[str, float] | None = None


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model_id: str
    seq_id: int | None = None
    type: str | None = None
    forward_input: _Input | None = None
    forward_backward_input: _Input | None = None


def read_computation(body: bytes, content_type: str) -> Computation:
    """Reads a request for a loss.

    Raises:
        RequestError: If it is not one, or has more than text.
    """
    if PROTOCOL_BUFFERS in content_type:
        return _from_message(body)
    try:
        request = _Request.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(each) for each in first["loc"])
        raise RequestError(f"not a request for a loss: {place}: {first['msg']}") from error
    given = request.forward_backward_input or request.forward_input
    if given is None:
        raise RequestError("not a request for a loss: it has neither forward_input nor forward_backward_input")
    data = [
        Datum(as_tokens(each.model_input), {name: tensor.read() for name, tensor in each.loss_fn_inputs.items()})
        for each in given.data
    ]
    backward = request.forward_backward_input is not None
    return Computation(request.model_id, request.seq_id, data, given.loss_fn, given.loss_fn_config or {}, backward)


def as_tokens(given: Any) -> list[int]:
    """The tokens of a `ModelInput` of the SDK.

    Raises:
        RequestError: If it is more than text.
    """
    try:
        tokens: list[int] = given.to_ints()
    except ValueError as error:
        raise _not_text() from error
    return tokens


def as_message(answer: Mapping[str, Any]) -> bytes | None:
    """An answer in protocol buffers; None if it has no such form, as errors and most answers have not."""
    if not _HAS_MESSAGES:
        return None
    if "sequences" in answer:
        return _samples(answer)
    return _losses(answer) if "loss_fn_outputs" in answer else None


def _from_message(body: bytes) -> Computation:
    if not _HAS_MESSAGES:
        raise RequestError(
            "this service has an early version of the SDK, which has no protocol buffers for requests: use the"
            " client's version of tinker in the environment of the service, or the service's in the client's"
        )
    from google.protobuf.message import DecodeError

    request = messages.ForwardBackwardRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise RequestError("the request is not a ForwardBackwardRequest in protocol buffers") from error
    if texts := [name for name, value in request.loss_fn_config_v2.items() if value.WhichOneof("value") == "text"]:
        raise RequestError(f"{request.loss_fn} does not take a text as {texts[0]} in its loss_fn_config")
    config = {name: value.number for name, value in request.loss_fn_config_v2.items()}
    return Computation(
        request.model_id,
        request.seq_id,
        [_read_datum(each) for each in request.data],
        request.loss_fn,
        {**request.loss_fn_config, **config},
        not request.forward_only,
    )


def _read_datum(datum: Any) -> Datum:
    tokens: list[int] = []
    for chunk in datum.model_input:
        if not chunk.HasField("encoded_text"):
            raise _not_text()
        tokens += _from_bytes(chunk.encoded_text.tokens, torch.int32).tolist()
    return Datum(tokens, {name: _read_tensor(tensor) for name, tensor in datum.loss_fn_inputs.items()})


def _read_tensor(tensor: Any) -> Tensor:
    if tensor.HasField("sparse_csr"):
        raise _sparse()
    kinds = {messages.DTYPE_FLOAT32: torch.float32, messages.DTYPE_INT64: torch.int64}
    if tensor.dtype not in kinds:
        raise RequestError("tensors must be of float32 or int64")
    return _shaped(_from_bytes(tensor.dense, kinds[tensor.dtype]), list(tensor.shape) or None)


def _from_bytes(content: bytes, dtype: torch.dtype) -> Tensor:
    if len(content) % dtype.itemsize:
        raise RequestError(f"{len(content)} bytes are not a whole number of values of {dtype.itemsize} bytes")
    return torch.frombuffer(bytearray(content), dtype=dtype) if content else torch.empty(0, dtype=dtype)


def _shaped(tensor: Tensor, shape: Sequence[int] | None) -> Tensor:
    if shape is None:
        return tensor
    try:
        return tensor.reshape(list(shape))
    except RuntimeError as error:
        raise RequestError(f"{tensor.numel()} values do not have the shape {list(shape)}") from error


def _not_text() -> RequestError:
    return RequestError("this model accepts only text")


def _sparse() -> RequestError:
    return RequestError("sparse tensors are not supported; send dense ones, with one target for each token")


def _samples(answer: Mapping[str, Any]) -> bytes:
    told = messages.SampleResponse()
    for each in answer["sequences"]:
        reason = messages.STOP_REASON_STOP if each["stop_reason"] == "stop" else messages.STOP_REASON_LENGTH
        told.sequences.add(
            stop_reason=reason,
            tokens=_bytes(each["tokens"], torch.int32),
            logprobs=_bytes(each["logprobs"], torch.float32),
        )
    if answer.get("prompt_logprobs"):
        logprobs = [float("nan") if each is None else each for each in answer["prompt_logprobs"]]
        told.prompt_logprobs = _bytes(logprobs, torch.float32)
    if answer.get("topk_prompt_logprobs"):
        rows = [row or [] for row in answer["topk_prompt_logprobs"]]
        width = max(map(len, rows))
        filled = [[*row, *[(0, _EMPTY_LOGPROB)] * (width - len(row))] for row in rows]
        told.topk_prompt_logprobs.token_ids = _bytes([token for row in filled for token, _ in row], torch.int32)
        told.topk_prompt_logprobs.logprobs = _bytes([logprob for row in filled for _, logprob in row], torch.float32)
        told.topk_prompt_logprobs.k, told.topk_prompt_logprobs.length = width, len(rows)
    return bytes(told.SerializeToString())


def _losses(answer: Mapping[str, Any]) -> bytes:
    told = messages.ForwardBackwardOutput(loss_fn_output_type=answer["loss_fn_output_type"], metrics=answer["metrics"])
    outputs: Sequence[Mapping[str, Any]] = answer["loss_fn_outputs"]
    record = told.loss_fn_outputs.add(num_datums=len(outputs))
    for name in outputs[0] if outputs else ():
        values = [each[name]["data"] for each in outputs]
        ends = [0]
        for each in values:
            ends.append(ends[-1] + len(each) * torch.float32.itemsize)
        field = record.fields[name]
        field.dtype = messages.DTYPE_FLOAT32
        field.data = _bytes([value for each in values for value in each], torch.float32)
        field.offsets = _bytes(ends, torch.int64)
    return bytes(told.SerializeToString())


def _bytes(values: Sequence[float], dtype: torch.dtype) -> bytes:
    return torch.tensor(values, dtype=dtype).numpy().tobytes()
