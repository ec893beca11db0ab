"""Options that several commands share: the same name, the same words, the same meaning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.bounds import check_text
from sandrl.events import LogLevel
from sandrl.settings import ReportTo, RuntimeKind

if TYPE_CHECKING:
    from sandrl.sandboxes import SandboxRequest

SANDBOXES_PANEL = "Sandboxes"
OUTPUT_PANEL = "Output"


Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", "-c", min=1, help="Sandboxes at once.", rich_help_panel=SANDBOXES_PANEL),
]
MaxSandboxes = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Never hold more sandboxes, those being created or stopped included.",
        rich_help_panel=SANDBOXES_PANEL,
    ),
]
Retries = Annotated[
    int,
    typer.Option(metavar="N", min=0, help="Further tries when a sandbox fails.", rich_help_panel=SANDBOXES_PANEL),
]
Runtime = Annotated[RuntimeKind, typer.Option(help="What runs the sandboxes.", rich_help_panel=SANDBOXES_PANEL)]
Image = Annotated[str | None, typer.Option(help="Container image of the sandboxes.", rich_help_panel=SANDBOXES_PANEL)]
Packages = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,…",
        help="Installed packages the code may import (local runtime).",
        rich_help_panel=SANDBOXES_PANEL,
    ),
]
SandboxTags = Annotated[
    list[str] | None,
    typer.Option("--tag", "-t", help="Tag of every sandbox; repeatable.", rich_help_panel=SANDBOXES_PANEL),
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel=OUTPUT_PANEL)]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Append each result to a JSONL file as it arrives.", rich_help_panel=OUTPUT_PANEL
    ),
]
RunsDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where the run directory is made.", rich_help_panel=OUTPUT_PANEL),
]
RunName = Annotated[str | None, typer.Option(help="Name of the run directory.", rich_help_panel=OUTPUT_PANEL)]
LogDetail = Annotated[LogLevel, typer.Option(help="How much the run's log file has.", rich_help_panel=OUTPUT_PANEL)]
ReportsTo = Annotated[
    ReportTo,
    typer.Option(
        "--report-to", help="Metrics to W&B, too; `auto`: to an active W&B run.", rich_help_panel=OUTPUT_PANEL
    ),
]
SecondOpinionRate = Annotated[
    float,
    typer.Option(
        "--second-opinion",
        metavar="RATE",
        min=0,
        max=1,
        help="Judge this share of failed isolated verdicts again in one process; report those that pass there.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
FailUnder = Annotated[
    float | None,
    typer.Option(metavar="RATE", min=0, max=1, help="Exit 1 if the pass rate is lower.", rich_help_panel=OUTPUT_PANEL),
]


def sandbox_request(
    *,
    runtime: RuntimeKind,
    image: str | None,
    packages: str | None,
    tag: Sequence[str] | None,
    max_sandboxes: int | None = None,
) -> SandboxRequest:
    """The sandboxes that the options of a command ask for."""
    from sandrl.sandboxes import SandboxRequest

    return SandboxRequest(runtime, image, package_names(packages), tuple(tag or ()), max_sandboxes)


def package_names(packages: str | None) -> tuple[str, ...]:
    """The names that `--packages` gives, separated by commas.

    Raises:
        UsageError: If a name is empty.
    """
    if packages is not None:
        check_text("--packages", *packages.split(","))
    return tuple(name for name in map(str.strip, (packages or "").split(",")) if name)
