"""The entry point of the `sandrl` command; it answers requests for shell completion before it loads anything else."""

from __future__ import annotations

import gc
import os
import signal
import sys

from sandrl.files import raise_descriptor_limit

# Nearly all objects of a start stay. At the threshold of Python, 700, the search for garbage takes a seventh of it.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def main() -> int:
    """Runs the command line, or answers a shell; returns the exit code."""
    _open_standard_streams()
    raise_descriptor_limit()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    shell = os.environ.get("_SANDRL_COMPLETE")
    if shell:
        from sandrl.cli.completion.answer import answer

        return answer(shell)
    try:
        from sandrl.cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("sandrl: error: interrupted before there was anything to save\n")
        return 128 + signal.SIGINT
    except (ImportError, OSError) as error:
        from sandrl.extras import broken_library

        broken = broken_library(error)
        if broken is None:
            raise
        sys.stderr.write(f"sandrl: error: {broken.message}\n  hint: {broken.hint}\n")
        return broken.exit_code
    return run()


def _open_standard_streams() -> None:
    # Connects standard streams that were closed (`>&-`) to nowhere. Otherwise the next file that is opened gets such a
    # stream's number, and what is meant for the terminal lands in it.
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The kernel gives the lowest number that is free.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
