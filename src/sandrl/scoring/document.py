"""Scores as JSON, with the fields of the documented contract.

The contract is written out here field by field and is not derived from the dataclasses, because those may change and
the contract may not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import ValidationError

from sandrl.bounds import finite
from sandrl.events.results import CheckVerdict, Isolation, ScoredCompletion
from sandrl.runs.summary import Summary, pass_at_document
from sandrl.scoring.records import result_adapter
from sandrl.scoring.summary import ScoreReport, outcome_of


def result_document(result: ScoredCompletion) -> dict[str, Any]:
    """One result; with its components and its second opinion only where asked for, and a time of compilation if any."""
    document: dict[str, Any] = {
        **outcome_of(result),
        "duration_seconds": round(result.duration_seconds, 4),
        "sandbox_id": result.sandbox_id,
        "isolation": None if result.isolation is None else result.isolation.value,
        "detail": result.detail,
        "checks": [_check_document(check) for check in result.checks],
    }
    if result.finish_reason is not None:
        document["finish_reason"] = result.finish_reason
    if result.image:
        document["image"] = result.image
    if result.compile_seconds:
        document["compile_seconds"] = round(result.compile_seconds, 4)
    if result.components:
        document["components"] = dict(result.components)
    if result.scores:
        document["scores"] = dict(result.scores)
    if result.verifier_failures:
        document["verifier_failures"] = result.verifier_failures
    if result.hash_seeds:
        document["hash_seeds"] = dict(result.hash_seeds)
    if result.second_opinion is not None:
        opinion = result.second_opinion
        document["second_opinion"] = {"status": opinion.status.value, "detail": opinion.detail}
    return document


def result_of_document(document: Mapping[str, Any], index: int) -> ScoredCompletion:
    """The result that a document of `result_document` stands for, as a service has sent it.

    Raises:
        ValueError: If it is no such document.
    """
    isolation = document.get("isolation")
    how = {
        "index": index,
        "sandboxes": int(isolation is not None),
        "cells": int(isolation == Isolation.CELL),
        "cached": isolation is None and document.get("trust") is not None,
    }
    try:
        told = {name: document[name] for name in _REQUIRED}
        told |= {name: document[name] for name in _OPTIONAL if name in document}
        return result_adapter().validate_python({**told, **how})
    except KeyError as error:
        raise ValueError(f"is not a result of a completion: no {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"is not a result of a completion: {where}: {first['msg']}") from error


# What the document of each completion has, and what some have, of which a result is made.
_REQUIRED = (
    *("id", "task_id", "reward", "status", "trust", "passed", "total", "duration_seconds", "sandbox_id", "detail"),
    "checks",
)
_OPTIONAL = ("isolation", "components", "compile_seconds", "finish_reason", "image", "scores", "verifier_failures")


def _check_document(check: CheckVerdict) -> dict[str, Any]:
    document: dict[str, Any] = {"status": check.status.value, "detail": check.detail}
    if check.name:
        document["name"] = check.name
    told = {name: getattr(check, name) for name in _OPTIONAL_OF_CHECK}
    return {**document, **{name: value for name, value in told.items() if value is not None}}


# Only where it is known.
_OPTIONAL_OF_CHECK = ("score", "got", "expected", "line")


def report_document(report: ScoreReport) -> dict[str, Any]:
    return {
        "job_id": report.job_id,
        "results": [result_document(result) for result in report.results],
        "summary": {
            **summary_document(report.summary),
            **({} if report.held is None else report.held.document()),
        },
    }


def summary_document(summary: Summary) -> dict[str, Any]:
    return {
        "n": summary.n,
        "scored": summary.scored,
        "unscorable": summary.unscorable,
        **({"abstained": summary.abstained} if summary.abstained else {}),
        "total_reward": summary.total_reward,
        "pass_rate": summary.pass_rate,
        **pass_at_document(summary.pass_at),
        "isolation": summary.isolation,
        **({} if summary.truncated_share is None else {"truncated_answers": summary.truncated_answers}),
        **_counts(summary),
        **({} if summary.hash_seed_dependent is None else {"hash_seed_dependent": summary.hash_seed_dependent}),
        **opinions_document(summary),
    }


def opinions_document(summary: Summary) -> dict[str, Any]:
    """What the second opinions amount to; nothing where none were to be asked for."""
    totals = summary.second_opinion
    return {} if totals is None else {"second_opinion": asdict(totals)}


def _counts(summary: Summary) -> dict[str, Any]:
    # Only where that is another number than one for each completion with code.
    if summary.executions == summary.n - summary.no_code and not summary.canaries:
        return {}
    counts = {
        "executed": summary.executed,
        "cache_hits": summary.cache_hits,
        "no_code": summary.no_code,
        "executions": summary.executions,
        "retries": summary.retries,
        "reruns": summary.reruns,
        "canaries": summary.canaries,
    }
    return {"counts": counts}


def to_line(document: dict[str, Any]) -> bytes:
    """A document as one line of a JSONL file, without its line break."""
    # ASCII, because what a model wrote may hold lone surrogates, which UTF-8 cannot carry.
    return json.dumps(finite(document), ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
