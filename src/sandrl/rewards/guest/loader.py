"""Names that the loader of a program adds to its namespace (`BOOTSTRAP` in `program.py`, and `worker.py`).

This file is in no program. Type checkers and tests find the names here.
"""

request_size = 0
"""Bytes of the request on standard input."""


def load_rest() -> None:
    """Loads the files of the program that come after the fork: in tests, they are loaded."""
