"""All runs that are shown, of one directory or of the user: the summary of each, and the runs that have changed."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from sandrl.errors import InputError, SandrlError
from sandrl.runs import MetricsRow, RunReader, find_run, state_of
from sandrl.runs.config import read_config
from sandrl.runs.directory import is_running
from sandrl.runs.held import COST_METRIC, price_in
from sandrl.runs.index import RunEntry, list_runs
from sandrl.runs.overview import RunState, count_steps, latest_pass_at_1
from sandrl.runs.report.document import run_seconds
from sandrl.runs.report.parts import total_of
from sandrl.runs.series import series_of, thinned
from sandrl.viewer.run import RunView, has_metrics, stamp_of

CURVE_POINTS = 60
"""How many points the curve of a run in the list has at most."""

_LOOK_SECONDS = 0.8
_KINDS = ("config", "failure", "metrics", "evaluations", "trajectories", "opinions", "problems", "cards")
_TURN_SECONDS = 1.0
_ENDING_SECONDS = 2.0
# Whoever waits for an answer meanwhile gets a turn, too.
_PAUSE_SECONDS = 0.01
_NO_LETTER = re.compile(r"[^A-Za-z0-9._-]")


class Indexer:
    """A thread that works on the indexes of runs, as long as there is something to do."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: list[RunView] = []
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def add(self, run: RunView) -> None:
        """Works on a run, before all others."""
        with self._mutex:
            if self._is_closed:
                return
            if run in self._waiting:
                self._waiting.remove(run)
            self._waiting.append(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="sandrl-index", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ends after the turn that is in hand, if that takes no longer than a moment."""
        with self._mutex:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            # What it is at is rolled back if it takes longer: the index goes on from there next time.
            thread.join(_ENDING_SECONDS)

    def _work(self) -> None:
        while True:
            with self._mutex:
                if self._is_closed or not self._waiting:
                    self._thread = None
                    return
                run = self._waiting[-1]
            is_done = True
            with suppress(SandrlError, OSError, sqlite3.Error):
                is_done = run.work(_TURN_SECONDS)
            with self._mutex:
                if is_done and run in self._waiting:
                    self._waiting.remove(run)
            time.sleep(_PAUSE_SECONDS)


class Library:
    """The runs of a directory, and those of the user's index unless there is no `state_dir`."""

    def __init__(self, runs_dir: Path, state_dir: Path | None, cache_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._state_dir = state_dir
        self._cache_dir = cache_dir
        self.indexer = Indexer()
        self._mutex = threading.Lock()
        self._looking = threading.Lock()
        self._runs: dict[str, RunView] = {}
        self._briefs: dict[str, tuple[object, dict[str, Any]]] = {}
        self._open_ended: dict[Path, tuple[object, bool]] = {}
        self._seen: tuple[float, dict[str, object]] = (0.0, {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def key_of(self, name: str) -> str:
        """The key of a run that a user has named.

        Raises:
            InputError: If it is none of those that are shown.
        """
        key = run_key(find_run(name, self._state_dir or self._nowhere, self._runs_dir))
        if key not in self.entries():
            raise InputError(
                "is not one of the runs that are shown", path=name, hint="also name the directory that contains it"
            )
        return key

    def entries(self) -> dict[str, RunEntry]:
        """All runs that are there now by their keys, newest first."""
        found = list_runs(self._state_dir or self._nowhere, self._runs_dir)
        return {run_key(each.path): each for each in found}

    @property
    def _nowhere(self) -> Path:
        # A directory that does not exist.
        return Path(os.devnull)

    def find(self, key: str) -> RunView | None:
        """The run of a key, or of a run's id if only one run has it; None if there is none."""
        with self._mutex:
            known = self._runs.get(key)
        if known is not None and (known.path / "config.json").is_file():
            return known
        entries = self.entries()
        named = [name for name, entry in entries.items() if key in (name, entry.run_id)]
        if key not in named and len(named) != 1:
            return None
        return self.open(key if key in named else named[0], entries)

    def open(self, key: str, entries: Mapping[str, RunEntry]) -> RunView:
        """The run of a key that is there."""
        with self._mutex:
            if key not in self._runs:
                self._runs[key] = RunView(key, entries[key].path, self._cache_dir, self.indexer.add)
            return self._runs[key]

    def documents(self) -> dict[str, Any]:
        """What `GET api/runs` answers."""
        entries = self.entries()
        return {"runs": [self.brief(key, entries) for key in entries]}

    def briefs(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        """What the list says of some runs."""
        entries = self.entries()
        return [self.brief(key, entries) for key in keys if key in entries]

    def brief(self, key: str, entries: Mapping[str, RunEntry]) -> dict[str, Any]:
        """What the list says of a run, whatever its condition."""
        path = entries[key].path
        run = self.open(key, entries)
        stamp = self._stamp(run)
        with self._mutex:
            known = self._briefs.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            brief = _brief(run)
        except InputError as error:
            brief = {
                "run_id": path.name, "key": key, "command": "", "state": RunState.DAMAGED.value,
                "created_at": entries[key].started_at.isoformat(timespec="seconds"), "finished_at": None,
                "seconds": None, "model": None, "problems": None, "completions": 0, "steps": 0, "unscorable": 0,
                "truncated": 0, "reward": None, "pass_rate": None, "pass_at_1": None, "curve": [], "cost": None,
                "job_ids": [], "error": error.message,
            }  # fmt: skip
        with self._mutex:
            self._briefs[key] = (stamp, brief)
        return brief

    def look(self) -> dict[str, object]:
        """What changes of each run when its files do, or more of it is indexed; looked at once a second at most."""
        with self._looking:
            looked_at, seen = self._seen
            if time.monotonic() < looked_at + _LOOK_SECONDS:
                return seen
            seen = {}
            for key, entry in self.entries().items():
                seen[key] = self._stamp(self.open(key, {key: entry}))
            self._seen = (time.monotonic(), seen)
            return seen

    def _stamp(self, run: RunView) -> tuple[object, ...]:
        is_written = self._is_written(run.path)
        return (stamp_of(run.path, *_KINDS), run.columns.rows_known, run.counted_version, is_written)

    def _is_written(self, path: Path) -> bool:
        # Whether a job is writing the run; asked only of one whose last job has not said how it ended.
        stamp = stamp_of(path, "config", "failure")
        known = self._open_ended.get(path)
        if known is None or known[0] != stamp:
            try:
                jobs = read_config(path).jobs
            except InputError:
                jobs = ()
            known = self._open_ended[path] = (stamp, bool(jobs) and jobs[-1].outcome is None)
        return known[1] and is_running(path)

    def close(self) -> None:
        """Ends what works in the background."""
        self.indexer.close()


def run_key(path: Path) -> str:
    """What addresses name a run by: its id, and a digest of where it is, because two directories may hold one id."""
    name = _NO_LETTER.sub("-", path.name) or "run"
    return f"{name}.{hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:8]}"


def _brief(run: RunView) -> dict[str, Any]:
    reader = RunReader(run.path)
    config = reader.config
    jobs = config.jobs
    rows: tuple[MetricsRow, ...]
    if has_metrics(run.path):
        rows, last_time = run.metrics(reader, None), None
    else:
        totals = run.totals(run.refresh())
        rows, last_time = run.metrics(reader, totals), totals.completions().last_time
    series = series_of(rows)
    finished_at = jobs[-1].finished_at if jobs else None
    rewards = None if config.measures_problems else series.get("reward/mean")
    price, cost = price_in(config.options), total_of(series, COST_METRIC)
    pass_at_1 = None if config.measures_problems else latest_pass_at_1(rows)
    return {
        "run_id": config.run_id,
        "key": run.key,
        "command": config.command,
        "state": state_of(config, is_running=bool(jobs) and jobs[-1].outcome is None and reader.is_running).value,
        "created_at": config.created_at.isoformat(timespec="seconds"),
        "finished_at": finished_at and finished_at.isoformat(timespec="seconds"),
        "seconds": run_seconds(config, last_time, rows),
        "model": config.subject,
        "problems": config.source,
        "completions": int(total_of(series, "completions") or 0),
        "steps": count_steps(rows),
        "unscorable": int(total_of(series, "unscorable") or 0),
        "truncated": int(total_of(series, "truncated_answers") or 0),
        "reward": rewards.last if rewards else None,
        "pass_rate": series["pass_rate"].last if rewards and "pass_rate" in series else None,
        "pass_at_1": None if pass_at_1 is None else asdict(pass_at_1),
        "curve": thinned(rewards.finite, CURVE_POINTS) if rewards else [],
        "cost": None if price is None or cost is None else replace(price, amount=cost).shown,
        "job_ids": [job.job_id for job in jobs],
        "error": jobs[-1].error if jobs else None,
    }
