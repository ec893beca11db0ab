"""What a directory tree has, file by file, for a comparison of two: names, types, modes, owners, times, content.

`python3 -c TEXT ROOT` prints the tree of a directory, `python3 -c TEXT MOUNT TOP … LOWEST` that of an overlay over
layers; the text of this module is run by the system's Python, as any user.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from typing import Any


def tree(root: str) -> dict[str, Any]:
    """Describes all files below a directory."""
    found: dict[str, Any] = {}
    names: dict[int, list[str]] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in [b".", *folders, *files] if folder == os.fsencode(root) else [*folders, *files]:
            path = os.path.join(folder, name)
            shown = ascii(os.path.relpath(path, os.fsencode(root)))
            found[shown] = describe(path)
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode):
                names.setdefault(status.st_ino, []).append(shown)
    for group in names.values():
        for each in group:
            found[each]["names"] = sorted(group)
    return found


def describe(path: bytes) -> dict[str, Any]:
    """Describes a file."""
    status = os.lstat(path)
    entry: dict[str, Any] = {
        "mode": oct(status.st_mode),
        "owner": [status.st_uid, status.st_gid],
        "time": status.st_mtime_ns,
        "device": status.st_rdev,
    }
    if stat.S_ISLNK(status.st_mode):
        entry["link"] = ascii(os.readlink(path))
    else:
        kept = [name for name in os.listxattr(path) if not name.startswith(("user.overlay.", "user.rootless"))]
        entry["attributes"] = {name: os.getxattr(path, name).hex() for name in sorted(kept)}
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:
            entry["content"] = hashlib.sha256(file.read()).hexdigest()
    return entry


def overlay(mount: str, layers: list[str]) -> dict[str, Any]:
    """Describes what an overlay over layers shows."""
    subprocess.run(
        ["mount", "-t", "overlay", "-o", f"ro,userxattr,lowerdir={':'.join(layers)}", "overlay", mount], check=True
    )
    return tree(mount)


if __name__ == "__main__":
    json.dump(overlay(sys.argv[1], sys.argv[2:]) if len(sys.argv) > 2 else tree(sys.argv[1]), sys.stdout)
