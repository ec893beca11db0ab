"""The file system of a sandbox that starts from an image: an overlay over the image's layers.

Everything that is written goes to one tmpfs of limited size. The sandbox's own files (`/dev`, names and addresses in
`/etc`) are put there before the layers are laid below it, so that no link of the image decides where they go. Only the
programs of a sandbox execute files of its image, or read them as code.
"""

from __future__ import annotations

import os

from sandrl.runtime.guest import accounts, rootfs, volumes
from sandrl.runtime.guest import syscalls as sc

LAYERS = "/layers"
_SPACE = "/newroot"
_UPPER, _ROOT, _NOTHING = f"{_SPACE}/upper", f"{_SPACE}/root", f"{_SPACE}/nothing"
_FILES = {
    "hosts": f"127.0.0.1 localhost {rootfs.HOSTNAME}\n::1 localhost\n",
    "hostname": f"{rootfs.HOSTNAME}\n",
}


def enter(layers: list[str], mounts: list[volumes.Mount], disk_bytes: int, inodes: int, resolver: str) -> int:
    """Build the root from directories of `LAYERS`, the lowest first, and move into it; the template is gone then.

    Args:
        resolver: What `/etc/resolv.conf` says.

    Returns:
        A descriptor of the directory of all that is changed, which no path leads to any more.
    """
    _make_space(disk_bytes, inodes, resolver)
    # Setuid programs work: user 0 of the sandbox is all that they can become.
    _mount_root(layers, f"upperdir={_UPPER},workdir={_SPACE}/work", sc.MS_NODEV)
    os.mkdir(f"{_ROOT}/dev/shm")
    os.chmod(f"{_ROOT}/dev/shm", 0o1777)
    _hide_in_proc()
    prepared = volumes.prepare(mounts, f"{_SPACE}/volumes")
    upper = os.open(_UPPER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    sc.pivot_root_here(_ROOT)
    # Now no link of the image leads out of it.
    volumes.attach(prepared)
    return upper


def enter_for_cells(layers: list[str], disk_bytes: int, inodes: int) -> int:
    """As `enter`, for a worker: what its cells share is read-only, as in the host's system, and so is all but a few.

    Returns:
        The user that it is to be: not user 0, where the sandbox has others.
    """
    user = rootfs.USER_ID if accounts.has_ids(rootfs.USER_ID, rootfs.USER_ID) else 0
    _make_space(disk_bytes, inodes)
    for path in rootfs.WRITABLE:
        os.makedirs(f"{_UPPER}/{path}", exist_ok=True)
    _mount_root([*layers, _UPPER], "", sc.MS_RDONLY | sc.MS_NOSUID | sc.MS_NODEV)
    for path in rootfs.WRITABLE:
        own = f"{_SPACE}/{path}"
        os.makedirs(own)
        os.chown(own, user, user)
        os.chmod(own, 0o1777 if path.endswith("tmp") else 0o755)
        sc.mount(own, f"{_ROOT}/{path}", flags=sc.MS_BIND)
    os.symlink("/var/tmp", f"{_ROOT}/dev/shm")
    sc.pivot_root_here(_ROOT)
    return user


def _make_space(disk_bytes: int, inodes: int, resolver: str = "") -> None:
    options = f"size={disk_bytes},nr_inodes={inodes},mode=755"
    sc.mount("tmpfs", _SPACE, "tmpfs", sc.MS_NOSUID | sc.MS_NODEV, options)
    for path in (_UPPER, f"{_SPACE}/work", f"{_SPACE}/dev", _ROOT):
        os.mkdir(path, 0o755)
    _make_own_files(resolver)


def _mount_root(layers: list[str], more: str, flags: int) -> None:
    os.chdir(LAYERS)
    options = ["userxattr", f"lowerdir={':'.join(reversed(layers)) or '/empty'}", *filter(None, [more])]
    sc.mount("overlay", _ROOT, "overlay", flags, ",".join(options))
    sc.mount(f"{_SPACE}/dev", f"{_ROOT}/dev", flags=sc.MS_BIND)
    rootfs.show_dev(_ROOT)
    sc.mount("proc", f"{_ROOT}/proc", "proc", sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC)


def protect() -> None:
    """Make the root read-only; volumes, `/dev` and `/proc` are mounts of their own."""
    sc.mount("none", "/", flags=sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | sc.MS_NODEV)


def _make_own_files(resolver: str) -> None:
    for name in ("dev", "etc", "proc", "tmp"):
        os.mkdir(f"{_UPPER}/{name}", 0o755)
    os.chmod(f"{_UPPER}/tmp", 0o1777)
    for name, text in {**_FILES, "resolv.conf": resolver}.items():
        with open(f"{_UPPER}/etc/{name}", "w", encoding="utf-8") as file:
            file.write(text)


def _hide_in_proc() -> None:
    # Settings of its own namespaces, which its user 0 may change, and locks and keys that others have.
    rootfs.touch(_NOTHING)
    for name in ("sys", "locks", "keys"):
        target = f"{_ROOT}/proc/{name}"
        if os.path.exists(target):
            sc.mount(target if name == "sys" else _NOTHING, target, flags=sc.MS_BIND)
            rootfs.protect(target)


def make_directories(paths: list[str], user: int, group: int) -> None:
    """Make what is missing of absolute paths, in the sandbox's root, for a user."""
    for path in paths:
        made = ""
        for name in path.strip("/").split("/"):
            made += f"/{name}"
            if not os.path.isdir(made):
                os.mkdir(made, 0o755)
                os.chown(made, user, group)
