"""Several sources of training problems, each with a weight: `a=2,b=1` takes two problems of `a` for each of `b`."""

from __future__ import annotations

import math
from pathlib import Path

from sandrl.errors import InputError

_HINT = "give each source a weight, as in mbpp=2,mine.jsonl=1"


def sources_of(problems: str) -> dict[str, float]:
    """The weight of each source that `problems` names; of a single source without a weight, 1.

    A word that is the path of a file stands for the file, whatever characters it has.

    Raises:
        InputError: If a weight is missing or not a positive number, or a source is named twice.
    """
    if Path(problems).exists() or not {"=", ","} & set(problems):
        return {problems: 1.0}
    weights: dict[str, float] = {}
    for part in problems.split(","):
        source, _, text = part.strip().rpartition("=")
        try:
            weight = float(text)
        except ValueError:
            weight = math.nan
        if not source or not 0.0 < weight < math.inf:
            raise InputError(f"{part.strip()!r} is not SOURCE=WEIGHT", path=problems, hint=_HINT, fields=("problems",))
        if source in weights:
            raise InputError(f"names {source!r} twice", path=problems, hint=_HINT, fields=("problems",))
        weights[source] = weight
    return weights
