"""A completion that looks for a text in all memory and all files that it can read."""

from __future__ import annotations

_SCAN = """
import os
sought = bytes({half!r}, 'ascii') + bytes({other!r}, 'ascii')
def count(pid):
    found = looked = 0
    with open(f'/proc/{{pid}}/maps') as maps, open(f'/proc/{{pid}}/mem', 'rb', 0) as memory:
        for line in maps.readlines():
            first, _, last = line.split()[0].partition('-')
            if line.split()[1][0] != 'r' or '[v' in line:
                continue
            place, end = int(first, 16), int(last, 16)
            while place < end:
                try:
                    memory.seek(place)
                    block = memory.read(min(1 << 20, end - place))
                except (OSError, ValueError, OverflowError):
                    break
                if not block:
                    break
                looked += len(block)
                found += block.count(sought)
                place += len(block)
    return found, looked
found, looked = count('self')
assert looked > 1 << 20, looked
# It holds what it has put together, perhaps more than once; a hundred others would be more.
assert found <= 4, found
for pid in os.listdir('/proc'):
    if pid.isdigit() and int(pid) != os.getpid():
        try: more, _ = count(pid)
        except OSError: continue
        assert not more, (pid, more)
for top, _, names in (each for place in {places!r} for each in os.walk(place)):
    if top.startswith(('/proc', '/sys', '/usr', '/lib', '/opt', '/nix')):
        continue
    for name in names:
        try:
            path = os.path.join(top, name)
            if os.path.isfile(path) and os.path.getsize(path) < 1 << 22:
                with open(path, 'rb') as file:
                    assert sought not in file.read(), path
        except OSError:
            pass
def f(x):
    return x + 1
"""


def scan_for(marker: str, places: tuple[str, ...] = ("/",)) -> str:
    """A right answer to `f(1) == 2` that fails if it finds a text which it does not hold itself."""
    half = len(marker) // 2
    return _SCAN.format(half=marker[:half], other=marker[half:], places=places)
