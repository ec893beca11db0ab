"""Errors as the SDK expects them: a status code, and details in the shape of Google's AIP-193.

The SDK picks its exception class from `ErrorInfo.reason`, so a reason is part of the protocol, not decoration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import grpc
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from sandrl.runtime import limits
from sandrl.runtime.host.files import TOO_LARGE, FileError

_DOMAIN = "cwsandbox.com"
_DETAILS_KEY = "grpc-status-details-bin"
_MOST_BYTES = 1000  # of a text: clients take 8 KiB of all, in which a text is up to three times, and encoded
_STATUS_OF_FILE_ERROR = {
    "CWSANDBOX_FILE_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "CWSANDBOX_FILE_IS_DIRECTORY": grpc.StatusCode.FAILED_PRECONDITION,
    "CWSANDBOX_FILE_PERMISSION_DENIED": grpc.StatusCode.PERMISSION_DENIED,
    TOO_LARGE: grpc.StatusCode.FAILED_PRECONDITION,
}


def _shortened(text: str) -> str:
    return text.encode("utf-8", "replace")[:_MOST_BYTES].decode("utf-8", "ignore")


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
        self.message = _shortened(message)
        self.reason = reason
        self.metadata = {name: _shortened(value) for name, value in (metadata or {}).items()}
        self.field = field
        self.retry_seconds = retry_seconds

    async def abort(self, context: grpc.aio.ServicerContext[Any, Any]) -> NoReturn:
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        if self.reason is not None:
            info = error_details_pb2.ErrorInfo(reason=self.reason, domain=_DOMAIN, metadata=self.metadata)
            status.details.add().Pack(info)
        if self.field is not None:
            violation = error_details_pb2.BadRequest.FieldViolation(field=self.field, description=self.message)
            status.details.add().Pack(error_details_pb2.BadRequest(field_violations=[violation]))
        if self.retry_seconds is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromNanoseconds(int(self.retry_seconds * 1e9))
            status.details.add().Pack(retry)
        await context.abort(self.code, self.message, ((_DETAILS_KEY, status.SerializeToString()),))
        raise AssertionError("abort returned")


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


def unavailable(message: str, **metadata: str) -> Fault:
    """The machine or the runtime fails, and not the program."""
    return Fault(grpc.StatusCode.UNAVAILABLE, message, reason="CWSANDBOX_RUNNER_UNAVAILABLE", metadata=metadata)


def lost(message: str) -> Fault:
    """The runtime itself failed and took the sandbox along; its program is not to blame."""
    return unavailable(message, **{limits.LOST_METADATA: "true"})
