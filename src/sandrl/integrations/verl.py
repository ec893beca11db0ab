"""A custom reward function for verl: `custom_reward_function.path=pkg://sandrl.integrations.verl`.

The function has three forms, because verl's reward managers call it in three ways. `compute_score_async` is for `naive`
and `rate_limited`, which run a plain function in a limited thread pool; `compute_score` is for `remote`, which accepts
no coroutine function; `compute_scores` is for managers that pass a batch. Every result has the same keys, because verl
makes an array of each key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandrl.errors import UsageError
from sandrl.events.results import ScoredCompletion
from sandrl.integrations.backend import scored
from sandrl.integrations.request import RewardRequest, metrics_of

_OF_VERL = frozenset({"reward_router_address", "reward_model_tokenizer"})
"""Additional arguments of reward managers that use a reward model."""

_PROMPTS = ("prompt", "question", "problem")


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Scores a completion, as verl calls a custom reward function.

    Args:
        data_source: The source set of the row; not used.
        solution_str: The model's answer.
        ground_truth: The name of a problem of `problems`; tests like {"inputs": …, "outputs": …, "fn_name": …} or
            {"assert_case": …}; or a row in any format of a file. Tests and rows may be JSON text.
        extra_info: The row's own; its `prompt`, `question` or `problem` is used as the prompt.
        options: The entries of `custom_reward_function.reward_kwargs`: `problems` (a set, as `--problems` takes it),
            `service` and `token`, or `sandboxes` (fields of a `SandboxRequest`), `unscorable` ('raise', or the number
            that a completion without a reward gets), and the options of scoring: `reward`, `timeout_seconds`, ….

    Returns:
        `score`, and for verl's metrics `acc` (whether every check passed), `checks_passed` (their share), `unscorable`
        and `status`.

    Raises:
        UsageError: If an option is impossible, or sandboxes cannot judge the problem.
        InputError: If the ground truth is not a valid problem.
        InfrastructureError: If the completion has no reward, and `unscorable` is 'raise'.
        ServiceError: If there is no runtime, or the service does not answer.
    """
    request = _request(options)
    return _document(request, request.submit(ground_truth, solution_str, _prompt(extra_info)).result())


async def compute_score_async(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Scores a completion without a thread that waits for it; see `compute_score`."""
    request = _request(options)
    problem = request.problem(ground_truth, _prompt(extra_info))
    return _document(request, await scored(request.backend, problem, solution_str, request.scoring))


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[object],
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Scores a batch; for its columns, each of N values, see `compute_score`.

    Returns:
        N results, in the order of the rows.

    Raises:
        UsageError: If the columns are not of one length.
    """
    infos = [None] * len(solution_strs) if extra_infos is None else list(extra_infos)
    if not len(solution_strs) == len(ground_truths) == len(infos):
        raise UsageError("solution_strs, ground_truths and extra_infos must have the same length")
    request = _request(options)
    rows = zip(ground_truths, solution_strs, map(_prompt, infos), strict=True)
    futures = [request.submit(*row) for row in rows]
    return [_document(request, future.result()) for future in futures]


def _request(options: Mapping[str, Any]) -> RewardRequest:
    return RewardRequest.of({name: value for name, value in options.items() if name not in _OF_VERL})


def _prompt(extra_info: Mapping[str, Any] | None) -> str:
    found = (extra_info.get(name) for name in _PROMPTS) if isinstance(extra_info, Mapping) else ()
    return next((each for each in found if isinstance(each, str) and each), "")


def _document(request: RewardRequest, result: ScoredCompletion) -> dict[str, Any]:
    metrics = metrics_of(result)
    score = request.reward(result)
    return {"score": score, "acc": metrics.pop("passed"), **metrics, "status": result.status.value}
