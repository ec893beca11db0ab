"""One end of the channel: an operation on a proxy here is done to the object in the other process.

Both processes run this. The judge asks about the completion's objects. While the completion answers, it may ask about
objects that a check passed to it: a function, or an object of a class that the check defines.

For coroutines each process has an event loop of its own, which runs while the other process waits for it: a step of a
few milliseconds at a time, so that both loops make progress.
"""

from __future__ import annotations

from typing import Any, NoReturn

from sandrl.judge.guest.channel import ANSWER, QUESTION, Channel
from sandrl.judge.guest.containers import UNCHANGEABLE, plain_form, solid_base
from sandrl.judge.guest.crossing import Crossing
from sandrl.judge.guest.operations import LOOKING, OPERATIONS, place_among, rebuilt_signature, traceback_of
from sandrl.judge.guest.proxies import number_behind, the_peer
from sandrl.judge.guest.values import Malformed, Unsendable
from sandrl.judge.guest.world import World, put_in_place

_STEP_SECONDS = 0.002


class Peer(Crossing):
    def __init__(self, channel: Channel) -> None:
        Crossing.__init__(self)
        self.channel = channel
        # Whether the answer at hand is one to a question that changes nothing.
        self.is_looking = False
        self.world = World()
        self.loop: Any = None
        self.drivers: dict[int, Any] = {}
        the_peer[:] = [self]

    # Asking

    def ask(
        self,
        operation: str,
        subject: object,
        arguments: tuple[Any, ...] = (),
        keywords: dict[str, Any] | None = None,
    ) -> Any:
        """Has the other side do something, and returns what came of it, or raises what was raised over there."""
        keywords = keywords or {}
        pairs = tuple(keywords.items())
        answer = self.exchange(self.encode((operation, subject, arguments, pairs, self.world.changes())))
        if operation not in LOOKING:
            self.asked += 1
        self.is_looking = operation in LOOKING
        done, result, same, news = self.decode(answer)
        del answer
        if news is not None:
            self.hear(news)
        if done is not True:
            raise self.raised(result, operation)
        if same is not None:
            return arguments[same] if type(same) is int else keywords[same]
        return result

    def exchange(self, question: bytes) -> bytes:
        """Sends a question and returns its answer; questions that come before it are answered."""
        self.channel.expect()
        self.channel.send(QUESTION, question)
        del question
        while True:
            kind, message = self.channel.receive()
            self.channel.take()
            if kind == ANSWER:
                return message
            if kind != QUESTION:
                raise Malformed("neither question nor answer")
            try:
                self.serve(message)
            finally:
                self.channel.expect()

    def raised(self, facts: Any, operation: str) -> BaseException:
        error = facts[0]
        if not isinstance(error, BaseException):
            raise Malformed("no exception")
        return error

    # Answering

    def serve(self, question: bytes) -> None:
        try:
            operation, subject, arguments, pairs, replaced = self.decode(question)
            keywords = dict(pairs)
            result = self.carry_out(operation, subject, arguments, keywords, replaced)
            same = place_among(result, arguments, keywords) if operation == "call" else None
            reply = self.encode((True, None if same is not None else result, same, self.news()))
        except Unsendable as error:
            reply = self.encode((False, self.facts_of(ValueError(f"the result cannot be judged: {error}")), None, None))
        except BaseException as error:
            if self.is_internal(error):
                raise
            reply = self.reply_of_error(error)
        self.channel.send(ANSWER, reply)

    def reply_of_error(self, error: BaseException) -> bytes:
        try:
            return self.encode((False, self.facts_of(error), None, self.news()))
        except Exception:
            why = RuntimeError(f"a {type(error).__name__} that cannot be described")
            return self.encode((False, self.facts_of(why), None, None))

    def facts_of(self, error: BaseException) -> tuple[Any, ...]:
        return (error,)

    def news(self) -> dict[str, Any] | None:
        """What there is to tell besides an answer: names that were bound anew here, or the state of generators."""
        return None

    def is_instance(self, question: str, value: object, kind: Any) -> bool:
        """Whether a class of the other side with a say of its own in that takes something for one of its objects."""
        return self.ask(question, value, (kind,)) is True

    def hear(self, news: Any) -> None:
        """Takes note of what the other side has to tell besides an answer."""

    def is_internal(self, error: BaseException) -> bool:
        return False

    def carry_out(
        self, operation: str, subject: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], replaced: Any
    ) -> object:
        """Does what was asked for, in a world that is changed as that of the other side is."""
        undoing = put_in_place(replaced) if replaced else ()
        try:
            return self.perform(operation, subject, arguments, keywords)
        finally:
            for undo in reversed(undoing):
                undo()

    def perform(self, operation: str, subject: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> object:
        if operation == "call":
            return subject(*arguments, **keywords)
        if operation == "get":
            return getattr(subject, self.allowed(subject, arguments[0]))
        if operation == "set":
            setattr(subject, self.allowed(subject, arguments[0]), arguments[1])
            return None
        if operation == "delattr":
            delattr(subject, self.allowed(subject, arguments[0]))
            return None
        if operation in ("__exit__", "__aexit__") and arguments[1] is not None:
            arguments = (*arguments[:2], traceback_of(arguments[1]))
        if operation == "plain":
            return plain_form(subject, solid_base(type(subject)) or object)
        if operation in ("task", "step", "outcome", "cancel"):
            return getattr(self, operation)(subject)
        doing = OPERATIONS.get(operation)
        if doing is not None:
            return doing(subject, *arguments)
        return getattr(type(subject), operation)(subject, *arguments, **keywords)

    def allowed(self, subject: object, name: str) -> str:
        """The name of an attribute, if the other side may ask for it."""
        return name

    # Proxies

    def attribute(self, proxy: Any, name: str) -> Any:
        if name == "__signature__":
            return rebuilt_signature(self.ask("signature", proxy))
        return self.ask("get", proxy, (name,))

    def special(self, name: str, proxy: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None = None) -> Any:
        if name == "__await__":
            return self.drive(proxy)
        if name == "__call__":
            return self.ask("call", proxy, arguments, keywords)
        return self.ask(name, proxy, arguments, keywords)

    def reflected(self, name: str, proxy: Any, other: object) -> Any:
        """Applies an operator whose left operand is no proxy, or does not know the right one."""
        return self.ask(name, other, (proxy,))

    def refuse_subclass(self, name: str) -> NoReturn:
        raise TypeError(f"class {name} cannot be derived from a class of another process")

    def refreshed(self, proxy: Any, solid: Any) -> Any:
        number = number_behind(proxy)
        if solid not in UNCHANGEABLE and self.fresh.get(number) != self.asked:
            self.fill(proxy, solid, self.ask("plain", proxy))
        return proxy

    # Awaiting

    def drive(self, proxy: Any) -> Any:
        """Awaits an awaitable object of the other side: its loop runs in turn with the one here."""
        task = self.ask("task", proxy)
        while not self.ask("step", task):
            try:
                yield
            except BaseException:
                self.ask("cancel", task)
                raise
        return self.ask("outcome", task)

    def driver(self, proxy: Any) -> Any:
        """What runs a coroutine of the other side when `send` is called here."""
        number = number_behind(proxy)
        if number not in self.drivers:
            self.drivers[number] = self.drive(proxy)
        return self.drivers[number]

    def task(self, awaitable: Any) -> Any:
        asyncio = __import__("asyncio")

        async def wait() -> object:
            return await awaitable

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
        return self.loop.create_task(wait())

    def step(self, task: Any) -> bool:
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
