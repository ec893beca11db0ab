"""Rows from parquet files and from the dataset hub: the one module that needs `datasets`.

Fetching and reading are two steps. The hub's own client fetches the files of one revision; it retries for half a minute
if the hub does not answer, so a short probe runs first, and after a failed probe the client uses its cache alone. Files
on the disk are read some rows at a time, so that a large set needs only the memory of its largest rows: our own readers
read files at known paths, and `datasets`, which supports all layouts of repositories, reads the others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast

from sandrl.errors import InputError, MissingExtraError, ServiceError
from sandrl.extras import check, require
from sandrl.jsonl import MAX_PROBLEM_BYTES, BadRow, Row, read_rows

EXTRA = "hub"
"""An extra that brings `datasets`."""

PROBE_SECONDS = 4.0
"""How long the hub may take to answer, including name resolution, which has no timeout of its own."""

_FILES = ("*.md", "*.parquet", "*.jsonl", "*.jsonl.gz", "*.json")
_PARQUET = ".parquet"
# So much of a parquet file is decoded at once, its largest row aside.
_BATCH_BYTES = 8 << 20
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class HubDataset:
    """A dataset of the hub.

    Attributes:
        configuration: Which of its configurations; None where it has but one.
        files: By split, patterns of the files that it is in, in their order; empty where `datasets` is to find them.
    """

    repository: str
    revision: str = "main"
    configuration: str | None = None
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_parquet(path: Path) -> Iterator[Row]:
    """Reads a parquet file, some rows at a time, numbered from 1; `MissingExtraError` without `datasets`."""
    if path.exists() and not path.is_file():
        raise InputError("is not a regular file", path=path)
    _check_installed(str(path))
    return numbered(_parquet_rows(path))


def _parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    pyarrow, parquet = (_require(name, str(path)) for name in ("pyarrow", "pyarrow.parquet"))
    try:
        # Of a column no more is read than is decoded, and pages are decompressed as they come.
        with parquet.ParquetFile(str(path), pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
            groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
            largest = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1.0)
            rows = max(1, int(_BATCH_BYTES / max(largest, 1.0)))
            for batch in file.iter_batches(batch_size=min(rows, 1024), use_threads=False):
                yield from batch.to_pylist()
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise InputError(f"cannot be read as parquet: {_reason(error)}", path=path) from error


def read_hub(dataset: HubDataset) -> dict[str, Iterator[Row]]:
    """Reads a dataset of the hub, from the hub's cache where the hub does not answer.

    Returns:
        The rows of each split, numbered from 1; they are read when they are asked for.

    Raises:
        MissingExtraError: If `datasets` is not installed.
        ServiceError: If the hub does not answer and its cache has no copy.
        InputError: If there is no such dataset, or it cannot be read.
    """
    _check_installed(dataset.repository)
    if dataset.files:
        directory = Path(_fetch(dataset))
        return {split: _file_rows(dataset, directory, patterns) for split, patterns in dataset.files.items()}
    datasets = _require("datasets", dataset.repository)
    with _silenced(datasets):
        directory = Path(_fetch(dataset))
        try:
            splits = datasets.load_dataset(str(directory), name=dataset.configuration, streaming=True)
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise InputError(f"cannot be read: {_reason(error)}", path=dataset.repository) from error
    return {str(split): numbered(_streamed(dataset, rows)) for split, rows in splits.items()}


def _file_rows(dataset: HubDataset, directory: Path, patterns: tuple[str, ...]) -> Iterator[Row]:
    files = [path for pattern in patterns for path in sorted(directory.glob(pattern))]
    if not files:
        raise InputError(f"has no file {' or '.join(patterns)} at {dataset.revision}", path=dataset.repository)
    number = 0
    for path in files:
        lines = partial(read_rows, max_line_bytes=MAX_PROBLEM_BYTES, is_foreign=True)
        for row in read_parquet(path) if path.suffix == _PARQUET else lines(path):
            if isinstance(row, BadRow):
                raise row.error
            number += 1
            yield Row(number, row.value)


def _streamed(dataset: HubDataset, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    datasets, pyarrow = (_require(name, dataset.repository) for name in ("datasets", "pyarrow"))
    with _silenced(datasets):
        try:
            yield from rows
        except (OSError, ValueError, TypeError, pyarrow.ArrowException, datasets.exceptions.DatasetsError) as error:
            raise InputError(f"cannot be read: {_reason(error)}", path=dataset.repository) from error


def numbered(rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Numbers rows from 1 and leaves out what is null: a table has every column in every row."""
    return (Row(number, cast("dict[str, Any]", _without_nulls(row))) for number, row in enumerate(rows, 1))


