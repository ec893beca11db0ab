"""Where the `sandrl` command begins: a shell that asks what to offer is answered before anything else is loaded."""

from __future__ import annotations

import os


def main() -> int:
    """Runs the command line, or answers a shell; returns the exit code."""
    shell = os.environ.get("_SANDRL_COMPLETE")
    if shell:
        from sandrl.cli.completion.answer import answer

        return answer(shell)
    from sandrl.cli.app import main as run

    return run()
