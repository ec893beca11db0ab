"""The limits of a sandbox unless its request sets others; the documentation gives every number."""

from __future__ import annotations

import errno
import resource

from sandrl.errors import RuntimeUnavailableError
from sandrl.runtime.guest.network import BACKLOG
from sandrl.runtime.guest.processes import OPEN_FILES

MIB = 1 << 20

MEMORY_BYTES = 512 * MIB
DISK_BYTES = 256 * MIB
INODES = 32_768
PROCESSES = 256
SOCKETS = 512
MOST_PROCESSES, MOST_SOCKETS, MOST_OPEN_FILES = 4_096, 4_096, 65_536

CONNECTIONS = 192
"""How many connections to the network a sandbox may have at once."""

GATE_SOCKETS = CONNECTIONS + 2 * (BACKLOG + 3)
"""The gate's own in the network namespace of a sandbox, besides those of its programs, which `SOCKETS` bounds."""

CONNECTIONS_TOLD = 10_000
"""Most records of connections in one answer."""
HOSTS, OTHER_HOSTS = 1000, "others"
"""How many hosts that a sandbox has reached are known by name, and what stands for all others."""

FILE_OPERATION_MAX_BYTES = 32 * MIB
"""Largest file one unary read or write carries; the SDK streams above it."""

SNAPSHOTS_MAX_BYTES = 8 << 30
"""How much all file-system snapshots of a state directory may take on disk."""

LOG_MAX_BYTES = 8 * MIB
"""How much of a main program's output is kept for `stream_logs` while its sandbox lives."""

ENDED_LOGS_MAX_BYTES = 64 * MIB
"""How much output of all ended sandboxes together is kept, the latest first."""

TERMINATED_KEPT = 4_096
"""How many ended sandboxes `list(show_terminated=True)` and `get` still know."""

MAX_LIFETIME_SECONDS = 24 * 3600
"""Bound of a sandbox whose request names none."""

IDLE_TIMEOUT_SECONDS = 900.0
"""How long a daemon without sandboxes and calls stays."""

START_TIMEOUT_SECONDS = 30.0
"""How long an agent may take to start a program before its sandbox is taken for dead."""

MAX_COMMAND_BYTES = 2 << 20
"""Arguments and environment of one program together, as the kernel has it."""

LOST_METADATA = "sandrl_lost_runtime"
"""In the details of an error: the runtime itself failed and took the sandbox along."""

LOST_REASON = "the local runtime lost it: its fork server ended"
"""The state reason of a sandbox that was lost so."""

FILE_ERRORS = {
    "CWSANDBOX_FILE_NOT_FOUND": errno.ENOENT,
    "CWSANDBOX_FILE_IS_DIRECTORY": errno.EISDIR,
    "CWSANDBOX_FILE_PERMISSION_DENIED": errno.EACCES,
    "CWSANDBOX_FILE_TOO_LARGE": errno.EFBIG,
    "CWSANDBOX_FILE_IO_FAILED": errno.EIO,
}
"""Why a file cannot be read or written: the protocol's reasons, and the kernel's."""

PREBUILT_PATH = "/opt"
"""Where every sandbox sees, read-only, what was built on this machine for all of them."""

PACKAGES_ANNOTATION = "sandrl.dev/packages"
"""The annotation of a sandbox that names its package overlay."""

STORAGE_ANNOTATION = "sandrl.dev/storage"
"""The annotation of a sandbox from an image that says how much it may write, which is then on disk."""

OWNERS_ANNOTATION = "sandrl.dev/pretends-owners"
"""The annotation of a sandbox from an image where changes of owners succeed without an effect if it has user 0 alone.

Programs that install packages need this.
"""

CELLS_ANNOTATION = "sandrl.dev/cells"
"""The annotation that makes a sandbox a worker: how many cells it may hold at once."""

ALLOWED_HOSTS_ANNOTATION, PRIVATE_HOSTS_ANNOTATION = "sandrl.dev/allowed-hosts", "sandrl.dev/private-hosts"
"""The annotations with what rules of the protocol cannot say: names with other ports than 443, and private hosts.

Each has words `HOST`, `HOST:PORT` or `HOST:FIRST-LAST`.
"""

RECORDING_ANNOTATION = "sandrl.dev/recording"
"""The annotation that names the file of a recording (`runtime/recording/attachment.py`)."""

MAX_CELLS = 256

BOOT_TIMEOUT_SECONDS, COPY_TIMEOUT_SECONDS = 20.0, 300.0
"""How long a boot may take, and one that copies an image; under load a boot waits for its turn on the processor."""


def of_memory(memory_bytes: int) -> dict[str, int]:
    """Limits of a sandbox that follow from its memory: processes, sockets, and open files of one program."""
    beyond = max(memory_bytes - MEMORY_BYTES, 0)
    return {
        "processes": min(PROCESSES + beyond // (2 * MIB), MOST_PROCESSES),
        "sockets": min(SOCKETS + beyond // MIB, MOST_SOCKETS),
        "open_files": min(OPEN_FILES + beyond // (128 << 10), MOST_OPEN_FILES),
    }


def check_open_files() -> None:
    """Refuses a limit that a sandbox cannot raise: it is handed down from the process that starts the launcher.

    Raises:
        RuntimeUnavailableError: If programs in sandboxes could open fewer files than they are promised.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < OPEN_FILES:
        raise RuntimeUnavailableError(
            f"a sandbox gives each program {OPEN_FILES} open files, and this process is limited to {hard}",
            hint="raise the hard limit (`ulimit -Hn` shows it), for example in /etc/security/limits.conf",
        )
