"""A small single-threaded process that turns "boot" requests into sandboxes.

It is started before gRPC exists in the daemon, because only a process without threads can fork safely and only a
small one can fork fast. It runs as process 1 of a PID namespace of its own: when it ends, for any reason,
the kernel kills every sandbox with it. A sandbox is one `clone` into seven new namespaces; the child drops
everything it must not have and becomes the sandbox's agent without an `exec`.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
from itertools import product
from typing import Any, NoReturn, TypeAlias

from sandrl.runtime.guest import (
    accounts,
    agent,
    image_root,
    network,
    processes,
    rootfs,
    seccomp,
    storage,
    volumes,
    wire,
)
from sandrl.runtime.guest import syscalls as sc

MAX_REQUEST_BYTES = 1 << 16
_SOCKET_BUFFER_BYTES = 256 << 10
_FIELDS: dict[type[OSError], str] = {
    accounts.AccountError: "security_context.run_as_user",
    volumes.VolumeError: "volume_mounts.mount_path",
    network.NetworkError: "network",
}
"""Of a container, which asks for what a sandbox cannot have."""
Filters: TypeAlias = dict[tuple[bool, ...], bytes]
"""By whether a sandbox holds cells, starts from an image, has its files on disk, and pretends to change owners."""


def main() -> NoReturn:
    hide_command_line()
    daemon = socket.socket(fileno=os.dup(0))
    daemon.set_inheritable(False)
    packet = daemon.recv(MAX_REQUEST_BYTES)
    if not packet:
        os._exit(1)  # the daemon was gone before it could say anything
    config = json.loads(packet)
    try:
        child, alive, template = _enter_namespaces(config, daemon)
    except OSError as error:
        _refuse(daemon, error)
    if child == 0:
        _serve(daemon, template, alive)
    # The socket closes in the very moment in which process 1 dies, before the kernel kills what is below it.
    daemon.close()
    os.close(0)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _refuse(daemon: socket.socket, error: OSError) -> NoReturn:
    with contextlib.suppress(OSError):  # the daemon may have ended
        daemon.send(json.dumps({"error": error.strerror or str(error), "errno": error.errno}).encode())
    os._exit(1)


def _enter_namespaces(config: dict[str, Any], daemon: socket.socket) -> tuple[int, int, rootfs.Template]:
    # A process must be given its user ids by one outside its user namespace, who may need rights for that. So the
    # caller stays outside and writes the maps. Where it is root, it gives that up right afterwards. Returns the process
    # id of the server, or 0 in the server itself; and there a descriptor that reads as ended once the process outside
    # is gone, and the template.
    _die_with_parent(config["daemon_pid"])
    _raise_process_limit()
    user = config["user"]
    privileged = os.getuid() == 0
    template: rootfs.Template = {}
    if privileged:
        # As root, everything that needs its rights happens first.
        sc.unshare(sc.CLONE_NEWNS)
        template = _template(config)
        os.setgroups([])
        # The new user namespace, and what the kernel counts per owner, belongs to the effective user.
        os.setresgid(-1, user, -1)
        os.setresuid(-1, user, -1)
    released, release = os.pipe2(os.O_CLOEXEC)
    child, _pidfd = sc.clone_process(sc.NAMESPACE_FLAGS)
    if child == 0:
        os.close(release)
        if not os.read(released, 1):
            os._exit(1)
        try:
            template = _settle(config, privileged) or template
        except OSError as error:
            _refuse(daemon, error)
        return 0, released, template
    os.close(released)
    if privileged:
        os.setresuid(-1, 0, -1)
    try:
        _map_namespace(child, config)
    except OSError:
        os.kill(child, signal.SIGKILL)
        raise
    if privileged:
        _become(user)
        _die_with_parent(config["daemon_pid"])  # changing the user cleared it
    os.write(release, b"1")  # and stays open: it closes with this process
    return child, -1, {}


def _template(config: dict[str, Any]) -> rootfs.Template:
    shown = {"overlays": config["overlays"], "layers": config["layers"], "spaces": config["spaces"]}
    return rootfs.build_template(config["template"], config["images"], shown)


def _map_namespace(child: int, config: dict[str, Any]) -> None:
    if "map_programs" not in config:
        sc.write_maps(child, config["user_map"], config["group_map"], setgroups=os.getuid() == 0)
        return
    for program, ranges in zip(config["map_programs"], (config["user_map"], config["group_map"]), strict=True):
        words = [program, str(child), *(str(number) for line in ranges for number in line)]
        status = os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(program, words, {"PATH": os.defpath}), 0)[1])
        if status:
            raise PermissionError(errno.EPERM, f"{os.path.basename(program)} refused the ids of /etc/subuid")


def _settle(config: dict[str, Any], privileged: bool) -> rootfs.Template:
    template: rootfs.Template = {}
    if "map_programs" in config:
        os.setgroups([])
    if privileged:
        _become(rootfs.USER_ID)
        sc.prctl(sc.PR_SET_DUMPABLE, 1)  # changing the user cleared it, and /proc/PID/uid_map needs it
    else:
        template = _template(config)
    _die_with_parent(0)
    sc.mount("proc", "/proc", "proc", sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC)
    return template


def _become(user: int) -> None:
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _die_with_parent(expected_parent: int) -> None:
    sc.prctl(sc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != expected_parent:
        os._exit(0)  # it died before the line above


def _raise_process_limit() -> None:
    # The limit in force when a user namespace is made bounds all of it; each sandbox sets its own lower one. All
    # sandboxes together leave half of the machine's process numbers to its other programs.
    _soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    with open("/proc/sys/kernel/pid_max", "rb") as file:
        most = int(file.read()) // 2
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, hard))


def _serve(daemon: socket.socket, template: rootfs.Template, alive: int) -> NoReturn:
    sys.stdin.close()
    gc.collect()
    gc.disable()
    gc.freeze()  # a collection in a child would copy every page of this process
    filters = {kind: seccomp.build_filter(sc.MACHINE, *kind) for kind in product((False, True), repeat=4)}
    wakeup_read, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    poll = select.poll()
    poll.register(daemon, select.POLLIN)
    poll.register(wakeup_read, select.POLLIN)
    poll.register(alive, 0)  # for its end alone
    own_pidfd = os.pidfd_open(os.getpid())
    ready = {"ready": True, "mounts_overlays": rootfs.mounts_overlays()}
    wire.send_with_descriptors(daemon, json.dumps(ready).encode(), [own_pidfd])
    os.close(own_pidfd)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == wakeup_read:
                os.read(wakeup_read, 512)
                with contextlib.suppress(ChildProcessError):
                    while os.waitpid(-1, os.WNOHANG)[0]:
                        pass
            elif descriptor == alive:
                os._exit(1)  # the process outside is gone
            else:
                _serve_next(daemon, filters, template)


def _serve_next(daemon: socket.socket, filters: Filters, template: rootfs.Template) -> None:
    data, descriptors, _flags, _address = socket.recv_fds(daemon, MAX_REQUEST_BYTES, 2)
    if not data:
        os._exit(0)  # the daemon closed its end
    request = json.loads(data)
    if descriptors:
        is_worker = request["cells"] > 0
        parts = rootfs.Parts(template, for_cells=is_worker)
        has_one_id = sum(count for _, _, count in request["ids"]) == 1
        # With one user alone, package managers would fail as they give files to others.
        pretends = request["pretends_owners"] and has_one_id
        kind = is_worker, request["layers"] is not None, bool(request["space"]), pretends
        _boot(daemon, request, descriptors, filters[kind], parts)
    else:
        if "remove" in request:
            _remove_space(daemon, request["remove"])
        daemon.send(json.dumps({"id": request["id"]}).encode())  # the daemon asks whether this process still answers
    for descriptor in descriptors:
        os.close(descriptor)


def _remove_space(daemon: socket.socket, name: str) -> None:
    # Files in it belong to users that a process outside of this namespace may not have.
    if os.fork() == 0:
        try:
            daemon.close()
            os.close(0)
            storage.remove_tree(f"{storage.SPACES}/{name}")
        finally:
            os._exit(0)


def _boot(
    daemon: socket.socket, request: dict[str, Any], given: list[int], filter_program: bytes, parts: rootfs.Parts
) -> None:
    released, release = os.pipe2(os.O_CLOEXEC)
    pidfd = -1
    try:
        limits = processes.ProcessLimits(**{name: request[name] for name in processes.ProcessLimits.__slots__})
        pid, pidfd = _clone_for(request["owner"], limits)
        if pid == 0:
            os.close(release)
            _become_sandbox(given, request, limits, filter_program, parts, released)
        sc.write_maps(pid, request["ids"], request["ids"], setgroups=len(request["ids"]) > 1)
        os.write(release, b"1")
    except OSError as error:
        # The child, if there is one, ends: its pipe closes without a byte.
        daemon.send(json.dumps({"id": request["id"], "error": error.strerror or str(error)}).encode())
    else:
        wire.send_with_descriptors(daemon, json.dumps({"id": request["id"]}).encode(), [pidfd])
    finally:
        for descriptor in (released, release, *([pidfd] if pidfd >= 0 else [])):
            os.close(descriptor)


def _clone_for(owner: int, limits: processes.ProcessLimits) -> tuple[int, int]:
    # The kernel counts what all users of a namespace have together for who made it. So one with several users is made
    # in the name of a user that no other sandbox has, under the limits of the sandbox.
    if owner == rootfs.USER_ID:
        return sc.clone_process(sc.NAMESPACE_FLAGS)
    before = {kind: resource.getrlimit(kind) for kind in limits.per_user()}
    pid = -1
    try:
        os.setresuid(owner, owner, rootfs.USER_ID)
        # Changing the user cleared it, and /proc/PID/uid_map needs it.
        sc.prctl(sc.PR_SET_DUMPABLE, 1)
        for kind, most in limits.per_user().items():
            hard = before[kind][1]
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
        pid, pidfd = sc.clone_process(sc.NAMESPACE_FLAGS)
    finally:
        if pid:
            for kind, values in before.items():
                resource.setrlimit(kind, values)
            os.setresuid(rootfs.USER_ID, rootfs.USER_ID, rootfs.USER_ID)
            sc.prctl(sc.PR_SET_DUMPABLE, 1)
            sc.prctl(sc.PR_SET_PDEATHSIG, signal.SIGKILL)
    return pid, pidfd


def _become_sandbox(
    given: list[int],
    request: dict[str, Any],
    limits: processes.ProcessLimits,
    filter_program: bytes,
    parts: rootfs.Parts,
    released: int,
) -> NoReturn:
    try:
        control = socket.socket(fileno=given[0])
        if not os.read(released, 1):
            os._exit(1)
        signal.set_wakeup_fd(-1)
        agent.close_inherited(set(given))
        try:
            account, upper, sockets, stored = _enter(given[1:], request, limits, filter_program, parts)
        except OSError as error:
            field = next((name for kind, name in _FIELDS.items() if isinstance(error, kind)), "")
            wire.send(control, {"event": "boot_failed", "error": error.strerror or str(error), "field": field})
        else:
            agent.run(control, limits, account, upper, sockets, stored)
    finally:
        # Whatever went wrong: printing a traceback would execute files of the image, with all capabilities.
        os._exit(1)


def _enter(
    given: list[int],
    request: dict[str, Any],
    limits: processes.ProcessLimits,
    filter_program: bytes,
    parts: rootfs.Parts,
) -> tuple[accounts.Account | None, int, list[int], storage.Storage | None]:
    has_image = request["layers"] is not None
    _become(request["ids"][0][0])
    sc.set_hostname(rootfs.HOSTNAME)
    sc.bring_up_loopback()
    sc.bound_socket_buffers(_SOCKET_BUFFER_BYTES)
    ports = request["loopback_ports"]
    sockets = [] if ports is None else network.set_up(ports)
    resolver = network.RESOLVER if sockets else ""
    account, user, upper, stored = None, rootfs.USER_ID, -1, None
    if has_image:
        _take_layers(given)
    if has_image and parts.for_cells:
        user = image_root.enter_for_cells(_files(request))
    elif has_image:
        account, upper, stored = _enter_image(request, resolver)
    else:
        rootfs.enter_root(
            parts,
            request["image"],
            request["overlay"],
            request["disk_bytes"],
            request["inodes"],
            request["directories"],
            request["mounts"],
            resolver,
        )
    kept = () if has_image or parts.for_cells else accounts.OF_WATCHERS
    give_up_privileges(limits, filter_program, account, user, kept)
    return account, upper, sockets, stored


def _take_layers(given: list[int]) -> None:
    for descriptor in given:
        # From a daemon that is root come the layers, shown with the owners that they have in this sandbox.
        with socket.socket(fileno=descriptor) as sender:
            _, mounts, _flags, _address = socket.recv_fds(sender, 1, 1)
        if not mounts:
            os._exit(1)
        sc.attach_mount(mounts[0], image_root.LAYERS)
        os.close(mounts[0])


def _files(request: dict[str, Any], resolver: str = "") -> image_root.Files:
    if request["space"]:
        # A mount of its own: no way leads up from it to those of others.
        sc.mount(f"{storage.SPACES}/{request['space']}", storage.SPACE, flags=sc.MS_BIND)
    return image_root.Files(
        *(request["layers"], storage.SPACE if request["space"] else "", request["is_copied"]),
        *(request["disk_bytes"], request["inodes"], resolver),
    )


def _enter_image(request: dict[str, Any], resolver: str) -> tuple[accounts.Account, int, storage.Storage | None]:
    upper, space = image_root.enter(_files(request, resolver), request["mounts"])
    account = accounts.find_account(request["user"])
    account.capabilities = tuple(request["capabilities"])
    account.gains_privileges = request["gains_privileges"]
    image_root.make_directories(request["directories"], account.uid, account.gid)
    if request["read_only"]:
        image_root.protect()
    stored = None if space < 0 else storage.Storage(space, request["storage_bytes"], request["inodes"])
    return account, upper, stored


def give_up_privileges(
    limits: processes.ProcessLimits,
    filter_program: bytes,
    account: accounts.Account | None = None,
    user: int = rootfs.USER_ID,
    kept: tuple[str, ...] = (),
) -> None:
    """The last step of a boot: limits, filter, no way to be looked into, and no capability, nor a way to gain one.

    Programs of an image may have what harms nothing outside of their sandbox, as user 0 or by becoming it: they have an
    account. All others are the `user`, and have no capability: executing one takes those that the agent has `kept`.
    """
    # This interpreter cannot load anything from now on: its search path means the sandbox's own files. Even printing a
    # traceback looks for source files, and for the codec that their first line names.
    sys.excepthook = lambda *_: os._exit(1)
    for known in (sys.path, sys.meta_path, sys.path_hooks):
        known.clear()
    sys.path_importer_cache.clear()
    os.umask(0o022)
    limits.apply_per_process()
    if account is not None:
        sc.bound_capabilities(account.capabilities)
        sc.install_seccomp(filter_program)
        sc.set_capabilities(accounts.OF_AGENT)
        sc.prctl(sc.PR_SET_DUMPABLE, 0)
        return
    sc.bound_capabilities()
    if os.getuid() != user:
        _become(user)
    sc.set_capabilities(kept)
    sc.prctl(sc.PR_SET_NO_NEW_PRIVS, 1)
    sc.prctl(sc.PR_SET_DUMPABLE, 0)
    sc.install_seccomp(filter_program)


def hide_command_line() -> None:
    """Overwrite this process's arguments, which name paths of the host and are what sandboxes see as process 1."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    sc.overwrite(start, b"sandrl-init".ljust(end - start, b"\0")[: end - start])
