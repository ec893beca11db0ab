"""Coroutines of one process that the other process awaits.

Each process has an event loop of its own, which runs while the other process waits for it: a step of a few milliseconds
at a time, so that both loops make progress.
"""

from __future__ import annotations

from typing import Any

from sandrl.rewards.guest.mirrors import number_behind

_STEP_SECONDS = 0.002


class Loops:
    """The part of a peer that awaits and is awaited."""

    def __init__(self) -> None:
        self.loop: Any = None
        self.drivers: dict[int, Any] = {}

    def ask(self, operation: str, subject: object) -> Any:
        raise NotImplementedError

    def drive(self, mirror: Any) -> Any:
        """Awaits an awaitable object of the other side: its loop runs in turn with the one here."""
        task = self.ask("task", mirror)
        while not self.ask("step", task):
            try:
                yield
            except BaseException:
                self.ask("cancel", task)
                raise
        return self.ask("outcome", task)

    def driver(self, mirror: Any) -> Any:
        """What runs a coroutine of the other side when `send` is called here."""
        number = number_behind(mirror)
        if number not in self.drivers:
            self.drivers[number] = self.drive(mirror)
        return self.drivers[number]

    def task(self, awaitable: Any) -> Any:
        asyncio = __import__("asyncio")

        async def wait() -> object:
            return await awaitable

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
        return self.loop.create_task(wait())

    def step(self, task: Any) -> bool:
        """Runs our loop until a task is done, but not for long; returns whether it is."""
        events = __import__("asyncio").events
        outer = events._get_running_loop()
        events._set_running_loop(None)
        try:
            if not task.done():
                timer = self.loop.call_later(_STEP_SECONDS, self.loop.stop)
                task.add_done_callback(self.stop_loop)
                self.loop.run_forever()
                task.remove_done_callback(self.stop_loop)
                timer.cancel()
        finally:
            events._set_running_loop(outer)
        return bool(task.done())

    def stop_loop(self, task: object) -> None:
        self.loop.stop()

    def outcome(self, task: Any) -> object:
        return task.result()

    def cancel(self, task: Any) -> None:
        task.cancel()
        for _ in range(5):
            if self.step(task):
                return


# Modules of the standard library; before Python 3.10 the interpreter does not know them all.
