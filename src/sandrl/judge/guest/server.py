"""The completion's process in isolation: it runs the code, and then performs the judge's operations on its objects.

It never contains a check, an expected value of a check, or the code of the judge's end of the channel (`checks.py`),
which is loaded after the fork.
"""

from __future__ import annotations

import posix
import sys
from typing import Any

from sandrl.judge.guest.channel import DONE, INTERRUPT, READY, Channel
from sandrl.judge.guest.checks import judge_apart
from sandrl.judge.guest.child import blame, completion_lines, describe, finish, fresh_module, run_top_level
from sandrl.judge.guest.clock import Interruption
from sandrl.judge.guest.declarations import Libc, Request, Say, load_rest
from sandrl.judge.guest.objects import Peer
from sandrl.judge.guest.proxies import ProxyClass
from sandrl.judge.guest.supervisor import Judgment, read_hidden, start_child
from sandrl.judge.guest.world import World, put_in_place

OF_EVERY_MODULE = frozenset(
    "__name__ __package__ __loader__ __spec__ __file__ __cached__ __builtins__ __annotations__ __prelude__".split()
)


class Objects(Peer):
    """The completion's end of the channel.

    `namespace` is what the completion defined; `interruption` is how the judge ends what takes too long, if it is
    limited. It may be made in a process that forks the completion's; `pid` is that of the latter.
    """

    watches_large = True

    def __init__(self, channel: Channel) -> None:
        Peer.__init__(self, channel)
        self.namespace: dict[str, Any] = {}
        self.pid = posix.getpid()
        self.interruption: Interruption | None = None
        self.lock = __import__("_thread").RLock()
        # Global names whose values the judge has, as they were then.
        self.lent: dict[str, Any] = {}

    def answer_all(self) -> None:
        with self.lock:
            while True:
                try:
                    kind, message = self.channel.receive()
                    self.channel.take()
                except EOFError:
                    return
                if kind == DONE:
                    return
                self.serve(message)

    def ask(
        self,
        operation: str,
        subject: object,
        arguments: tuple[Any, ...] = (),
        keywords: dict[str, Any] | None = None,
    ) -> Any:
        """Has the judge do something with an object of a check; threads take turns."""
        if operation in ("get", "call") and issubclass(type(subject), ProxyClass):
            # `isinstance(file, os.PathLike)` looks into the class of a file, which is the same on both sides.
            own: Any = self.class_shown(subject)
            if own is not subject:
                return own(*arguments, **(keywords or {})) if operation == "call" else getattr(own, *arguments)
        with self.lock:
            return Peer.ask(self, operation, subject, arguments, keywords)

    def carry_out(
        self, operation: str, subject: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], replaced: Any
    ) -> object:
        if operation == "global":
            value = self.lent[arguments[0]] = self.namespace[arguments[0]]
            return ("module", value.__name__) if type(value) is type(sys) else ("value", value)
        # Meanwhile other threads of the completion may ask the judge; before and after, the channel is not theirs.
        self.lock.release()
        try:
            if self.interruption is not None:
                self.interruption.is_open = True
            return Peer.carry_out(self, operation, subject, arguments, keywords, replaced)
        finally:
            leave_in_fork(self.pid)
            if self.interruption is not None:
                self.interruption.is_open = False
            self.lock.acquire()

    def news(self) -> dict[str, Any] | None:
        missing = self.namespace
        found = {name: missing[name] for name, value in self.lent.items() if missing.get(name, value) is not value}
        self.lent.update(found)
        return found or None

    def hear(self, news: Any) -> None:
        put_in_place(news)

    def facts_of(self, error: BaseException) -> tuple[Any, ...]:
        lines = completion_lines(error)
        return error, describe(error, lines[-1] if lines else None), blame(error)

    def perform(self, operation: str, subject: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> object:
        if operation in ("get", "set", "delattr"):
            return _ATTRIBUTES[operation](subject, *arguments)
        return Peer.perform(self, operation, subject, arguments, keywords)

    def find(self, module: str, name: str) -> Any:
        found: Any = __import__(module, fromlist=("",))
        for part in name.split("."):
            found = getattr(found, part)
        return found


_ATTRIBUTES: dict[str, Any] = {"get": getattr, "set": setattr, "delattr": delattr}


def leave_in_fork(pid: int) -> None:
    """Ends a process that the completion's has forked, and that came back here: only the other speaks to the judge."""
    if posix.getpid() != pid:
        error = sys.exc_info()[1]
        code = error.code if isinstance(error, SystemExit) else int(error is not None)
        posix._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


def run_completion(request: Request, say: Say, objects: Objects) -> None:
    pid = objects.pid = posix.getpid()
    namespace = objects.namespace = fresh_module()
    if request["setup"]:
        try:
            exec(request["setup"], namespace)
        except BaseException:
            pass  # what it needs may be the completion's; the judge runs it too, and tells
    run_top_level(request, say, namespace)
    leave_in_fork(pid)
    # As the completion has left it.
    objects.world = World()
    if request["check_timeout_seconds"] is not None:
        objects.interruption = Interruption(INTERRUPT)
    # A list of them at once: a thread of the completion may add one meanwhile.
    names = [name for name in list(namespace) if type(name) is str and name not in OF_EVERY_MODULE]
    objects.channel.send(READY, "\n".join(names).encode("utf-8", "surrogatepass"))
    objects.answer_all()
    finish(say, "passed", "")


def judge_isolated(request: Request, call: Libc | None) -> Judgment:
    """Judges a completion whose checks run here, in the supervisor, against a process that never sees them."""
    to_read, their_write = posix.pipe()
    their_read, to_write = posix.pipe()

    def body(request: Request, say: Say) -> None:
        run_completion(request, say, Objects(Channel(their_read, their_write)))

    child = start_child(body, request, posix.open("/dev/null", posix.O_RDONLY), call, (their_read, their_write))
    posix.close(their_read)
    posix.close(their_write)
    load_rest()
    return judge_apart(child, Channel(to_read, to_write), request, read_hidden(request))
