"""Memory and processors that a container asks for."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

import grpc
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime import limits
from sandrl.runtime.server import faults

_PLACE = "sandbox.spec.containers[0].resources"
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kKMGTP]i?)?$")
_MAX_MEMORY_BYTES = 1 << 40
_LEAST_PROCESSORS = 0.01


def parse_quantity(text: str) -> float:
    """A Kubernetes quantity (`512Mi`, `500m`, `2`) as a number.

    Raises:
        ValueError: If it is none.
    """
    found = _QUANTITY.match(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a quantity such as 512Mi, 500m or 2")
    number, unit = float(found.group(1)), found.group(2) or ""
    if unit == "m":
        return number / 1000
    if unit.endswith("i"):
        return number * 1024.0 ** ("KMGTP".index(unit[0].upper()) + 1)
    return number * 1000.0 ** ("KMGTP".index(unit.upper()) + 1) if unit else number


def of_container(container: pb.Container) -> tuple[int, float | None]:
    """The limits of a container: bytes of memory, and processors (None: all).

    Raises:
        faults.Fault: If a quantity is malformed, or more is requested than this machine has.
    """
    needs, flat = container.resource_requirements, container.resources
    try:
        requested, asked, limit = map(_amounts, (needs.requests, flat, needs.limits))
    except ValueError as error:
        raise faults.invalid(str(error), _PLACE) from error
    for given in (needs.requests, flat):
        _check_machine(given)
    memory = _first(limit.memory, asked.memory, requested.memory)
    processors = _first(limit.cpu, asked.cpu)
    if processors is not None and processors < _LEAST_PROCESSORS:
        raise faults.invalid(f"{processors:g} processors cannot be given", f"{_PLACE}.cpu")
    if memory is not None and not 0 < memory <= _MAX_MEMORY_BYTES:
        raise faults.invalid(f"{memory:g} bytes of memory cannot be given", f"{_PLACE}.memory")
    return limits.MEMORY_BYTES if memory is None else int(memory), processors


def _first(*amounts: float | None) -> float | None:
    return next((amount for amount in amounts if amount is not None), None)


class _Amounts(NamedTuple):
    cpu: float | None
    memory: float | None


def _amounts(resources: pb.Resources) -> _Amounts:
    return _Amounts(*(parse_quantity(text) if text else None for text in (resources.cpu, resources.memory)))


def _check_machine(resources: pb.Resources) -> None:
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    machine = _Amounts(len(os.sched_getaffinity(0)), memory_bytes)
    for name, asked, there in zip(_Amounts._fields, _amounts(resources), machine, strict=True):
        if asked is not None and there is not None and there < asked <= _MAX_MEMORY_BYTES:
            message = f"{getattr(resources, name)} of {name} is requested, and this machine has {there:.0f} ({_PLACE})"
            raise faults.Fault(grpc.StatusCode.FAILED_PRECONDITION, message, reason="CWSANDBOX_NO_SUITABLE_RUNNER")
