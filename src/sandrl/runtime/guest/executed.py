"""The agent's entry point where bubblewrap builds the sandbox and executes it, instead of a fork server forking it."""

from __future__ import annotations

import json
import os
import socket
from typing import NoReturn

from sandrl.runtime.guest import agent, forkserver, processes, rootfs, seccomp, wire
from sandrl.runtime.guest import syscalls as sc


def main(arguments: list[str]) -> NoReturn:
    """Finish the boot and serve, by the number of the descriptor to the daemon and the limits as JSON."""
    control = socket.socket(fileno=int(arguments[0]))
    try:
        if os.getpid() != 1:
            raise OSError("the agent is not process 1")
        agent.close_inherited({control.fileno()})
        limits = processes.ProcessLimits(**json.loads(arguments[1]))
        forkserver.hide_command_line()
        rootfs.replace_parts()
        forkserver.give_up_privileges(limits, seccomp.build_filter(sc.MACHINE))
        os.chdir(rootfs.WORKING_DIRECTORY)
    except OSError as error:
        wire.send(control, {"event": "boot_failed", "error": error.strerror or str(error)})
        os._exit(1)
    agent.run(control, limits)
