"""A small single-threaded process that turns "boot" requests into sandboxes.

It is started before gRPC exists in the daemon, because only a process without threads can fork safely and only a
small one can fork fast. It runs as process 1 of a PID namespace of its own: when it dies, for whatever reason,
the kernel kills every sandbox with it. A sandbox is one `clone` into seven new namespaces; the child drops
everything it must not have and becomes the sandbox's agent without an `exec`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
from typing import Any, NoReturn

from sandrl.runtime.guest import agent, processes, rootfs, seccomp, wire
from sandrl.runtime.guest import syscalls as sc

_MAX_REQUEST_BYTES = 1 << 16
_NAMESPACES = sc.NAMESPACE_FLAGS


def main() -> NoReturn:
    """Entry point: descriptor 0 is a SEQPACKET socket to the daemon, its first packet the configuration."""
    hide_command_line()
    daemon = socket.socket(fileno=os.dup(0))
    daemon.set_inheritable(False)
    packet = daemon.recv(_MAX_REQUEST_BYTES)
    if not packet:
        os._exit(1)  # the daemon was gone before it could say anything
    config = json.loads(packet)
    try:
        child = _enter_namespaces(config)
    except OSError as error:
        with contextlib.suppress(OSError):  # nobody may be left to hear it
            daemon.send(json.dumps({"error": error.strerror or str(error), "errno": error.errno}).encode())
        os._exit(1)
    if child == 0:
        _serve(daemon, config)
    daemon.close()
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _enter_namespaces(config: dict[str, Any]) -> int:
    """Isolate this process and fork the server proper as process 1 of a new PID namespace (0 in that child)."""
    _die_with_parent(config["daemon_pid"])
    _raise_process_limit()
    user, group = os.getuid(), os.getgid()
    build = (config["template"], config["images"], config["overlays"])
    privileged = user == 0
    if privileged:
        # As root, everything that needs its rights happens first; then root is given up for good.
        sc.unshare(sc.CLONE_NEWNS)
        rootfs.build_template(*build)
        user, group = config["unprivileged_uid"], config["unprivileged_uid"]
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
        sc.prctl(sc.PR_SET_DUMPABLE, 1)  # changing the user cleared it, and /proc/self/uid_map needs it
    sc.unshare(_NAMESPACES)
    _map_user(user, group)
    if not privileged:
        rootfs.build_template(*build)
    _die_with_parent(config["daemon_pid"])  # changing the user cleared it
    child = os.fork()
    if child == 0:
        _die_with_parent(0)
        sc.mount("proc", "/proc", "proc", sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC)
    return child


def _die_with_parent(expected_parent: int) -> None:
    sc.prctl(sc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != expected_parent:
        os._exit(0)  # it died before the line above


def _raise_process_limit() -> None:
    """The limit in force when a user namespace is made bounds all of it; each sandbox sets its own lower one."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))


def _map_user(outer_user: int, outer_group: int) -> None:
    """Make the caller user `USER_ID` of the user namespace it just entered."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{rootfs.USER_ID} {outer_user} 1"),
        ("gid_map", f"{rootfs.USER_ID} {outer_group} 1"),
    ):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def _serve(daemon: socket.socket, config: dict[str, Any]) -> NoReturn:
    sys.stdin.close()
    gc.collect()
    gc.disable()
    gc.freeze()  # a collection in a child would copy every page of this process
    filter_program = seccomp.build_filter(sc.MACHINE)
    wakeup_read, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    poll = select.poll()
    poll.register(daemon, select.POLLIN)
    poll.register(wakeup_read, select.POLLIN)
    daemon.send(b'{"ready":true}')
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == wakeup_read:
                os.read(wakeup_read, 512)
                _reap()
            else:
                _boot_next(daemon, filter_program)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _boot_next(daemon: socket.socket, filter_program: bytes) -> None:
    data, descriptors, _flags, _address = socket.recv_fds(daemon, _MAX_REQUEST_BYTES, 1)
    if not data:
        os._exit(0)  # the daemon closed its end
    request = json.loads(data)
    try:
        pid, pidfd = sc.clone_process(_NAMESPACES)
    except OSError as error:
        reply = {"id": request["id"], "error": error.strerror or str(error)}
        daemon.send(json.dumps(reply).encode())
    else:
        if pid == 0:
            _become_sandbox(socket.socket(fileno=descriptors[0]), request, filter_program)
        wire.send_with_descriptors(daemon, json.dumps({"id": request["id"]}).encode(), [pidfd])
        os.close(pidfd)
    for descriptor in descriptors:
        os.close(descriptor)


def _become_sandbox(control: socket.socket, request: dict[str, Any], filter_program: bytes) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        agent.close_inherited({control.fileno()})
        limits = processes.Limits(
            memory_bytes=request["memory_bytes"],
            processes=request["processes"],
            sockets=request["sockets"],
            inodes=request["inodes"],
        )
        _map_user(rootfs.USER_ID, rootfs.USER_ID)
        sc.set_hostname(rootfs.HOSTNAME)
        sc.bring_up_loopback()
        rootfs.enter_root(
            request["image"],
            request["overlay"],
            request["disk_bytes"],
            request["inodes"],
            request["directories"],
        )
        give_up_privileges(limits, filter_program)
    except OSError as error:
        wire.send(control, {"event": "boot_failed", "error": error.strerror or str(error)})
        os._exit(1)
    agent.run(control, limits)


def forget_imports() -> None:
    """Leave this interpreter no way to load anything: its search path means the sandbox's own files by now.

    Even printing a traceback looks for source files, and for the codec that their first line names.
    """
    sys.excepthook = lambda *_: os._exit(1)
    for known in (sys.path, sys.meta_path, sys.path_hooks):
        known.clear()
    sys.path_importer_cache.clear()


def give_up_privileges(limits: processes.Limits, filter_program: bytes) -> None:
    """The last step of a boot: no capability, no way to gain one, no way to be looked into, limits, filter."""
    forget_imports()
    os.umask(0o022)
    limits.apply_per_process()
    sc.drop_capabilities()
    sc.prctl(sc.PR_SET_NO_NEW_PRIVS, 1)
    sc.prctl(sc.PR_SET_DUMPABLE, 0)
    sc.install_seccomp(filter_program)


def hide_command_line() -> None:
    """Overwrite this process's arguments, which name paths of the host and are what sandboxes see as process 1."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    sc.overwrite(start, b"sandrl-init".ljust(end - start, b"\0")[: end - start])
