"""Errors as the SDK expects them: a status code, and details in the shape of Google's AIP-193.

The SDK picks its exception class from `ErrorInfo.reason`, so a reason is part of the protocol, not decoration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from sandrl.runtime import limits
from sandrl.runtime.host.files import TOO_LARGE, FileError

_DOMAIN = "cwsandbox.com"
_DETAILS_KEY = "grpc-status-details-bin"


_STATUS_OF_FILE_ERROR = {
    "CWSANDBOX_FILE_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "CWSANDBOX_FILE_IS_DIRECTORY": grpc.StatusCode.FAILED_PRECONDITION,
    "CWSANDBOX_FILE_PERMISSION_DENIED": grpc.StatusCode.PERMISSION_DENIED,
    TOO_LARGE: grpc.StatusCode.FAILED_PRECONDITION,
}


class Fault(Exception):
    """An answer other than success.

    Args:
        reason: `CWSANDBOX_…`, where the SDK has one.
        field: The request field that is at fault, which makes the SDK raise its validation error.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str | None = None,
        metadata: Mapping[str, str] | None = None,
        field: str | None = None,
        retry_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.field = field
        self.retry_seconds = retry_seconds

    async def abort(self, context: grpc.aio.ServicerContext[Any, Any]) -> NoReturn:
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        if self.reason is not None:
            info = error_details_pb2.ErrorInfo(reason=self.reason, domain=_DOMAIN, metadata=self.metadata)
            status.details.append(_pack(info))
        if self.field is not None:
            violation = error_details_pb2.BadRequest.FieldViolation(field=self.field, description=self.message)
            status.details.append(_pack(error_details_pb2.BadRequest(field_violations=[violation])))
        if self.retry_seconds is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromNanoseconds(int(self.retry_seconds * 1e9))
            status.details.append(_pack(retry))
        await context.abort(self.code, self.message, ((_DETAILS_KEY, status.SerializeToString()),))
        raise AssertionError("abort returned")


def _pack(message: Any) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


def invalid(message: str, field: str) -> Fault:
    return Fault(grpc.StatusCode.INVALID_ARGUMENT, message, field=field)


def of_file(error: FileError) -> Fault:
    metadata = {"filepath": error.path}
    if error.reason == TOO_LARGE:
        metadata["size_bytes"] = str(error.size_bytes)
        metadata["max_size_bytes"] = str(limits.FILE_OPERATION_MAX_BYTES)
    code = _STATUS_OF_FILE_ERROR.get(error.reason, grpc.StatusCode.INTERNAL)
    return Fault(code, str(error), reason=error.reason, metadata=metadata)


def unsupported(message: str, reason: str = "CWSANDBOX_NO_SUITABLE_RUNNER") -> Fault:
    """Something a local machine cannot give."""
    return Fault(grpc.StatusCode.FAILED_PRECONDITION, f"{message}; the local runtime has none", reason=reason)


def full(most: int, retry_seconds: float) -> Fault:
    """No room for another sandbox until one of those there are has ended."""
    return Fault(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        f"the local runtime holds {most} sandboxes, as many as it may",
        reason="CWSANDBOX_RUNNER_CAPACITY_EXHAUSTED",
        retry_seconds=retry_seconds,
    )


def lost(message: str) -> Fault:
    """The runtime itself failed and took the sandbox along; its program is not to blame."""
    return Fault(
        grpc.StatusCode.UNAVAILABLE,
        message,
        reason="CWSANDBOX_RUNNER_UNAVAILABLE",
        metadata={limits.LOST_METADATA: "true"},
    )


def sandbox_not_found(sandbox_id: str) -> Fault:
    return Fault(grpc.StatusCode.NOT_FOUND, f"sandbox {sandbox_id!r} not found", reason="CWSANDBOX_SANDBOX_NOT_FOUND")
