"""What happened since it was last asked, in all processes together.

The design decision: an `Emit` that keeps the events that metrics are counted from. Processes put theirs together only
when all of them ask, which they do when the trainer logs a step: there they stand at the same place anyway.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from sandrl.events import CompletionFinished, Event, ExecutionFinished, OpinionFinished, RewardCallFinished
from sandrl.runs import completion_metrics, execution_metrics, opinion_metrics
from sandrl.trainers.processes import Processes


@dataclass(frozen=True, slots=True)
class Counted:
    """Events of all processes, those of one process after those of another, in the order of their ranks.

    Attributes:
        completions: Completions with their results.
        executions: Commands in sandboxes.
        calls: Answered calls for rewards, those of the processes put together.
        opinions: Second opinions on failed completions.
    """

    completions: tuple[CompletionFinished, ...]
    executions: tuple[ExecutionFinished, ...]
    calls: tuple[RewardCallFinished, ...]
    opinions: tuple[OpinionFinished, ...] = ()

    @property
    def metrics(self) -> dict[str, float | None]:
        """Their metrics."""
        return {
            **completion_metrics(self.completions),
            **opinion_metrics([each.opinion for each in self.opinions]),
            **execution_metrics(self.executions),
        }


class Tally:
    """Keeps events until it is asked for them.

    Args:
        processes: Those that train together.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Keeps an event, if it is one that metrics are counted from."""
        if isinstance(event, CompletionFinished | ExecutionFinished | OpinionFinished | RewardCallFinished):
            with self._lock:
                self._events.append(event)

    def take(self) -> Counted:
        """The events since this was last asked, of all processes; all of them must ask."""
        with self._lock:
            events, self._events = self._events, []
        events = self._processes.gather(events)
        return Counted(
            tuple(event for event in events if isinstance(event, CompletionFinished)),
            tuple(event for event in events if isinstance(event, ExecutionFinished)),
            put_together([event for event in events if isinstance(event, RewardCallFinished)]),
            tuple(event for event in events if isinstance(event, OpinionFinished)),
        )


def put_together(calls: Sequence[RewardCallFinished]) -> tuple[RewardCallFinished, ...]:
    """Calls of several processes: those of the same number are parts of one."""
    together = []
    for number in sorted({call.number for call in calls}):
        parts = [call for call in calls if call.number == number]
        together.append(
            RewardCallFinished(
                number=number,
                completions=sum(part.completions for part in parts),
                sandboxes=sum(part.sandboxes for part in parts),
                passed=sum(part.passed for part in parts),
                judged=sum(part.judged for part in parts),
                no_code=sum(part.no_code for part in parts),
                cached=sum(part.cached for part in parts),
                unscorable=sum(part.unscorable for part in parts),
                seconds=max(part.seconds for part in parts),
                second_opinions=sum(part.second_opinions for part in parts),
                disagreements=sum(part.disagreements for part in parts),
            )
        )
    return tuple(together)
