"""Digests of plain content: they name it in a cache, and tell whether it has changed.

The design decision: content is written as JSON with sorted keys first, so a digest is the same in every process and
whatever order a dictionary was filled in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable


def digest_of(contents: Iterable[object]) -> bytes:
    """The SHA-256 digest of plain contents, of which one at a time is in memory: 32 bytes."""
    digest = hashlib.sha256()
    for content in contents:
        digest.update(json.dumps(content, sort_keys=True).encode("ascii"))
    return digest.digest()
