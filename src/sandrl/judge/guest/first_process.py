"""The program that is process 1 of a cell whose judge is outside: a few instructions that wait for the end.

The processes that a completion leaves behind become children of process 1, and the kernel reaps the children of a
process that ignores their ends. The forker ends the program, and the kernel ends everything in the cell with it. An
interpreter in its place would cost as much as the completion's own.

The program is made here, from its instructions, so that what runs can be read.
"""

from __future__ import annotations

import posix
from collections.abc import Callable

from sandrl.judge.guest.descriptors import write_all

LOADED_AT = 0x400000
# Sizes of the headers of an ELF file, and of the address that a `struct sigaction` begins with.
FILE_HEADER_BYTES, PROGRAM_HEADER_BYTES, SIGACTION_BYTES = 64, 56, 32
IGNORE_SIGNAL = 1
SIGNALS_BYTES = 8  # of a set of signals
# In ELF: the machine, by the names that the kernel gives.
MACHINES = {"x86_64": 62, "aarch64": 183}


def for_x86_64() -> bytes:
    def system_call(number: int, *arguments: int) -> bytes:
        # mov eax, number; mov edi, …; mov esi, …; mov edx, …; mov r10d, …; syscall
        registers = b"\xbf", b"\xbe", b"\xba", b"\x41\xba"
        moved = [register + value.to_bytes(4, "little") for register, value in zip(registers, arguments)]
        return b"\xb8" + number.to_bytes(4, "little") + b"".join(moved) + b"\x0f\x05"

    prctl, rt_sigaction, pause = 157, 13, 34
    waits = system_call(pause)
    waits += b"\xeb" + (256 - len(waits) - 2).to_bytes(1, "little")  # jmp back
    return program_of(system_call, waits, prctl, rt_sigaction)


def for_aarch64() -> bytes:
    def system_call(number: int, *arguments: int) -> bytes:
        # movz and movk x8, number; movz and movk x0, …; svc 0
        words = []
        for register, value in ((8, number), *enumerate(arguments)):
            words.append(0xD2800000 | (value & 0xFFFF) << 5 | register)
            words.append(0xF2A00000 | (value >> 16) << 5 | register)
        return b"".join([word.to_bytes(4, "little") for word in (*words, 0xD4000001)])

    prctl, rt_sigaction, ppoll = 167, 134, 73
    waits = system_call(ppoll, 0, 0, 0, 0)
    waits += (0x14000000 | (-len(waits) // 4) & 0x3FFFFFF).to_bytes(4, "little")  # b back
    return program_of(system_call, waits, prctl, rt_sigaction)


def program_of(system_call: Callable[..., bytes], waits: bytes, prctl: int, rt_sigaction: int) -> bytes:
    """The instructions, and behind them the `struct sigaction` that they point to."""
    kill, child_ended, on_end_of_parent, dumpable = 9, 17, 1, 4
    begins = system_call(prctl, on_end_of_parent, kill) + system_call(prctl, dumpable, 0)
    size = len(begins) + len(system_call(rt_sigaction, 0, 0, 0, 0)) + len(waits)
    size += -size % 8
    action = LOADED_AT + FILE_HEADER_BYTES + PROGRAM_HEADER_BYTES + size
    code = begins + system_call(rt_sigaction, child_ended, action, 0, SIGNALS_BYTES) + waits
    return code.ljust(size, b"\0") + IGNORE_SIGNAL.to_bytes(SIGACTION_BYTES, "little")


def executable(machine: str) -> bytes:
    """An ELF file for a machine, by its name in `uname`; KeyError for others than x86-64 and aarch64."""
    code = {"x86_64": for_x86_64, "aarch64": for_aarch64}[machine]()
    headers = FILE_HEADER_BYTES + PROGRAM_HEADER_BYTES
    size = headers + len(code)

    def numbers(*fields: tuple[int, int]) -> bytes:
        return b"".join([value.to_bytes(length, "little") for value, length in fields])

    # 64 bits, little-endian, version 1; then an executable for the machine, which begins behind the headers.
    kind, version, flags = 2, 1, 0
    file = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    file += numbers((kind, 2), (MACHINES[machine], 2), (version, 4), (LOADED_AT + headers, 8))
    file += numbers((FILE_HEADER_BYTES, 8), (0, 8), (flags, 4), (FILE_HEADER_BYTES, 2))
    file += numbers((PROGRAM_HEADER_BYTES, 2), (1, 2), (0, 2), (0, 2), (0, 2))
    # One part, which is loaded as it is, to be read and executed.
    load, execute_and_read, page = 1, 5, 0x1000
    file += numbers((load, 4), (execute_and_read, 4), (0, 8), (LOADED_AT, 8), (LOADED_AT, 8))
    file += numbers((size, 8), (size, 8), (page, 8))
    return file + code


def write_executable(path: str) -> None:
    """Writes the program for this machine; nobody can read it, so nobody can look into a process of it."""
    descriptor = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o111)
    write_all(descriptor, executable(posix.uname().machine))
    posix.close(descriptor)
