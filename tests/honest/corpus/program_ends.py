# Programs whose output or exit status depends on how the interpreter ends.

# === done problem
# --- stdout
done
# === main problem
# --- stdout
main
# === os-exit-after-flush
import os
import sys

print(int(input()) + 1)
sys.stdout.flush()
os._exit(0)
# --- stdin
1
# --- stdout
2
# === os-write-and-os-exit of=done
import os

os.write(1, b"done\n")
os._exit(0)
# === execv-python
import os
import sys

if len(sys.argv) < 2:
    print("first", flush=True)
    os.execv(sys.executable, [sys.executable, "-c", "print('second')"])
# --- stdout
first
second
# === execv-itself
import os
import sys

if len(sys.argv) < 2:
    print("first", flush=True)
    os.execv(sys.executable, [sys.executable, sys.argv[0], "again"])
print("second", sys.argv[1])
# --- stdout
first
second again
# === execlp-shell
import os
import sys

print("before")
sys.stdout.flush()
os.execlp("sh", "sh", "-c", "read x; echo $x")
# --- stdin
word
# --- stdout
before
word
# === own-buffered-writer
import io

out = io.BufferedWriter(io.FileIO(1, "w", closefd=False), 1 << 16)
out.write(b"buffered\n")
# --- stdout
buffered
# === own-text-stream
import sys

sys.stdout = open(1, "w", closefd=False)
print("replaced", end="")
# --- stdout
replaced
# === stdout-over-buffer
import io
import sys

sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", write_through=False)
print("wrapped")
# --- stdout
wrapped
# === own-writer-with-flush
import os
import sys

class Writer:
    def __init__(self):
        self.parts = []
    def write(self, text):
        self.parts.append(text)
    def flush(self):
        os.write(1, "".join(self.parts).encode())
        self.parts = []

sys.stdout = Writer()
print("a", "b")
# --- stdout
a b
# === atexit-prints
import atexit
import sys

lines = []
atexit.register(lambda: sys.stdout.write("\n".join(lines)))
lines.append("x")
lines.append("y")
# --- stdout
x
y
# === del-of-a-global
class Sink:
    def __init__(self):
        self.lines = []
    def __del__(self):
        print("\n".join(self.lines))

sink = Sink()
sink.lines.append("from del")
# --- stdout
from del
# === del-without-dict
class Last:
    __slots__ = ()
    def __del__(self):
        print("last")

last = Last()
print("main")
# --- stdout
main
last
# === del-in-a-cycle
class Node:
    def __del__(self):
        print("collected")

a = Node()
a.me = a
del a
print("main")
# --- stdout
main
collected
# === weakref-finalize
import weakref

class A:
    pass

a = A()
weakref.finalize(a, print, "finalized")
print("main")
# --- stdout
main
finalized
# === weakref-callback
import weakref

class A:
    pass

def gone(reference):
    print("gone")

a = A()
r = weakref.ref(a, gone)
print("main")
del a
# --- stdout
main
gone
# === suspended-generator
def lines():
    try:
        yield "one"
        yield "two"
    finally:
        print("closed")

g = lines()
print(next(g))
# --- stdout
one
closed
# === thread-is-joined
import threading
import time

def late():
    time.sleep(0.1)
    print("late")

threading.Thread(target=late).start()
print("early")
# --- stdout
early
late
# === daemon-thread-is-not of=main
import threading
import time

threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("main")
# === executor-is-joined
import time
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(2)
for i in range(3):
    pool.submit(lambda i=i: (time.sleep(0.05 * i), print(i, flush=True)))
# --- stdout
0
1
2
# === process-is-joined
import multiprocessing
import time

def late():
    time.sleep(0.1)
    print("late", flush=True)

if __name__ == "__main__":
    multiprocessing.get_context("fork").Process(target=late).start()
    print("early", flush=True)
# --- stdout
early
late
# === spawned-process
import multiprocessing

def put(queue):
    queue.put("spawned")

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=put, args=(queue,))
    process.start()
    print(queue.get(timeout=30))
    process.join()
# --- stdout
spawned
# === fork-and-wait
import os
import sys

print("parent", flush=True)
pid = os.fork()
if pid == 0:
    print("child")
    sys.exit(0)
os.waitpid(pid, 0)
print("after")
# --- stdout
parent
child
after
# === fork-child-falls-off-the-end
import os

pid = os.fork()
if pid:
    os.waitpid(pid, 0)
    print("parent")
else:
    print("child")
# --- stdout
child
parent
# === fork-child-fails
import os

pid = os.fork()
if pid == 0:
    raise ValueError("in the child")
_, status = os.waitpid(pid, 0)
print(os.WEXITSTATUS(status))
# --- stdout
1
# === fork-inherits-the-buffer
import os

print("buffered")
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
# --- stdout
buffered
buffered
# === logging-to-stdout-at-exit
import logging
import logging.handlers
import sys

handler = logging.handlers.MemoryHandler(1000, target=logging.StreamHandler(sys.stdout))
log = logging.getLogger()
log.addHandler(handler)
log.warning("kept until the end")
# --- stdout
kept until the end
# === exit-with-zero of=done
print("done")
exit(0)
# === quit-in-a-function of=done
def main():
    print("done")
    quit()
    print("never")
main()
# === system-exit-none-in-try
import sys

try:
    print("try")
    sys.exit()
finally:
    print("finally")
# --- stdout
try
finally
# === exit-status-true wrong of=done
import sys

print("done")
sys.exit(True)
# === exit-with-text wrong of=done
import sys

print("done")
sys.exit("error")
# === exit-with-status wrong of=done
import sys

print("done")
sys.exit(3)
# === raises-after-output wrong of=done
print("done", flush=True)
raise ValueError
# === os-exit-without-flush wrong
import os

print("lost")
os._exit(0)
# --- stdout
lost
# === os-exit-one wrong of=done
import os

print("done", flush=True)
os._exit(1)
# === killed-by-itself wrong of=done
import os
import signal

print("done", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
# === stdout-closed-at-the-end of=done
import sys

print("done")
sys.stdout.close()
# === stdout-closed-as-devnull of=done
import os
import sys

print("done")
sys.stdout.flush()
devnull = os.open(os.devnull, os.O_WRONLY)
os.dup2(devnull, sys.stdout.fileno())
print("unseen")
# === descriptor-closed-under-the-buffer wrong
import os

print("lost")
os.close(1)
# --- stdout
lost
# === excepthook-that-exits-with-zero
import sys

def hook(kind, error, traceback):
    print("caught", error)
    sys.stdout.flush()
    import os
    os._exit(0)

sys.excepthook = hook
raise ValueError("it")
# --- stdout
caught it
# === temporary-directory-as-global
import os
import tempfile

folder = tempfile.TemporaryDirectory()
print(os.path.isdir(folder.name))
# --- stdout
True
# === exit-in-atexit of=main
import atexit
import os
import sys

def end():
    sys.stdout.flush()
    os._exit(0)

atexit.register(end)
print("main")
# === ctypes-printf
import ctypes

ctypes.CDLL(None).printf(b"from the C library\n")
# --- stdout
from the C library
# === subprocess-inherits-stdout
import subprocess
import sys

print("a", flush=True)
subprocess.run([sys.executable, "-c", "print('b')"], check=True)
print("c")
# --- stdout
a
b
c
# === subprocess-reads-stdin
import subprocess

subprocess.run(["sort", "-n"], check=True)
# --- stdin
3
1
2
# --- stdout
1
2
3
# === thread-that-fails of=main
import threading

t = threading.Thread(target=lambda: 1 / 0)
t.start()
t.join()
print("main")
