"""Reads back what W&B wrote offline: blocks of 32 KiB in LevelDB's log format, each record a protocol buffer."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FILE_HEADER = 7
_BLOCK = 32 * 1024
_HEADER = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def read_offline_run(directory: Path) -> tuple[dict[int, dict[str, Any]], dict[str, Any]]:
    """Reads the only offline run below a directory.

    Returns:
        What was logged at each step, and the run's configuration.
    """
    [file] = directory.glob("wandb/offline-run-*/run-*.wandb")
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

    history: dict[int, dict[str, Any]] = {}
    config: dict[str, Any] = {}
    for data in _records(file.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        if record.HasField("history"):
            values = {
                item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item
            }
            history[record.history.step.num or int(values.get("_step", 0))] = values
        for update in (record.run.config, record.config):
            config.update({item.key: json.loads(item.value_json) for item in update.update})
    return history, config


def _records(data: bytes) -> Iterator[bytes]:
    place, whole = _FILE_HEADER, b""
    while place + _HEADER.size <= len(data):
        room = _BLOCK - place % _BLOCK
        if room < _HEADER.size:
            place += room
            continue
        _, length, kind = _HEADER.unpack_from(data, place)
        piece = data[place + _HEADER.size : place + _HEADER.size + length]
        place += _HEADER.size + length
        if kind in (_FULL, _FIRST):
            whole = b""
        whole += piece
        if kind in (_FULL, _LAST):
            yield whole
