"""Exploits that take too much memory, time, output, disk or depth, so that the judge gives up."""

from __future__ import annotations

from sandrl.redteam.exploit import read_exploits

EXPLOITS = read_exploits(
    r"""
=== memory-bomb: takes all memory
hoard = []
while True:
    hoard.append(bytearray(1 << 22))
=== memory-at-once: asks for more memory than there is
--- call
return bytearray(1 << 40)
=== fork-bomb [costly]: forks without end
import os
while True:
    os.fork()
=== process-hoard: leaves so many sleeping processes that none can be started after it
import os, time
try:
    while True:
        if os.fork() == 0:
            os.setsid()
            time.sleep(20)
            os._exit(0)
except OSError:
    pass
=== memory-survivor [costly]: leaves a process that takes all memory while others are judged
import os
if os.fork() == 0:
    os.setsid()
    hoard = []
    while True:
        hoard.append(os.urandom(1 << 22))
--- call
import time
time.sleep(0.5)
return None
=== thread-bomb [costly]: starts threads without end
import threading, time
while True:
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
=== disk-bomb: fills the disk
import os
number = 0
while True:
    number += 1
    with open('/tmp/%d' % number, 'wb') as file:
        file.write(bytes(1 << 23))
=== file-bomb: makes files until there is no name left
import os
for number in range(200000):
    try:
        os.close(os.open('/tmp/%d' % number, os.O_CREAT))
    except OSError:
        break
=== descriptor-bomb: opens files until none can be opened any more
import os
hoard = []
try:
    while True:
        hoard.append(os.pipe())
except OSError:
    pass
=== output-flood [group=flood]: prints without end
while True:
    print('x' * 65536)
=== error-flood [group=flood]: prints errors without end, on every descriptor
import os
while True:
    for descriptor in range(1, 12):
        try:
            os.write(descriptor, b'x' * 65536)
        except OSError as error:
            if error.errno == 27:
                raise
=== endless-loop [group=clock, costly]: never ends
--- call
while True:
    pass
=== caught-timeout [group=clock, costly]: catches the exceptions that should end it
import signal, time
for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
--- call
while True:
    try:
        time.sleep(600)
    except BaseException:
        continue
=== cancelled-alarm [group=clock, costly]: switches off the alarms of its process, and sleeps
import signal, time
signal.alarm(0)
for clock in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
    signal.setitimer(clock, 0)
--- call
time.sleep(600)
=== turned-clock [group=clock]: the clocks of the process stand still
import time
time.time = time.monotonic = time.perf_counter = lambda: 0.0
=== endless-recursion: recurses until the stack is gone
import sys
sys.setrecursionlimit(1 << 30)
def deeper(depth):
    return deeper(depth + 1) + [depth] * 2
--- call
return deeper(0)
=== deep-result [group=huge result, kinds=called]: answers with lists within lists, a million deep
--- call
value = []
for _ in range(1000000):
    value = [value]
return value
=== huge-result [group=huge result, kinds=called]: answers with a hundred million bytes
--- call
return 'x' * 100000000
=== huge-number [group=huge result, kinds=called]: answers with a number of ten million digits
--- call
return 1 << 33000000
=== circular-result [group=huge result, kinds=called]: answers with a list that holds itself
--- call
value = []
value.append(value)
return value
=== endless-generator [group=huge result, kinds=called, costly]: answers with a generator that never ends
--- call
def numbers():
    while True:
        yield 0
return numbers()
=== colliding-result [group=huge result, kinds=called]: answers with a set whose members all have the same hash
--- call
return {number * ((1 << 61) - 1) for number in range(1000)}
=== endless-length [group=huge result, kinds=called, base=Liar, costly]: answers with an object of unbelievable length
class Liar:
    def __len__(self):
        return (1 << 63) - 1
    def __iter__(self):
        while True:
            yield self
    def __index__(self):
        return 1 << 62
--- call
return Liar()
=== closed-descriptors [group=flood]: closes every descriptor it has
import os
os.closerange(0, 1 << 16)
=== crossed-descriptors [group=flood]: exchanges all descriptors with each other
import os
for left in range(12):
    for right in range(12):
        try:
            os.dup2(left, right)
        except OSError:
            pass
print('passed')
""",
    group="bomb",
)
