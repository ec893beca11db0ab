"""Evaluation of a model: the model answers the problems, and its answers are saved and scored like any completion."""

from sandrl.evaluation.request import EvalRequest, EvalRun
from sandrl.evaluation.resume import make_request
from sandrl.evaluation.run import run_eval

__all__ = ["EvalRequest", "EvalRun", "make_request", "run_eval"]
