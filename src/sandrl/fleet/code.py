"""A digest of the code of sandrl on a machine: two machines that judge for one job must have the same."""

from __future__ import annotations

import hashlib
from pathlib import Path

import sandrl


def code_digest() -> str:
    """Names the source files of sandrl that are installed here: 16 hex digits."""
    root = Path(sandrl.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