def hub_answers(address: str, timeout_seconds: float = PROBE_SECONDS) -> bool:
    """Whether anything answers at an address: any HTTP status will do."""
    answers: SimpleQueue[bool] = SimpleQueue()
    # A thread of its own, because looking up a name cannot be given a time limit.
    threading.Thread(target=lambda: answers.put(_asked(address, timeout_seconds)), daemon=True).start()
    try:
        return answers.get(timeout=timeout_seconds)
    except Empty:
        return False


def _asked(address: str, timeout_seconds: float) -> bool:
    # Imported on use: who reads a local file should not wait for all of HTTP.
    import ssl
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    try:
        urlopen(Request(address, method="HEAD"), timeout=timeout_seconds).close()
    except HTTPError as error:
        error.close()
        return True
    except URLError as error:
        # Something is there; whether its certificate is good is for the hub's client to say, which has its own list.
        return isinstance(error.reason, ssl.SSLError)
    except (OSError, ValueError, HTTPException):
        return False
    return True


def _fetch(dataset: HubDataset) -> str:
    hub = _require("huggingface_hub", dataset.repository)
    constants = _require("huggingface_hub.constants", dataset.repository)
    errors = _require("huggingface_hub.errors", dataset.repository)
    reachable = not constants.HF_HUB_OFFLINE and hub_answers(constants.ENDPOINT)
    try:
        return str(
            hub.snapshot_download(
                dataset.repository,
                repo_type="dataset",
                revision=dataset.revision,
                allow_patterns=[each for patterns in dataset.files.values() for each in patterns] or list(_FILES),
                local_files_only=not reachable,
            )
        )
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"the hub has no dataset {dataset.repository!r}, or these credentials give no access to it"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise InputError(f"the dataset {dataset.repository!r} has no revision {dataset.revision!r}") from error
    except Exception as error:  # the client lets errors of several HTTP libraries through
        if reachable:
            what = f"{dataset.repository} could not be fetched from {constants.ENDPOINT}: {_reason(error)}"
        elif constants.HF_HUB_OFFLINE:
            what = f"HF_HUB_OFFLINE is set, and {dataset.repository} is not in {constants.HF_HUB_CACHE}"
        else:
            what = f"{constants.ENDPOINT} does not answer, and {dataset.repository} is not in {constants.HF_HUB_CACHE}"
        hint = "give a local file instead (`problems` FILE), or set HF_HOME to a cache that has the dataset"
        raise ServiceError(what, hint=hint, fields=("problems",)) from error


def _require(module: str, wanted: str) -> Any:
    with _explained(wanted):
        return require(module, extra=EXTRA)


# Makes sure that `datasets` is there, without loading it: that takes a second, and files need its reader alone.
def _check_installed(wanted: str) -> None:
    with _explained(wanted):
        check(("datasets",), extra=EXTRA)


@contextmanager
def _explained(wanted: str) -> Iterator[None]:
    try:
        yield
    except MissingExtraError as error:
        hint = f"give a local .jsonl file, or: {error.hint}"
        raise MissingExtraError(f"{wanted} needs `datasets`: {error.message}", hint=hint) from error


@contextmanager
def _silenced(datasets: Any) -> Iterator[None]:
    hub_utils = require("huggingface_hub.utils", extra=EXTRA)
    shown = [each for each in (datasets, hub_utils) if not each.are_progress_bars_disabled()]
    verbosity = datasets.logging.get_verbosity()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    for each in shown:
        each.disable_progress_bars()
    try:
        yield
    finally:
        datasets.logging.set_verbosity(verbosity)
        for each in shown:
            each.enable_progress_bars()


def _without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _reason(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
