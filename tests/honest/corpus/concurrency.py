# === threads-with-lock
import threading


class Counter:
    def __init__(self):
        self.value = 0
        self._lock = threading.Lock()

    def increment(self):
        with self._lock:
            self.value += 1


def hammer(n_threads, n):
    c = Counter()
    threads = [threading.Thread(target=lambda: [c.increment() for _ in range(n)]) for _ in range(n_threads)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return c.value
# --- asserts
assert hammer(4, 100) == 400

# === thread-subclass
import threading


class Worker(threading.Thread):
    def __init__(self, job):
        super().__init__()
        self.job = job
        self.result = None

    def run(self):
        self.result = self.job()
# --- wrong
import threading


class Worker(threading.Thread):
    def __init__(self, job):
        super().__init__()
        self.job = job

    def run(self):
        self.result = self.job
# --- test
w = Worker(lambda: 6 * 7)
w.start()
w.join()
assert w.result == 42

# === thread-pool
from concurrent.futures import ThreadPoolExecutor, as_completed


def parallel_map(f, items, workers=4):
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(f, items))


def squares(n):
    with ThreadPoolExecutor() as pool:
        futures = {pool.submit(pow, i, 2): i for i in range(n)}
        return {futures[f]: f.result() for f in as_completed(futures)}
# --- asserts
assert parallel_map(str, [1, 2]) == ["1", "2"]
assert squares(4) == {0: 0, 1: 1, 2: 4, 3: 9}
# --- test
import threading
names = set()
def f(x):
    names.add(threading.current_thread().name)
    return x + 1
assert parallel_map(f, range(5)) == [1, 2, 3, 4, 5]
assert threading.main_thread().name not in names

# === future-returned
from concurrent.futures import Future, ThreadPoolExecutor

_pool = ThreadPoolExecutor(2)


def later(f, *args):
    return _pool.submit(f, *args)


def resolved(value):
    f = Future()
    f.set_result(value)
    return f
# --- test
assert later(pow, 2, 10).result(timeout=20) == 1024
assert resolved(5).done() and resolved(5).result() == 5
f = later(int, "x")
try:
    f.result(20)
except ValueError:
    pass
else:
    raise AssertionError
assert isinstance(f.exception(), ValueError)
got = []
resolved(3).add_done_callback(lambda f: got.append(f.result()))
assert got == [3]

# === thread-local
import threading

_local = threading.local()


def remember(value):
    _local.value = value


def recall():
    return getattr(_local, "value", None)


def recall_elsewhere():
    out = []
    t = threading.Thread(target=lambda: out.append(recall()))
    t.start()
    t.join()
    return out[0]
# --- test
remember(5)
assert recall() == 5
assert recall_elsewhere() is None

# === fork-and-wait
import os


def in_child(f):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        os.write(w, str(f()).encode())
        os._exit(3)
    os.close(w)
    with os.fdopen(r) as stream:
        text = stream.read()
    _, status = os.waitpid(pid, 0)
    return text, os.waitstatus_to_exitcode(status)
# --- asserts
assert in_child(lambda: 7 * 6) == ("42", 3)

# === subprocess-run
import subprocess
import sys


def run(code, stdin=""):
    p = subprocess.run([sys.executable, "-c", code], input=stdin, capture_output=True, text=True)
    return p.returncode, p.stdout, p.stderr


def shell(command):
    return subprocess.check_output(command, shell=True, text=True).strip()
# --- asserts
assert run("print(1 + 1)") == (0, "2\n", "")
assert run("print(input()[::-1])", "abc") == (0, "cba\n", "")
assert shell("echo hello") == "hello"
assert "ZeroDivisionError" in run("1/0")[2]

# === subprocess-popen-interaction
import subprocess
import sys


class Repl:
    def __init__(self):
        code = "import sys\nfor line in sys.stdin: print(eval(line), flush=True)"
        self.p = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, text):
        self.p.stdin.write(text + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def close(self):
        self.p.stdin.close()
        self.p.stdout.close()
        return self.p.wait()
# --- test
r = Repl()
assert r.ask("2 ** 10") == "1024"
assert r.close() == 0

# === signals
import os
import signal


def catch_usr1():
    got = []
    old = signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, old)
    return [signal.Signals(n).name for n in got]


def alarm_after(seconds):
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        while True:
            pass
    except Alarm:
        return "rang"
# --- asserts
assert catch_usr1() == ["SIGUSR1"]
assert alarm_after(0.02) == "rang"

# === signal-installed-globally
import signal

received = []


def handler(number, frame):
    received.append(number)


signal.signal(signal.SIGTERM, handler)
signal.signal(signal.SIGINT, handler)


def count():
    return len(received)
# --- asserts
assert count() == 0

# === local-http-server
import http.server
import threading
import urllib.request


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"you asked for {self.path}".encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def fetch(path):
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}") as r:
            return r.status, r.read().decode()
    finally:
        server.shutdown()
        server.server_close()
# --- asserts
assert fetch("/x") == (200, "you asked for /x")

# === atexit-registered
import atexit

log = []
atexit.register(log.append, "bye")


def registered():
    return list(log)
# --- asserts
assert registered() == []

# === rlimit-and-stack-size
import sys
import threading

sys.setrecursionlimit(10 ** 6)
threading.stack_size(256 * 1024 * 1024)


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


def deep(n):
    out = []
    t = threading.Thread(target=lambda: out.append(depth(n)))
    t.start()
    t.join()
    return out[0]
# --- asserts
assert deep(50000) == 50000

# === wrong-race wrong
import threading
import time


def hammer(n):
    state = {"v": 0}

    def work():
        v = state["v"]
        time.sleep(0.05)
        state["v"] = v + 1

    ts = [threading.Thread(target=work) for _ in range(n)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    return state["v"]
# --- asserts
assert hammer(4) == 4

# === wrong-exit-code wrong
import subprocess
import sys


def run(code):
    return subprocess.run([sys.executable, "-c", code]).returncode
# --- asserts
assert run("import sys; sys.exit(4)") == 0

# === fork-in-function-child-exits
import os


def double(x):
    pid = os.fork()
    if pid == 0:
        raise SystemExit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    return 2 * x
# --- asserts
assert [double(x) for x in range(20)] == [2 * x for x in range(20)]

# === fork-in-function-child-returns
import os


def halves(x):
    for part in (x // 2, x - x // 2):
        if os.fork() == 0:
            return None
        yield part
# --- asserts
assert list(halves(7)) == [3, 4]

# === fork-at-top-child-goes-on
import os, time

if os.fork() == 0:
    time.sleep(0.05)


def inc(x):
    time.sleep(0.1)
    return x + 1
# --- asserts
assert inc(1) == 2

# === orphans-beside-processes-of-the-check
import os, time


def leave(n):
    for _ in range(n):
        assert os.system("true &") == 0
    time.sleep(0.1)
    return n
# --- test
import subprocess
first = subprocess.Popen(["sh", "-c", "exit 3"])
assert leave(150) == 150
second = subprocess.Popen(["sleep", "9"])
second.terminate()
assert leave(150) == 150
assert (first.wait(), second.wait()) == (3, -15)
import os
assert os.waitstatus_to_exitcode(os.system("exit 7")) == 7
