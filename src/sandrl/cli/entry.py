"""Where the `sandrl` command begins: a shell that asks what to offer is answered before anything else is loaded."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Runs the command line, or answers a shell; returns the exit code."""
    shell = os.environ.get("_SANDRL_COMPLETE")
    if shell:
        from sandrl.cli.completion.answer import answer

        return answer(shell)
    try:
        from sandrl.cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("sandrl: error: interrupted before there was anything to save\n")
        return 128 + signal.SIGINT
    return run()
