"""The examination: every check in the order of the report, and the one problem that matters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sandrl.doctor.machine import gpu_check
from sandrl.doctor.packages import extra_checks, version_checks
from sandrl.doctor.report import Check, Problem, Report, State
from sandrl.doctor.services import credential_checks, hub_check, remote_check, wandb_check
from sandrl.errors import AuthenticationError, RuntimeUnavailableError
from sandrl.runtime.host.choice import FORCE_VARIABLE
from sandrl.runtime.selfcheck import check_isolation
from sandrl.settings import RuntimeKind, Settings, can_be_private


def examine(settings: Settings, environment: Mapping[str, str], *, online: bool = False) -> Report:
    """Looks at everything sandrl needs or can use; takes a few seconds and leaves nothing behind.

    Args:
        settings: What the environment says.
        environment: Where credentials and the settings of other programs are looked for.
        online: Ask the services outside, too, each for a few seconds at most.
    """
    report = Report()
    report.sections["versions"] = version_checks()
    runtime, kind = _runtime_checks(settings)
    isolation = _isolation_checks(environment)
    remote = remote_check(settings, online=online)
    report.sections["runtime"] = runtime
    report.sections["isolation"] = isolation
    report.sections["services"] = [
        *credential_checks(environment),
        remote,
        hub_check(environment, online=online),
        wandb_check(environment),
    ]
    report.sections["machine"] = [gpu_check()]
    report.sections["extras"] = extra_checks()
    # In this order: without a package, nothing else can be trusted to be what is wrong.
    needed = [*report.sections["versions"], *runtime, *([remote] if kind is RuntimeKind.REMOTE else isolation)]
    report.problem = next((_problem(check) for check in needed if check.state is State.FAILED), None)
    return report


def _problem(check: Check) -> Problem:
    return Problem(f"completions cannot be scored here: {check.name}: {check.detail}", check.hint)


def _runtime_checks(settings: Settings) -> tuple[list[Check], RuntimeKind]:
    try:
        choice = settings.choose_runtime()
    except AuthenticationError as error:
        return [Check("choice", State.FAILED, error.message, error.hint)], RuntimeKind.AUTO
    chosen = Check("choice", State.OK, f"{choice.kind}: {choice.reason}")
    if choice.kind is RuntimeKind.REMOTE:
        return [chosen], choice.kind
    return [chosen, _state_check(settings.state_dir)], choice.kind


def _state_check(directory: Path) -> Check:
    complaint = can_be_private(directory)
    if complaint is None:
        return Check("state directory", State.OK, str(directory))
    return Check(
        "state directory", State.FAILED, f"{directory}: {complaint}", "set SANDRL_STATE_DIR to a directory of your own"
    )


def _isolation_checks(environment: Mapping[str, str]) -> list[Check]:
    forced = f"unset {FORCE_VARIABLE}" if environment.get(FORCE_VARIABLE) else None
    try:
        found = check_isolation()
    except RuntimeUnavailableError as error:
        return [Check("sandbox", State.FAILED, error.message, forced or error.hint)]
    hint = forced or "do not run models' code on this machine: set CWSANDBOX_API_KEY to use remote sandboxes"
    return [
        Check("sandbox", State.OK, f"{found.launcher}, {found.image}: {found.detail}"),
        *(
            Check(each.name, State.OK, each.detail) if each.holds else Check(each.name, State.FAILED, each.detail, hint)
            for each in found.properties
        ),
    ]
