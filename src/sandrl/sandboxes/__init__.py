"""The public entry to sandboxes: choosing a runtime, owning sandboxes as a job, and running commands in them."""

from __future__ import annotations

from sandrl.runtime.limits import OTHER_HOSTS
from sandrl.sandboxes.commands import CellCommand, Command, CommandOutcome, WorkerProgram
from sandrl.sandboxes.connection import connect, find_connection
from sandrl.sandboxes.downloads import downloads
from sandrl.sandboxes.interrupt import Interrupt, Level
from sandrl.sandboxes.job import Job, Withdrawn
from sandrl.sandboxes.owner import Liveness, Owner, current_owner, liveness
from sandrl.sandboxes.pace import delay_seconds
from sandrl.sandboxes.providers.protocol import Connection, Sandbox, SharedDirectory
from sandrl.sandboxes.registry import JobEntry, find_owner, read_jobs
from sandrl.sandboxes.request import SandboxRequest
from sandrl.sandboxes.session import BEAT_SECONDS, Launch
from sandrl.sandboxes.shape import USUAL, Shape, State, network_of, with_loopback
from sandrl.sandboxes.tags import checked_job_id, encode_tag, new_job_id, problem_tag, step_tag

__all__ = [
    "BEAT_SECONDS",
    "OTHER_HOSTS",
    "USUAL",
    "CellCommand",
    "Command",
    "CommandOutcome",
    "Connection",
    "Interrupt",
    "Job",
    "JobEntry",
    "Launch",
    "Level",
    "Liveness",
    "Owner",
    "Sandbox",
    "SandboxRequest",
    "Shape",
    "SharedDirectory",
    "State",
    "Withdrawn",
    "WorkerProgram",
    "checked_job_id",
    "connect",
    "current_owner",
    "delay_seconds",
    "downloads",
    "encode_tag",
    "find_connection",
    "find_owner",
    "liveness",
    "network_of",
    "new_job_id",
    "problem_tag",
    "read_jobs",
    "step_tag",
    "with_loopback",
]
