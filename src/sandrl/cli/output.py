"""JSON on standard output, for every command the same."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(document: Any) -> None:
    """Prints one JSON document."""
    # ASCII: what a model wrote may hold lone surrogates and escape sequences, and this may be shown on a terminal.
    json.dump(document, sys.stdout, ensure_ascii=True, indent=2, default=str, allow_nan=False)
    sys.stdout.write("\n")
