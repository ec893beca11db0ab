"""The file system of a sandbox that starts from an image: an overlay over the image's layers.

Everything that is written goes to one tmpfs of limited size, or to the sandbox's space on the disk. The sandbox's own
files (`/dev`, names and addresses in `/etc`) are put there before the layers are laid below it, so that no link of the
image decides where they go. Only the programs of a sandbox execute files of its image, or read them as code.

Where the kernel has no overlays in user namespaces, the root is a copy of the layers in the space.
"""

from __future__ import annotations

import os

from sandrl.runtime.guest import accounts, rootfs, storage, volumes
from sandrl.runtime.guest import syscalls as sc

LAYERS = "/layers"
_SPACE = "/newroot"
_UPPER, _ROOT, _NOTHING = f"{_SPACE}/upper", f"{_SPACE}/root", f"{_SPACE}/nothing"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILES = {
    "hosts": f"127.0.0.1 localhost {rootfs.HOSTNAME}\n::1 localhost\n",
    "hostname": f"{rootfs.HOSTNAME}\n",
}


class Files:
    """What a root is made of.

    Args:
        layers: Directories of `LAYERS`, the lowest first.
        space: The directory of the sandbox on the disk; empty if all that it writes is in memory.
        is_copied: Whether the root is a copy of the layers, in the space.
        memory_bytes: What its files in memory may take.
        resolver: What `/etc/resolv.conf` says.
    """

    def __init__(
        self, layers: list[str], space: str, is_copied: bool, memory_bytes: int, inodes: int, resolver: str
    ) -> None:
        self.layers = layers
        self.space = space
        self.is_copied = is_copied
        self.memory_bytes = memory_bytes
        self.inodes = inodes
        self.resolver = resolver
        self.upper = f"{space}/upper" if space and not is_copied else _UPPER


def enter(files: Files, mounts: list[volumes.Mount]) -> tuple[int, int]:
    """Build the root and move into it; the template is gone then.

    Returns:
        Descriptors of the directory of all that is changed and of the space, to which no path leads any more. The
        second is -1 if there is no space.
    """
    _make_space(files)
    # Setuid programs work: user 0 of the sandbox is all that they can become.
    work = f"{files.space or _SPACE}/work"
    _mount_root(files, f"upperdir={files.upper},workdir={work}", sc.MS_NODEV)
    os.mkdir(f"{_ROOT}/dev/shm")
    os.chmod(f"{_ROOT}/dev/shm", 0o1777)
    _hide_in_proc()
    prepared = volumes.prepare(mounts, f"{files.space or _SPACE}/volumes")
    changed = _ROOT if files.is_copied else files.upper
    upper, space = (os.open(path, _DIRECTORY) if path else -1 for path in (changed, files.space))
    sc.pivot_root_here(_ROOT)
    # Now no link of the image leads out of it.
    volumes.attach(prepared)
    return upper, space


def enter_for_cells(files: Files) -> int:
    """As `enter`, for a worker: what its cells share is read-only, as in the host's system, and so is all but a few.

    Returns:
        The user that it is to be: not user 0, where the sandbox has others.
    """
    user = rootfs.USER_ID if accounts.has_ids(rootfs.USER_ID, rootfs.USER_ID) else 0
    _make_space(files)
    for path in rootfs.WRITABLE:
        os.makedirs(f"{files.upper}/{path}", exist_ok=True)
    _mount_root(files, "", sc.MS_RDONLY | sc.MS_NOSUID | sc.MS_NODEV)
    for path in rootfs.WRITABLE:
        own = f"{_SPACE}/{path}"
        os.makedirs(own)
        os.chown(own, user, user)
        os.chmod(own, 0o1777 if path.endswith("tmp") else 0o755)
        sc.mount(own, f"{_ROOT}/{path}", flags=sc.MS_BIND)
    os.symlink("/var/tmp", f"{_ROOT}/dev/shm")
    sc.pivot_root_here(_ROOT)
    return user


def _make_space(files: Files) -> None:
    options = f"size={files.memory_bytes},nr_inodes={files.inodes},mode=755"
    sc.mount("tmpfs", _SPACE, "tmpfs", sc.MS_NOSUID | sc.MS_NODEV, options)
    for path in (files.upper, f"{files.space or _SPACE}/work", f"{_SPACE}/dev", _ROOT):
        os.mkdir(path, 0o755)
    _make_own_files(files)


def _mount_root(files: Files, more: str, flags: int) -> None:
    os.chdir(LAYERS)
    if files.is_copied:
        place = f"{files.space}/root"
        os.mkdir(place, 0o755)
        storage.merge([*files.layers, files.upper], place)
        sc.mount(place, _ROOT, flags=sc.MS_BIND)
    else:
        lower = [*files.layers, *([] if more else [files.upper])]
        options = ["userxattr", f"lowerdir={':'.join(reversed(lower)) or '/empty'}", *filter(None, [more])]
        try:
            sc.mount("overlay", _ROOT, "overlay", flags, ",".join(options))
        except OSError as error:
            if not files.space:
                raise
            advice = "for files on disk, SANDRL_CACHE_DIR must be on ext4, xfs or btrfs"
            raise OSError(error.errno, f"{error.strerror}: {advice}") from error
    sc.mount(f"{_SPACE}/dev", f"{_ROOT}/dev", flags=sc.MS_BIND)
    rootfs.show_dev(_ROOT)
    sc.mount("proc", f"{_ROOT}/proc", "proc", sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC)
    if files.is_copied:
        # As flags of an overlay; a mount of the host keeps those that it has.
        attributes = {sc.MS_RDONLY: sc.ATTR_RDONLY, sc.MS_NOSUID: sc.ATTR_NOSUID, sc.MS_NODEV: sc.ATTR_NODEV}
        sc.set_mount_attributes(sum(each for flag, each in attributes.items() if flags & flag), place=_ROOT)


def protect() -> None:
    """Make the root read-only; volumes, `/dev` and `/proc` are mounts of their own."""
    sc.mount("none", "/", flags=sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | sc.MS_NODEV)


def _make_own_files(files: Files) -> None:
    for name in ("dev", "etc", "proc", "tmp"):
        os.mkdir(f"{files.upper}/{name}", 0o755)
    os.chmod(f"{files.upper}/tmp", 0o1777)
    for name, text in {**_FILES, "resolv.conf": files.resolver}.items():
        with open(f"{files.upper}/etc/{name}", "w", encoding="utf-8") as file:
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
