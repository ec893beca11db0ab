"""Determines from the files of checkpoints whether weights have changed.

The format of safetensors is a header of JSON and the raw numbers, so it is read here without torch
(https://huggingface.co/docs/safetensors): the script itself needs no GPU memory.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in a file.

    Attributes:
        digest: Stands for its numbers.
        is_zero: Whether all bytes of it are zero.
    """

    digest: str
    is_zero: bool


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """The tensors of a model, or of adapters, by name; none if the directory has none.

    Raises:
        ValueError: If a file is not a safetensors file.
    """
    found: dict[str, Tensor] = {}
    for path in sorted(directory.glob("*.safetensors")):
        found |= _read(path)
    return found


def changed(before: Path, after: Path) -> tuple[int, int]:
    """How many tensors two checkpoints have in common, and in how many of these their numbers differ.

    Returns:
        The number that differ, and the number in common.
    """
    one, other = read_tensors(before), read_tensors(after)
    common = one.keys() & other.keys()
    return sum(one[name].digest != other[name].digest for name in common), len(common)


def trained_adapters(directory: Path) -> tuple[int, int]:
    """How many second matrices of LoRA adapters, which begin as zeros, are not zero (arXiv:2106.09685, 4.1).

    Returns:
        The number that are not zero, and the number of all.
    """
    found = [tensor for name, tensor in read_tensors(directory).items() if "lora_B" in name]
    return sum(not tensor.is_zero for tensor in found), len(found)


def _read(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        try:
            header: dict[str, Any] = json.loads(file.read(size))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is not a safetensors file") from error
        found = {}
        for name, facts in header.items():
            if name == "__metadata__":
                continue
            begin, end = facts["data_offsets"]
            file.seek(8 + size + begin)
            digest, is_zero, left = hashlib.sha256(), True, end - begin
            while left:
                chunk = file.read(min(left, _CHUNK_BYTES))
                if not chunk:
                    raise ValueError(f"{path} ends within {name}")
                digest.update(chunk)
                is_zero = is_zero and chunk.count(0) == len(chunk)
                left -= len(chunk)
            found[name] = Tensor(digest.hexdigest(), is_zero)
        return found
