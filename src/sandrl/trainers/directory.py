"""The run directory of a training run: made or reopened by the first process, shared by all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sandrl.errors import InputError, InterruptedRunError, SandrlError, UsageError
from sandrl.runs import Outcome, RunReader, RunWriter, own_versions
from sandrl.sandboxes import Connection, new_job_id
from sandrl.trainers.config import GrpoConfig
from sandrl.trainers.context import Context

CHECKPOINTS = "checkpoints"
PROBLEMS_DIGEST = "problems_digest"


@contextmanager
def run_directory(
    context: Context, connection: Connection, *, runs_dir: Path, name: str | None, resume: Path | None
) -> Iterator[RunWriter]:
    """Opens the run, and says in it that the job failed if it did.

    Args:
        context: The run.
        connection: Where its sandboxes come from.
        runs_dir: Where a new run's directory is made.
        name: The name of a new run.
        resume: The directory of the run to go on with, instead.

    Raises:
        UsageError: If the name is taken, or another process is writing the run.
    """
    processes, secrets = context.processes, context.settings.secrets
    with ExitStack() as stack:
        place: tuple[Path, str] | None = None
        if processes.is_first:
            writer = RunWriter.create(
                runs_dir if resume is None else resume.parent,
                command=context.engine.command,
                job_id=new_job_id(),
                state_dir=context.settings.state_dir,
                name=name if resume is None else resume.name,
                resume=resume is not None,
                options={
                    **context.config.document(),
                    PROBLEMS_DIGEST: context.sets.digest,
                    "runtime_kind": connection.kind.value,
                    "runtime_reason": connection.reason,
                    "runtime_image": connection.image,
                },
                versions={**own_versions(), **context.engine.versions()},
                secrets=secrets,
            )
            place = stack.enter_context(writer).path, writer.job_id
        place = processes.from_first(place)
        assert place is not None, "the first process passes it"
        if not processes.is_first:
            path, job_id = place
            writer = stack.enter_context(RunWriter(path, job_id=job_id, rank=processes.rank, secrets=secrets))
        try:
            yield writer
        except SandrlError as error:
            if processes.is_first:
                writer.finish(Outcome.INTERRUPTED if isinstance(error, InterruptedRunError) else Outcome.FAILED)
            raise


def checkpoint_directory(config: GrpoConfig, run: Path) -> Path:
    """Where a run keeps its checkpoints."""
    return run / CHECKPOINTS if config.output_dir is None else Path(config.output_dir).absolute()


def saved_config(run: Path, command: str) -> GrpoConfig:
    """The configuration that a run was begun with.

    Args:
        run: Its directory.
        command: The command that is to go on with it.

    Raises:
        InputError: If it is a run of another command.
    """
    config = RunReader(run).config
    if config.command != command:
        raise InputError(f"is a run of `sandrl {config.command}`, which `sandrl {command}` cannot go on with", path=run)
    fields = {name: value for name, value in config.options.items() if name in GrpoConfig.model_fields}
    try:
        return GrpoConfig.model_validate(fields)
    except ValueError as error:
        raise InputError("is a run of another version of sandrl", path=run) from error


def check_unchanged(run: Path, digest: str, source: str) -> None:
    """Makes sure that a run goes on with what it was begun with.

    Args:
        run: Its directory.
        digest: Stands for the content of what it would go on with.
        source: What that is, as an option names it.

    Raises:
        UsageError: If they have changed.
    """
    if RunReader(run).config.options.get(PROBLEMS_DIGEST) != digest:
        raise UsageError(
            f"the run {run.name!r} cannot go on: {source} has other content now",
            hint="begin a new run",
        )
