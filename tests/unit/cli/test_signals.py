"""Signals of the terminal, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

SWALLOWED = """
import contextlib, os, signal, sys, time
from sandrl.cli.signals import repeated_interrupt
handler = signal.getsignal(signal.SIGINT)
try:
    with repeated_interrupt():
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.8)
    print("interrupted", signal.getsignal(signal.SIGINT) is handler, signal.getitimer(signal.ITIMER_REAL))
"""
# A signal that a thread of a library receives ends no wait of the main thread.
ELSEWHERE = """
import os, signal, threading, time
from sandrl.cli.signals import repeated_interrupt

def interrupt():
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

try:
    with repeated_interrupt():
        threading.Thread(target=interrupt, daemon=True).start()
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
except KeyboardInterrupt:
    print("interrupted")
"""
IGNORED = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from sandrl.cli.signals import repeated_interrupt
with repeated_interrupt():
    os.kill(os.getpid(), signal.SIGINT)
print("went on")
"""


def printed(code: str) -> str:
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, timeout=50, check=False)
    return done.stdout + done.stderr


def test_an_interrupt_that_a_library_swallowed_comes_again_until_the_block_ends() -> None:
    assert printed(SWALLOWED) == "interrupted True (0.0, 0.0)\n"


def test_an_interrupt_that_does_not_end_the_wait_of_the_main_thread_ends_the_block() -> None:
    assert printed(ELSEWHERE) == "interrupted\n"


def test_an_interrupt_that_was_switched_off_stays_so() -> None:
    assert printed(IGNORED) == "went on\n"
