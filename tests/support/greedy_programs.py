"""Programs that take much of what sandboxes share, each bounded in amount and time, and honest ones that need a little.

A greedy program exits with 0 only if it got all that it tried to take, and with 137 if it was stopped. None takes more
than 2 GiB of memory, or more than a small part of a quota of the machine.
"""

from __future__ import annotations

GREEDY = {
    "shared memory given back to nobody": """
import mmap
kept = []
for _ in range(24):  # 1.5 GiB, of which never more than 64 MiB are resident
    kept.append(mmap.mmap(-1, 64 << 20))
    for offset in range(0, 64 << 20, 4096):
        kept[-1][offset] = 1
    kept[-1].madvise(mmap.MADV_DONTNEED)
""",
    "shared memory of which a page stays mapped": """
import ctypes, mmap
libc, kept = ctypes.CDLL(None), []
for _ in range(96):  # 1.5 GiB, of which never more than 16 MiB are mapped
    kept.append(mmap.mmap(-1, 16 << 20))
    for offset in range(0, 16 << 20, 4096):
        kept[-1][offset] = 1
    start = ctypes.addressof((ctypes.c_char * 1).from_buffer(kept[-1]))
    libc.munmap(ctypes.c_void_p(start + 4096), ctypes.c_size_t((16 << 20) - 4096))
""",
    "shared memory of a process that forbids inspection": """
import ctypes, mmap
libc, kept = ctypes.CDLL(None), []
libc.prctl(4, 0, 0, 0, 0)
for _ in range(96):  # 1.5 GiB, of which never more than 16 MiB are mapped
    kept.append(mmap.mmap(-1, 16 << 20))
    for offset in range(0, 16 << 20, 4096):
        kept[-1][offset] = 1
    start = ctypes.addressof((ctypes.c_char * 1).from_buffer(kept[-1]))
    libc.munmap(ctypes.c_void_p(start + 4096), ctypes.c_size_t((16 << 20) - 4096))
""",
    "mappings and page tables": """
import ctypes, os, select, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
ready, is_ready = os.pipe()
over, is_over = os.pipe()
for _ in range(40):  # 1.2 million mappings, and a GiB of page tables
    if os.fork() == 0:
        os.close(is_over)
        base = libc.mmap(None, 30_000 * 4096, 0, 0x22, -1, 0)
        for page in range(0, 30_000, 2):
            libc.mprotect(base + page * 4096, 4096, 1)
        tables = libc.mmap(None, 12 << 30, 1, 0x4022, -1, 0)
        for offset in range(0, 12 << 30, 2 << 20):
            ctypes.c_char.from_address(tables + offset).value
        os.write(is_ready, b"x")
        os.read(over, 1)  # until the parent ends: all 40 have theirs at the same time, however slow the machine is
        os._exit(0)
count = 0
while count < 40:
    if os.waitpid(-1, os.WNOHANG)[0]:
        sys.exit(137)
    if select.select([ready], [], [], 0.1)[0]:
        count += len(os.read(ready, 40))
for _ in range(600):  # all of it stays until somebody looks
    if os.waitpid(-1, os.WNOHANG)[0]:
        sys.exit(137)
    select.select([], [], [], 0.1)
""",
    "epoll watches": """
import os, select, time
reading, _ = os.pipe()
targets = [reading] + [os.dup(reading) for _ in range(300)]
kept = [select.epoll() for _ in range(100)]
for epoll in kept:  # 30,000 of some millions
    for target in targets:
        epoll.register(target, select.EPOLLIN)
time.sleep(60)
""",
    "pipes": """
import os, time
kept = [os.pipe() for _ in range(200)]
time.sleep(60)
""",
    "descriptors": """
import os, time
null = os.open("/dev/null", os.O_RDONLY)
kept = [os.dup(null) for _ in range(480)]
for _ in range(50):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
time.sleep(60)
""",
    "asynchronous I/O requests": """
import ctypes, platform, sys
libc, context = ctypes.CDLL(None, use_errno=True), ctypes.c_ulong()
number = 206 if platform.machine() == "x86_64" else 0
if libc.syscall(number, 128, ctypes.byref(context)) == 0:
    sys.exit(0)
sys.exit(137 if ctypes.get_errno() == 38 else 1)
""",
    "a process that cannot be looked into": """
import ctypes, os, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
kept = [os.pipe() for _ in range(150)]
time.sleep(60)
""",
}

TAKES_MEMORY = (
    "shared memory given back to nobody",
    "shared memory of which a page stays mapped",
    "mappings and page tables",
)

HONEST = {
    "a loop of events": """
import asyncio
async def main():
    process = await asyncio.create_subprocess_exec("echo", "well", stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return out
assert asyncio.run(main()) == b"well\\n"
""",
    "a pipe that is filled before it is read": """
import os
reading, writing = os.pipe()
os.write(writing, b"x" * 30_000)
assert len(os.read(reading, 30_000)) == 30_000
""",
    "a connection": """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
def serve():
    connection, _ = server.accept()
    with connection, connection.makefile("rb") as file:
        connection.sendall(file.readline() * 10_000)
threading.Thread(target=serve).start()
with socket.create_connection(server.getsockname()) as client:
    client.sendall(b"x" * 100 + b"\\n")
    with client.makefile("rb") as file:
        assert len(file.read()) == 1_010_000
""",
    "workers": """
import multiprocessing
with multiprocessing.get_context("fork").Pool(4) as pool:
    assert pool.map(abs, range(-100, 0)) == list(range(100, 0, -1))
""",
    "memory": """
import mmap
kept = b"x" * (150 << 20)
shared = mmap.mmap(-1, 100 << 20)
shared.write(b"x" * (100 << 20))
""",
}
