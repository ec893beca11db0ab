"""Runs as user 0 of a sandbox that starts from an image, as hostile code would, and prints what it achieved as JSON.

Standard library only: it is sent to the sandbox as text. Each entry is the name of the error, or null for a success.
"""

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
facts = {}


def fails_with(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    except Exception as error:
        return type(error).__name__
    return None


def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def syscall(x86, arm, *arguments):
    if libc.syscall(x86 if X86 else arm, *arguments) < 0:
        raise OSError(ctypes.get_errno(), str(x86))


def writes(path, text="1"):
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def in_child(action):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(action()).encode())
        except BaseException as error:
            os.write(writing, json.dumps(f"{type(error).__name__}: {error}").encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text)


facts["process 1"] = {
    **{
        f"open {name}": fails_with(lambda name=name: open(f"/proc/1/{name}", "rb").read(1))
        for name in ("mem", "environ", "maps", "auxv", "syscall", "stack", "pagemap")
    },
    **{
        f"write {name}": fails_with(lambda name=name: writes(f"/proc/1/{name}"))
        for name in ("mem", "oom_score_adj", "clear_refs", "coredump_filter", "timerslack_ns", "sched", "attr/current")
    },
    **{f"list {name}": fails_with(lambda name=name: os.listdir(f"/proc/1/{name}")) for name in ("fd", "map_files")},
    **{
        f"follow {name}": fails_with(lambda name=name: os.stat(f"/proc/1/{name}"))
        for name in ("root", "cwd", "exe", "ns/mnt")
    },
    "attach": fails_with(lambda: call("ptrace", 16, 1, 0, 0)),
    "limit": fails_with(lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))),
    "read limit": fails_with(lambda: resource.prlimit(1, resource.RLIMIT_NOFILE)),
    "priority": fails_with(lambda: os.setpriority(os.PRIO_PROCESS, 1, 19)),
    "priority of users": fails_with(lambda: os.setpriority(os.PRIO_USER, 0, 19)),
    "affinity": fails_with(lambda: os.sched_setaffinity(1, {0})),
    "scheduler": fails_with(lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))),
    "read memory": fails_with(lambda: syscall(310, 270, 1, 0, 0, 0, 0, 0)),
    "take descriptor": fails_with(lambda: syscall(438, 438, os.pidfd_open(1), 0, 0)),
    "enter": fails_with(lambda: syscall(308, 268, os.pidfd_open(1), 0x20000)),
}
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV, signal.SIGUSR1, signal.SIGCHLD):
    os.kill(1, number)  # allowed, and without effect: process 1 answers below, and later

facts["calls"] = {
    "unshare": fails_with(lambda: call("unshare", 0x10000000)),
    "mount": fails_with(lambda: call("mount", b"none", b"/sub", b"tmpfs", 0, None)),
    "bind": fails_with(lambda: call("mount", b"/proc/1", b"/sub", None, 0x1000, None)),
    "remount": fails_with(lambda: call("mount", b"none", b"/proc/sys", None, 0x1020, None)),
    "umount": fails_with(lambda: call("umount2", b"/proc/sys", 2)),
    "pivot_root": fails_with(lambda: syscall(155, 41, b"/sub", b"/sub")),
    "open_tree": fails_with(lambda: syscall(428, 428, -100, b"/", 1)),
    "move_mount": fails_with(lambda: syscall(429, 429, -100, b"/", -100, b"/sub", 0)),
    "fsopen": fails_with(lambda: syscall(430, 430, b"tmpfs", 0)),
    "mount_setattr": fails_with(lambda: syscall(442, 442, -100, b"/", 0, bytes(32), 32)),
    "open_by_handle_at": fails_with(lambda: syscall(304, 265, -100, bytes(16), 0)),
    "clone": fails_with(lambda: syscall(56, 220, 0x10000000 | 17, 0, 0, 0, 0)),
    "bpf": fails_with(lambda: syscall(321, 280, 0, 0, 0)),
    "keyctl": fails_with(lambda: syscall(250, 219, 0, -3, 0)),
    "perf_event_open": fails_with(lambda: syscall(298, 241, 0, 0, 0, 0, 0)),
    "userfaultfd": fails_with(lambda: syscall(323, 282, 0)),
    "reboot": fails_with(lambda: syscall(169, 142, 0, 0, 0, 0)),
    "init_module": fails_with(lambda: syscall(175, 105, 0, 0, 0)),
    "kexec_load": fails_with(lambda: syscall(246, 104, 0, 0, 0, 0)),
    "swapon": fails_with(lambda: syscall(167, 224, b"/sub", 0)),
    "settimeofday": fails_with(lambda: syscall(164, 170, bytes(16), 0)),
    "sethostname": fails_with(lambda: call("sethostname", b"x", 1)),
    "syslog": fails_with(lambda: syscall(103, 116, 10, 0, 0)),
    "shmget": fails_with(lambda: syscall(29, 194, 0, 4096, 0o1600)),
    "raw socket": fails_with(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
    "packet socket": fails_with(lambda: socket.socket(17, socket.SOCK_RAW)),
    "audit socket": fails_with(lambda: socket.socket(16, socket.SOCK_RAW, 9)),
    "interface": fails_with(lambda: __import__("fcntl").ioctl(socket.socket(), 0x8914, b"lo".ljust(40, b"\0"))),
    "block device": fails_with(lambda: os.mknod("/sub/block", 0o60666, os.makedev(8, 0))),
    "character device": fails_with(lambda: os.mknod("/sub/mem", 0o20666, os.makedev(1, 1))),
    "more processes": fails_with(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (10_000, 10_000))),
    "more files": fails_with(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100_000, 100_000))),
    "more address space": fails_with(lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1))),
    "more priority": fails_with(lambda: os.setpriority(os.PRIO_PROCESS, 0, -10)),
    "real time": fails_with(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))),
    "locked memory": fails_with(lambda: call("mlock", ctypes.create_string_buffer(1 << 20), ctypes.c_size_t(1 << 20))),
    "large pipe": fails_with(lambda: __import__("fcntl").fcntl(os.pipe()[0], 1031, 1 << 20)),
    "trusted attribute": fails_with(lambda: os.setxattr("/sub", "trusted.overlay.opaque", b"y")),
    "mode of a device": fails_with(lambda: os.chmod("/dev/null", 0o600)),
    "owner of a device": fails_with(lambda: os.chown("/dev/null", 0, 0)),
    "remove a device": fails_with(lambda: os.unlink("/dev/null")),
}

