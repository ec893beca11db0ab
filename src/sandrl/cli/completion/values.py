"""Completion values that depend on this machine: runs, jobs, sandboxes and their tags, problems.

Only a few small files are read and no service is called, so TAB answers at once, also if no runtime is running.
Sandboxes come from the local runtime's roster, and remote ones from the ends of the newest ledgers, so they may be a
second old. A source never fails: a missing or damaged file gives no values.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sandrl.files import open_regular
from sandrl.settings import ReportTo, RuntimeKind, load_settings, runtime_names

Values = list[tuple[str, str]]

_PLAIN = re.compile(r"[A-Za-z0-9_.:/@%+=,-]{1,200}", re.ASCII)
_NEWEST_RUNS = 8
_LEDGER_BYTES = 128 << 10
_MOST_FILES = 500
_BUNDLED = [Path(__file__).parents[2] / "problems" / "data" / f"{name}_problems.jsonl" for name in ("bundled", "demo")]


def is_plain(text: str) -> bool:
    """Whether a value can be put on a command line as it is, and shown on a terminal."""
    return bool(_PLAIN.fullmatch(text))


def problem_sets() -> Values:
    """Names of sets of problems; a file or a dataset of the hub will do as well."""
    from sandrl.problems.sources import NAMED_SETS

    return [(each.name, each.title) for each in NAMED_SETS]


def reward_policies() -> Values:
    """Names of reward policies; a function of the user's own will do as well."""
    from sandrl.scoring.policies import POLICIES

    return [(name, (policy.__doc__ or "").partition("\n")[0]) for name, policy in POLICIES.items()]


def runtimes() -> Values:
    """Names of runtimes; `ray:ADDRESS` will do as well."""
    return [(RuntimeKind.AUTO.value, ""), *priced_runtimes()]


def conformance_checks() -> Values:
    """Names of the checks of a provider; asked when the tree is written, as they are many imports away."""
    from sandrl.sandboxes.conformance import CHECKS

    return [(each.name, each.what) for each in CHECKS]


def trackers() -> Values:
    """Names of trackers of metrics; several are separated by commas."""
    return [(kind.value, "") for kind in ReportTo]


def priced_runtimes() -> Values:
    """Names of runtimes that can have a price."""
    return [(name, "") for name in runtime_names()]


def problem_ids() -> Values:
    """Ids of the bundled problems."""
    return [(str(row.get("task_id", "")), "") for path in _BUNDLED for row in _rows(_lines(path))]


def exploit_names() -> Values:
    """Names of exploits, cheats and groups of them; asked when the tree is written, as they are many imports away."""
    from sandrl.redteam import CHEATS, EXPLOITS, EXPLOITS_IN_CPP

    every = [(each.name, each.group, each.aim) for each in (*EXPLOITS, *EXPLOITS_IN_CPP)]
    every += [(each.name, each.group, each.aim) for each in CHEATS]
    groups = {group: "group" for _, group, _ in every}
    return [*groups.items(), *((name, aim) for name, _, aim in every)]


def run_names() -> Values:
    """Names of runs: those of the user's index, and those where new ones are made."""
    return [(path.name, "") for path in _runs()]


def sandbox_ids() -> Values:
    """Ids of sandboxes that are probably alive, with their jobs."""
    return [(name, next((tag for tag in tags if tag.startswith("job-")), "")) for name, tags in _living()]


def tags() -> Values:
    """Tags of the sandboxes that are alive, then of those that recently were; the id of a job is one of them."""
    alive = [tag for _, tags in _living() for tag in tags]
    used = [str(tag) for entry in _jobs() for tag in _list(entry.get("tags"))]
    used += [str(tag) for row in _ledger_rows() for tag in _list(row.get("tags"))]
    return [(tag, "alive" if tag in set(alive) else "") for tag in dict.fromkeys([*alive, *used])]


def job_ids() -> Values:
    """Ids of jobs: of those whose sandboxes are alive, then of the others that are registered."""
    alive = [tag for _, tags in _living() for tag in tags if tag.startswith("job-")]
    known = [str(entry.get("job_id", "")) for entry in _jobs()]
    return [(name, "alive" if name in set(alive) else "") for name in dict.fromkeys([*alive, *known])]


def image_names() -> Values:
    """Names of stored images, with the beginning of their digests."""
    paths = _newest(load_settings().cache_dir / "images" / "names", "*.json")
    rows = [row for path in paths for row in _rows(_lines(path))]
    return [(str(row.get("name", "")), str(row.get("digest", ""))[7:19]) for row in rows]


SOURCES: dict[str, Callable[[], Values]] = {
    source.__name__: source for source in (problem_ids, run_names, sandbox_ids, tags, job_ids, image_names)
}
"""Those asked when a shell asks, by name."""


def _runs() -> list[Path]:
    settings = load_settings()
    found: dict[str, tuple[float, Path]] = {}
    for folder in (settings.state_dir / "runs", settings.runs_dir):
        for entry in _scan(folder):
            try:
                path = Path(os.path.realpath(entry.path))
                found[str(path)] = ((path / "config.json").stat().st_mtime, path)
            except OSError:
                continue  # deleted since, or no run
    return [path for _, path in sorted(found.values(), reverse=True)]


def _jobs() -> list[dict[str, Any]]:
    paths = _newest(load_settings().state_dir / "jobs", "*.json")
    return [entry for path in paths for entry in _rows([b"".join(_lines(path))])]


def _ledger_rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for run in _runs()[:_NEWEST_RUNS]:
        rows += _rows(_lines(run / "sandboxes.jsonl", last_bytes=_LEDGER_BYTES))
    return rows


def _living() -> list[tuple[str, list[str]]]:
    # Ids and tags of sandboxes that are probably alive: local ones, and those of a ledger without an end.
    living = dict(_roster())
    asked: dict[str, list[str]] = {}
    for row in _ledger_rows():
        key, name = f"{row.get('job_id')} {row.get('key')}", str(row.get("sandbox_id") or "")
        match row.get("event"):
            case "intent":
                asked[key] = [str(tag) for tag in _list(row.get("tags"))]
            case "created":
                living.setdefault(name, asked.get(key) or [str(row.get("job_id", ""))])
            case "stopped":
                living.pop(name, None)
    return list(living.items())


def _roster() -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for path in _newest(load_settings().state_dir / "runtime", "*/sandboxes.json"):
        for document in _rows([b"".join(_lines(path))]):
            if Path("/proc", str(document.get("pid"))).exists():
                rows = [row for row in _list(document.get("sandboxes")) if isinstance(row, list) and len(row) == 2]
                found += [(str(name), [str(tag) for tag in _list(tags)]) for name, tags in rows]
    return found


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _scan(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def _newest(folder: Path, pattern: str) -> list[Path]:
    def moment(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:
            return 0.0

    return sorted(folder.glob(pattern), key=moment, reverse=True)[:_MOST_FILES]


def _lines(path: Path, last_bytes: int | None = None) -> list[bytes]:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            if last_bytes is not None:
                file.seek(max(0, file.seek(0, os.SEEK_END) - last_bytes))
            return file.readlines()
    except OSError:
        return []


def _rows(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue  # cut off in the middle, or no JSON
        if isinstance(row, dict):
            yield row
