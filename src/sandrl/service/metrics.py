"""The counters of a service, for Prometheus.

Labels have values from closed sets only (routes of the service, statuses), so no text from a client is in a label.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sandrl.events import (
    CanaryFinished,
    Event,
    ExecutionFinished,
    RetryScheduled,
    SandboxCreated,
    SandboxStopped,
)
from sandrl.events.results import ScoredCompletion

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class ServiceMetrics:
    def __init__(self, waiting: Callable[[], float], in_flight: Callable[[], float]) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter("sandrl_requests", "Answered requests.", ["route", "status"], registry=registry)
        self.request_seconds = Histogram(
            "sandrl_request_seconds",
            "Time from a request to its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.rewards = Counter("sandrl_rewards", "Scored completions.", ["status"], registry=registry)
        self.completion_seconds = Histogram(
            "sandrl_completion_seconds",
            "Time from the submission of a completion to its verdict.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.cache_hits = Counter(
            "sandrl_cache_hits", "Completions that received the verdict of an identical completion.", registry=registry
        )
        self.programs = Counter("sandrl_programs", "Programs that were run.", ["status"], registry=registry)
        self.executions = Counter("sandrl_executions", "Executions in sandboxes.", ["outcome"], registry=registry)
        self.retries = Counter(
            "sandrl_retries", "Executions after an execution whose sandbox failed.", registry=registry
        )
        self.canaries = Counter(
            "sandrl_canaries",
            "Runs of a known-good program to determine the cause of a failure.",
            ["passed"],
            registry=registry,
        )
        self.sandboxes = Gauge("sandrl_sandboxes", "Existing sandboxes.", registry=registry)
        self.sandboxes_created = Counter("sandrl_sandboxes_created", "Sandboxes that were created.", registry=registry)
        queue = Gauge("sandrl_queue", "Waiting completions and programs.", registry=registry)
        queue.set_function(waiting)
        running = Gauge("sandrl_in_flight", "Completions and programs in execution.", registry=registry)
        running.set_function(in_flight)

    def told(self, event: Event) -> None:
        match event:
            case ExecutionFinished(outcome=outcome):
                self.executions.labels(outcome).inc()
            case RetryScheduled():
                self.retries.inc()
            case CanaryFinished(passed=passed):
                self.canaries.labels(str(passed).lower()).inc()
            case SandboxCreated():
                self.sandboxes.inc()
                self.sandboxes_created.inc()
            case SandboxStopped():
                self.sandboxes.dec()

    def scored(self, result: ScoredCompletion) -> None:
        self.rewards.labels(result.status.value).inc()
        self.completion_seconds.observe(result.duration_seconds)
        if result.cached:
            self.cache_hits.inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)
