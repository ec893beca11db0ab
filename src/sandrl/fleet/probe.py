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
        from sandrl.fleet.code import code_digest
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being imported there is the answer
        return {**found, "problem": f"sandrl cannot be imported: {type(error).__name__}: {error}"}
    return {**found, "sandrl": sandrl.__version__, "digest": code_digest(), "problem": ""}
