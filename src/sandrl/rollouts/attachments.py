"""Files that a solution needs, copied from the sandbox of the episode into the code that is judged.

A solution stays one program: it contains its files, as statements that write them. It is therefore judged, saved and
judged again like any other solution.
"""

from __future__ import annotations

import io
import json
import tokenize
from collections.abc import Mapping, Sequence

from sandrl.rollouts.sandbox import LOST, EpisodeSandbox, observation

MOST_FILES = 16
MOST_FILE_BYTES = 256 * 1024
"""How much may be copied over, in all."""

_PICK = """import base64, json, os, sys
names, most = json.load(sys.stdin)
picked, room = {}, most
for name in names:
    try:
        if not os.path.realpath(name).startswith(os.path.realpath(".") + os.sep):
            sys.exit(f"{name}: is outside the working directory")
        with open(name, "rb") as file:
            content = file.read(room + 1)
    except OSError as error:
        sys.exit(f"{name}: {error.strerror}")
    room -= len(content)
    if room < 0:
        sys.exit(f"{name}: the files are larger than {most} bytes together")
    picked[os.path.relpath(name)] = base64.b64encode(content).decode()
json.dump(picked, sys.stdout)
"""


class NotCopiedError(Exception):
    """Files cannot be copied over; its text is what a policy is to read about that."""


def copied(sandbox: EpisodeSandbox, names: Sequence[str]) -> Mapping[str, str]:
    """Files of a sandbox: base64 of their contents, by path relative to the working directory."""
    if len(names) > MOST_FILES:
        raise NotCopiedError(f"error: at most {MOST_FILES} files can be copied over, not {len(names)}")
    outcome = sandbox.outcome("python", "-c", _PICK, stdin=json.dumps([[*names], MOST_FILE_BYTES]))
    if outcome is None:
        raise NotCopiedError(LOST)
    try:
        picked = json.loads(outcome.stdout) if outcome.exit_code == 0 else None
    except (ValueError, RecursionError):
        picked = None
    if not isinstance(picked, dict):
        raise NotCopiedError(f"error: not submitted: {observation(outcome)}")
    return {str(name): str(content) for name, content in picked.items()}


def with_files(code: str, files: Mapping[str, str]) -> str:
    """Code that first writes files, base64 by relative path, next to it.

    What must come first in a program stays first; what begins as no Python does is returned as it is.
    """
    first = _first_line(code)
    if first is None:
        return code
    lines = code.split("\n")
    writing = [_write_statement(name, content) for name, content in files.items()]
    writing.append('__import__("sys").path.insert(0, __import__("os").getcwd())')
    return "\n".join([*lines[:first], *writing, *lines[first:]])


def _first_line(code: str) -> int | None:
    first, statement = 0, []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type in (tokenize.COMMENT, tokenize.NL):
                continue
            statement.append(token)
            if token.type != tokenize.NEWLINE:
                continue
            is_text = not first and [each.type for each in statement[:-1]] == [tokenize.STRING]
            is_future = [each.string for each in statement[:2]] == ["from", "__future__"]
            if not (is_text or is_future):
                break
            first, statement = token.end[0], []
    except (tokenize.TokenError, SyntaxError):
        return None
    return first


def _write_statement(name: str, content: str) -> str:
    path = f'__import__("pathlib").Path({name!r})'
    data = f'__import__("base64").b64decode({content!r})'
    return f"{path}.parent.mkdir(parents=True, exist_ok=True); {path}.write_bytes({data})"
