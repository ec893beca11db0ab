"""The examination: runs every check in the order of the report, and selects the problem that prevents scoring.

A provider states what it needs (`Need`), each need is a list of checks, and a runtime works if none of them failed. So
a new provider is examined without a change here, and the line of a runtime agrees with the other lines of the report.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandrl.deadlines import in_background
from sandrl.doctor.imports import broken_packages
from sandrl.doctor.machine import gpu_check, languages_check, open_files_check, port_check, state_check
from sandrl.doctor.model import model_checks
from sandrl.doctor.nodes import cluster_checks, unasked_cluster_check
from sandrl.doctor.packages import extra_checks, version_checks, vouched_packages
from sandrl.doctor.report import Check, Finding, Report, State
from sandrl.doctor.services import credential_checks, hub_check, provider_check, remote_check, tinker_check, wandb_check
from sandrl.errors import AuthenticationError, RuntimeUnavailableError, SandrlError
from sandrl.judge.program import begin_worker, command_line, refusal_of_worker
from sandrl.runtime import libraries
from sandrl.runtime.host.choice import FORCE_VARIABLE
from sandrl.runtime.host.native import COPY, ROOTS_VARIABLE
from sandrl.runtime.selfcheck import SelfCheck, WorkerTrial, check_isolation
from sandrl.sandboxes.daemons import served_daemons
from sandrl.sandboxes.providers import find_provider
from sandrl.sandboxes.providers.protocol import Need
from sandrl.sandboxes.workers import CellLimits
from sandrl.settings import RuntimeChoice, RuntimeKind, Settings, runtime_names


def examine(
    settings: Settings,
    environment: Mapping[str, str],
    *,
    runtime: str = RuntimeKind.AUTO,
    online: bool = False,
    model: str | None = None,
) -> Report:
    """Looks at everything sandrl needs or can use, and leaves nothing behind.

    It takes a few seconds, and half a minute where a trainer is installed, which is imported.

    Args:
        environment: Where credentials and the settings of other programs are looked for.
        model: A model that is to be examined as well.
    """
    report = Report()
    # Meanwhile the isolation is tested.
    importing = in_background(lambda: broken_packages(vouched_packages()))
    # First of all, for the order of the report; the imports are waited for at the end.
    report.sections["versions"] = []
    chosen, choice = _choice_check(settings, runtime)
    kind = RuntimeKind.AUTO if choice is None else choice.kind
    _, isolation = isolation_checks(environment)
    remote = remote_check(settings, online=online)
    files = [state_check(settings.state_dir), open_files_check()]
    port = port_check()
    cluster, nodes = unasked_cluster_check(), list[Check]()
    if choice is not None and kind == RuntimeKind.RAY:
        cluster, nodes = cluster_checks(choice.address or settings.ray_address)
    found = {
        Need.ISOLATION: isolation,
        Need.FILES: files,
        Need.PORT: [port],
        Need.SERVICE: [remote],
        Need.CLUSTER: [cluster],
    }
    needed = {each: _checks_of(settings, each, found) for each in runtime_names()}
    runtimes = [_runtime_check(each, checks) for each, checks in needed.items()]
    report.sections["runtime"] = [chosen, *runtimes, *_daemon_checks(settings.state_dir), *files, port]
    if nodes:
        report.sections["nodes"] = nodes
    report.sections["isolation"] = isolation
    broken = importing.result()
    report.sections["versions"] = version_checks(broken)
    report.sections["services"] = [
        *credential_checks(environment),
        remote,
        hub_check(environment, online=online),
        tinker_check(settings, broken),
        wandb_check(environment, broken),
    ]
    report.sections["machine"] = [gpu_check(), languages_check()]
    report.sections["extras"] = extra_checks(broken)
    if model is not None:
        report.sections["model"] = model_checks(model)
    # In this order: without a package, nothing else can be trusted to be what is wrong.
    decisive = [*report.sections["versions"], chosen, *needed.get(kind, isolation)]
    report.problem = next((_problem(check) for check in decisive if check.state is State.FAILED), None)
    return report


def _problem(check: Check) -> Finding:
    return Finding(f"completions cannot be scored here: {check.name}: {check.detail}", check.hint)


def _choice_check(settings: Settings, wanted: str) -> tuple[Check, RuntimeChoice | None]:
    try:
        choice = settings.choose_runtime(wanted)
    except AuthenticationError as error:
        return Check("choice", State.FAILED, error.message, error.hint), None
    return Check("choice", State.OK, f"{choice.kind}: {choice.reason}"), choice


def worker_trial() -> WorkerTrial:
    return WorkerTrial(command_line(), begin_worker(CellLimits().words(1)), refusal_of_worker)


def isolation_checks(environment: Mapping[str, str]) -> tuple[SelfCheck | None, list[Check]]:
    """How this machine isolates, and each property of it as a check.

    Returns:
        What was found, None if no sandbox can be booted; and the checks.
    """
    forced = f"unset {FORCE_VARIABLE}" if environment.get(FORCE_VARIABLE) else None
    try:
        found = check_isolation(worker_trial())
    except RuntimeUnavailableError as error:
        return None, [Check("sandbox", State.FAILED, error.message, forced or error.hint)]
    hint = forced or "do not run models' code on this machine: set CWSANDBOX_API_KEY to use remote sandboxes"
    return found, [
        Check("sandbox", State.OK, f"{found.launcher}, {found.image}: {found.detail}"),
        *_library_checks(),
        *(
            Check(each.name, State.OK, each.detail) if each.holds else Check(each.name, State.FAILED, each.detail, hint)
            for each in found.properties
        ),
        _cells_check(found.cells_refusal),
        _images_check(found.images_refusal, found.copies_images),
        _network_check(found.network_refusal),
    ]


def _library_checks() -> list[Check]:
    folders = dict.fromkeys(os.path.dirname(path) for _, path in libraries.own_libraries().by_variable)
    if not folders:
        return []
    names = ", ".join(name for name, _ in libraries.own_libraries().by_variable)
    detail = f"found by LD_LIBRARY_PATH in {', '.join(folders)}: {names}; sandboxes can read these files"
    return [Check("shared libraries", State.OK, detail)]


def _cells_check(refusal: str | None) -> Check:
    if refusal == "":
        return Check(
            "cells", State.OK, "a worker sandbox created a cell: completions share sandboxes, each in its own cell"
        )
    return Check("cells", State.ABSENT, f"not possible here ({refusal}): each completion has its own sandbox")


def _images_check(refusal: str, are_copied: bool) -> Check:
    if not refusal and are_copied:
        why = (
            f"{ROOTS_VARIABLE}={COPY} is set"
            if os.environ.get(ROOTS_VARIABLE) == COPY
            else "the kernel refuses overlays"
        )
        detail = f"a sandbox started from a copy of a layer of an image, because {why}"
        return Check("images", State.OK, detail, "copies take time and disk for each sandbox: use Linux 5.11 or newer")
    if not refusal:
        return Check("images", State.OK, "a sandbox started from a layer of an image, and wrote to its files")
    detail = f"not possible here ({refusal}): sandboxes have the system of this machine"
    return Check("images", State.ABSENT, detail, "sandboxes from images need the native launcher")


def _network_check(refusal: str) -> Check:
    if not refusal:
        detail = "a sandbox with a network reached a port that it may reach, by the gate, and no other"
        return Check("network", State.OK, detail)
    detail = f"not possible here ({refusal}): sandboxes have none"
    return Check("network", State.ABSENT, detail, "networks of sandboxes need nftables and the native launcher")


def needed_checks(kind: str, checks: Mapping[Need, Sequence[Check]]) -> list[Check]:
    needs = find_provider(kind).needs
    return [check for need in Need if need in needs for check in checks[need]]


def _checks_of(settings: Settings, kind: str, checks: Mapping[Need, Sequence[Check]]) -> list[Check]:
    try:
        return needed_checks(kind, checks) or [provider_check(settings, kind)]
    except SandrlError as error:
        return [Check(kind, State.FAILED, error.message, error.hint)]


def _daemon_checks(state_dir: Path) -> list[Check]:
    found = served_daemons(state_dir)
    if not found:
        return []
    places = "; ".join(f"{each.place}, {each.loss}" for each in found)
    return [Check("local runtimes", State.OK, f"{len(found)} running: {places}", "sandrl runtime status shows them")]


_OPTIONAL = frozenset({"cells", "images", "network"})
"""What a runtime works without."""


def _runtime_check(kind: str, checks: Sequence[Check]) -> Check:
    failed = next((check for check in checks if check.state is State.FAILED), None)
    if failed is not None:
        # What this machine cannot do is no fault while another runtime is used.
        reason = failed.detail if failed.name == kind else f"{failed.name}: {failed.detail}"
        return Check(kind, State.ABSENT, f"does not work here: {reason}", failed.hint)
    needed = (check for check in checks if check.name not in _OPTIONAL or check.state is not State.ABSENT)
    unknown = next((check for check in needed if check.state is not State.OK), None)
    if unknown is not None:
        return Check(kind, unknown.state, unknown.detail, unknown.hint)
    return Check(kind, State.OK, f"works here: {find_provider(kind).summary}")