changed = []
for folder, _, names in os.walk("/proc/sys"):
    for name in names:
        path = os.path.join(folder, name)
        if fails_with(lambda path=path: os.close(os.open(path, os.O_WRONLY))) is None:
            changed.append(path)
facts["settings"] = changed
facts["proc files"] = [
    path
    for path in ("/proc/sysrq-trigger", "/proc/kcore", "/proc/kmsg", "/proc/kpagecount", "/proc/bus", "/proc/irq/0")
    if fails_with(lambda path=path: os.close(os.open(path, os.O_RDWR))) is None
]
facts["sys"] = os.listdir("/sys") if os.path.isdir("/sys") else []
facts["locks"] = open("/proc/locks").read()


def capabilities():
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
    return {name: status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}


def gains():
    header, everything = struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", *[0xFFFFFFFF] * 6)
    return fails_with(lambda: syscall(126, 91, header, everything))


facts["capabilities"] = capabilities()
facts["gain capabilities"] = gains()


def escape():
    inside = sorted(os.listdir("/"))
    outside = os.open("/", os.O_RDONLY)
    os.makedirs("/sub/jail", exist_ok=True)
    os.chroot("/sub/jail")
    os.fchdir(outside)
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    return sorted(os.listdir("/")) == inside


facts["a root above the root is the same"] = in_child(escape)


def as_other_user():
    # A setuid program, and one with every capability, of user 0: what does a user without rights get from them?
    os.setgroups([])
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
    before = capabilities()["CapEff"]
    reading, writing = os.pipe()
    results = {"before": before}
    report = "import os; print(os.geteuid(), open('/proc/self/status').read().partition('CapEff:')[2].split()[0])"
    for name, program in (("setuid", EXECUTABLE), ("file capabilities", "/sub/capable")):
        pid = os.fork()
        if pid == 0:
            os.dup2(writing, 1)
            try:
                os.execv(program, [program, "-I", "-S", "-c", report])
            except OSError as error:
                os.write(1, errno.errorcode[error.errno].encode())
            os._exit(0)
        os.waitpid(pid, 0)
        results[name] = os.read(reading, 4096).decode().strip()
    return results


EXECUTABLE = os.path.realpath(sys.executable)
with open(EXECUTABLE, "rb") as source, open("/sub/capable", "wb") as target:
    target.write(source.read())
os.chmod("/sub/capable", 0o755)
os.chmod(EXECUTABLE, 0o4755)
rights = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0)
facts["set file capabilities"] = fails_with(lambda: os.setxattr("/sub/capable", "security.capability", rights))
with open("/proc/self/uid_map") as file:
    has_users = len(file.readlines()) > 1
facts["other user"] = in_child(as_other_user) if has_users else None

before = sorted(os.listdir("/etc")), sorted(os.listdir("/bin"))
facts["overlay attributes"] = {
    name: fails_with(lambda name=name, value=value: os.setxattr("/etc", f"user.overlay.{name}", value))
    for name, value in (
        ("opaque", b"y"),
        ("redirect", b"/proc"),
        ("metacopy", b""),
        ("origin", b"x"),
        ("whiteout", b"y"),
    )
}
facts["whiteout"] = fails_with(lambda: os.mknod("/etc/none", 0o20000, os.makedev(0, 0)))
facts["nothing is hidden"] = (
    [name for name in sorted(os.listdir("/etc")) if name != "none"],
    sorted(os.listdir("/bin")),
) == before
open("/bin/added", "w").close()
os.unlink("/bin/echo")
facts["written"] = [os.path.exists("/bin/added"), os.path.exists("/bin/echo")]
print(json.dumps(facts))
