"""Runs inside a sandbox, as hostile code would, and prints what it could reach as one JSON object.

Standard library only: it is sent to the sandbox as text.
"""

import ctypes
import errno
import json
import os
import socket
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
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


def syscall(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), str(number))


facts["namespaces"] = {
    name: os.readlink(f"/proc/self/ns/{name}") for name in ("user", "pid", "mnt", "net", "ipc", "uts")
}
facts["pids"] = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
facts["uid"] = os.getuid()
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
facts["capabilities"] = {name: status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
facts["no_new_privs"] = status["NoNewPrivs"].strip()
facts["seccomp"] = status["Seccomp"].strip()
facts["root_entries"] = sorted(os.listdir("/root")) if os.path.isdir("/root") else []
facts["home_entries"] = sorted(os.listdir("/home"))
facts["visible"] = [path for path in sys.argv[1].split(":") if path and os.path.lexists(path)]
facts["shadow"] = fails_with(lambda: open("/etc/shadow").read())
facts["writes"] = {
    path: fails_with(lambda path=path: open(path, "w").close())
    for path in (
        "/usr/probe",
        "/usr/bin/probe",
        "/usr/local/probe",
        "/etc/probe",
        "/dev/probe",
        "/lib/probe",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
    )
}
facts["writable"] = {
    path: fails_with(lambda path=path: open(path + "/probe", "w").close())
    for path in ("/tmp", "/workspace", "/var/tmp", "/dev/shm", "/home/sandbox")
}
mounts = [line.split()[4:6] for line in open("/proc/self/mountinfo")]
facts["writable_mounts"] = [place for place, options in mounts if "ro" not in options.split(",")]
facts["interfaces"] = sorted(name for _, name in socket.if_nameindex())
facts["outside"] = fails_with(lambda: socket.create_connection(("192.0.2.1", 80), timeout=2))
facts["udp"] = fails_with(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)))
facts["vsock"] = fails_with(lambda: socket.socket(40, socket.SOCK_STREAM))
facts["packet"] = fails_with(lambda: socket.socket(17, socket.SOCK_RAW))


def loopback():
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname(), timeout=2).close()


facts["loopback"] = fails_with(loopback)
facts["host_ports"] = [
    port
    for port in map(int, filter(None, sys.argv[2].split(":")))
    if fails_with(lambda port=port: socket.create_connection(("127.0.0.1", port), timeout=1)) is None
]
facts["process_1"] = {
    name: fails_with(lambda name=name: open(f"/proc/1/{name}", "rb").read(1))
    for name in ("mem", "environ", "maps", "auxv")
}
facts["process_1_fds"] = fails_with(lambda: os.listdir("/proc/1/fd"))
facts["process_1_command"] = open("/proc/1/cmdline", "rb").read().rstrip(b"\0").decode()
facts["calls"] = {
    "unshare": fails_with(lambda: call("unshare", 0x10000000)),
    "mount": fails_with(lambda: call("mount", b"none", b"/tmp", b"tmpfs", 0, None)),
    "umount": fails_with(lambda: call("umount2", b"/proc", 2)),
    "chroot": fails_with(lambda: os.chroot("/proc/nothing")),
    "ptrace": fails_with(lambda: call("ptrace", 16, 1, 0, 0)),
    "memfd_create": fails_with(lambda: os.memfd_create("probe")),
    "setuid": fails_with(lambda: os.setuid(0)),
    "mknod": fails_with(lambda: os.mknod("/tmp/device", 0o20666, os.makedev(1, 1))),
    "sethostname": fails_with(lambda: call("sethostname", b"x", 1)),
    "keyctl": fails_with(lambda: syscall(250 if os.uname().machine == "x86_64" else 219, 0, -3, 0)),
    "bpf": fails_with(lambda: syscall(321 if os.uname().machine == "x86_64" else 280, 0, 0, 0)),
    "io_uring_setup": fails_with(lambda: syscall(425, 1, 0)),
    "clone_newuser": fails_with(
        lambda: syscall(56 if os.uname().machine == "x86_64" else 220, 0x10000000 | 17, 0, 0, 0, 0)
    ),
    "clone3": fails_with(lambda: syscall(435, 0, 0)),
    "shmget": fails_with(lambda: syscall(29 if os.uname().machine == "x86_64" else 194, 0, 4096, 0o1600)),
}
facts["setuid_program"] = subprocess.run(
    ["sh", "-c", "find /usr -perm -4000 -type f 2>/dev/null | head -1"], capture_output=True, text=True
).stdout.strip()
if facts["setuid_program"]:
    facts["setuid_flag_ignored"] = bool(os.statvfs("/usr").f_flag & os.ST_NOSUID)
facts["packages"] = [
    name
    for name in ("pip", "setuptools", "grpc", "cwsandbox", "sandrl")
    if not fails_with(lambda name=name: __import__(name))
]
facts["prefix"] = sys.prefix
facts["environment"] = sorted(os.environ)
print(json.dumps(facts))
