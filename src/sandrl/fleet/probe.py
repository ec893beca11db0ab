"""Reads what a node has, by code that needs only Python there.

This module is sent to the node as text, so it imports the standard library only, and sandrl where it must be looked
for. A node without sandrl, or with another version, gives an answer and not a traceback.
"""

from __future__ import annotations

from typing import Any


def examine() -> dict[str, Any]:
    """Reads what this machine has.

    Returns:
        `python` (its version), `host`, `sandrl` (its version; None without it), `digest` (of its code) and `problem`
        (why it cannot be used; empty if it can).
    """
    import platform
    import socket

    found = {"python": platform.python_version(), "host": socket.gethostname(), "sandrl": None, "digest": ""}
    try:
        import sandrl

        digest = code_digest()
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being imported there is the answer
        return {**found, "problem": f"sandrl cannot be imported: {type(error).__name__}: {error}"}
    return {**found, "sandrl": sandrl.__version__, "digest": digest, "problem": ""}


def code_digest() -> str:
    """Names the source files of sandrl on this machine, in 16 hex digits: all that judge for a job have the same."""
    import hashlib
    from pathlib import Path

    import sandrl

    root = Path(sandrl.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
