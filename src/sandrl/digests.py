"""Digests of plain content, as names in a cache and to detect changes.

The content is first written as JSON with sorted keys, so a digest is the same in every process and does not depend on
the order in which a dictionary was filled.
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
