"""Time limits: of a whole completion, and of a single check of it.

A limit is time in which the completion could run. Time that it waited for a processor, or that the host of a virtual
machine took the processor from it, and time in which nothing ran (a frozen sandbox, a suspended machine), does not
count. Three rules keep a completion from gaining by this. All processor time of its processes counts, so threads that
wait for each other gain nothing. If a process of the sandbox continued the judge after a stop, the completion did: that
time counts. And after `LONGEST` times the limit by the clock, the time is over in any case, frozen time excepted.

Who stopped a process of the completion is not known. Such a stop and a frozen sandbox are noted: the host runs a
completion once more that exceeds a limit after the one, or fails after the other.

One kernel timer ticks while a completion runs. Its signal raises when the time is over, so no other code has to check
the time.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
from time import monotonic, process_time
from typing import Any

from sandrl.judge.guest.descriptors import DeadlineReached

# How many times the limit a completion may run by the clock. The host allows for it.
LONGEST = 4.0
# The exit status of a judge whose completion did not pass, perhaps because of a stop.
STOPPED = 75
TICK_SECONDS = 0.5
# A tick that comes so much too late shows that this process was frozen; one among many waits less for its turn.
GAP_SECONDS = 1.0
# To look costs 0.1 ms, which what takes less than this is not worth; nor is less than a share of a limit.
LOOKED_AGAIN_SECONDS = 0.05
SHARE_OF_LIMIT = 0.05
PROCESSES_LOOKED_AT = 2000
# The code of a signal that `kill` sent.
SENT_BY_KILL = 0


def read_start(path: str | bytes) -> bytes:
    """The first 1,000 bytes of a file of the kernel; none if it is gone."""
    try:
        descriptor = posix.open(path, posix.O_RDONLY)
    except OSError:
        return b""
    try:
        return posix.read(descriptor, 1000)
    except OSError:
        return b""
    finally:
        posix.close(descriptor)


def read_numbers(path: str) -> list[bytes]:
    """The words of a file of the kernel, after the name of a program if there is one; none if it is gone."""
    return read_start(path).rpartition(b")")[2].split()


def account_of(path: str) -> tuple[float, float]:
    """Seconds a thread ran, and those it was ready to run but got no processor; zeros where no account is kept."""
    words = read_numbers(path + "/schedstat")
    return (int(words[0]) / 1e9, int(words[1]) / 1e9) if len(words) == 3 else (0.0, 0.0)


def times_of_machine() -> tuple[int, int]:
    """Ticks that the processors of the machine have worked, and that its host took from them while they had work.

    Zeros where the kernel does not say so. See `/proc/stat` in proc(5): user, nice, system, idle, iowait, irq, softirq,
    steal.
    """
    words = read_start("/proc/stat").partition(b"\n")[0].split()
    if len(words) < 9 or words[0] != b"cpu":
        return 0, 0
    user, nice, system, _, _, irq, softirq, steal = [int(word) for word in words[1:9]]
    return user + nice + system + irq + softirq, steal


class Account:
    """What the kernel says of the processes of a completion, by its session, and of this one that judges it."""

    def __init__(self, session: int) -> None:
        self.session = b"%d" % session
        self.own = "" if session == posix.getpid() else f"/proc/{posix.getpid()}"
        self.clock_ticks = posix.sysconf("SC_CLK_TCK")
        self.waited: dict[str, float] = {}
        cpu, waited = account_of(self.own) if self.own else (0.0, 0.0)
        self.cpu, self.cpu_before = 0.0, cpu
        self.waited_before = -waited
        self.machine: tuple[int, int] | None = None
        self.cpu_then = self.stolen = 0.0

    def look(self) -> float:
        """Reads everything anew; returns the seconds that all threads together waited for a processor, or lost it."""
        cpu, waited = -self.cpu_before, {}
        if self.own:
            ran, waited[self.own] = account_of(self.own)
            cpu += ran
        try:
            numbers = [name for name in posix.listdir("/proc") if name.isdigit()]
        except OSError:
            numbers = []
        for number in numbers[:PROCESSES_LOOKED_AT]:
            words = read_numbers(f"/proc/{number}/stat")
            if len(words) > 14 and words[3] == self.session:
                if words[0] == b"T":
                    Clock.saw_stop = True
                of_threads = self.threads_of(number)
                waited.update({path: seconds for path, (_, seconds) in of_threads.items()})
                user, system, children_user, children_system = [int(word) / self.clock_ticks for word in words[11:15]]
                # The sum of the threads is exact, but has only those that are left.
                cpu += max(user + system, sum([ran for ran, _ in of_threads.values()]))
                cpu += children_user + children_system
        for path, seconds in self.waited.items():
            # What a thread waited that is gone, or whose number another one has now.
            if waited.get(path, -1.0) < seconds:
                self.waited_before += seconds
        self.waited = waited
        self.cpu = max(self.cpu, cpu)
        # To read it takes a millisecond on a machine with many processors: not before a completion has run for a while.
        if self.machine is None or self.cpu - self.cpu_then > LOOKED_AGAIN_SECONDS:
            self.count_stolen()
        return self.waited_before + sum(waited.values()) + self.stolen

    def count_stolen(self) -> None:
        """Adds the time that the host took from the completion's threads while they ran.

        The kernel counts it neither as run nor as waited. A thread loses as much for each
        second that it runs as the machine does for each that it works, so one that sleeps loses nothing.
        """
        before, self.machine = self.machine, times_of_machine()
        ran, self.cpu_then = self.cpu - self.cpu_then, self.cpu
        if before is not None:
            worked, stolen = self.machine[0] - before[0], self.machine[1] - before[1]
            if worked > 0 and stolen > 0:
                self.stolen += ran * stolen / worked

    @property
    def own_waited(self) -> float:
        return self.waited.get(self.own, 0.0)

    def threads_of(self, number: str) -> dict[str, tuple[float, float]]:
        try:
            threads = posix.listdir(f"/proc/{number}/task")
        except OSError:
            return {}
        paths = [f"/proc/{number}/task/{thread}" for thread in threads[:PROCESSES_LOOKED_AT]]
        return {path: account_of(path) for path in paths}


class Limit:
    """How much of a time limit is used, and the processor time that had been used before it."""

    def __init__(self, seconds: float, cpu: float = 0.0) -> None:
        self.seconds = seconds
        self.wall = 0.0
        self.excused = 0.0
        self.frozen = 0.0
        self.cpu_before = cpu

    def left(self, wall: float, cpu: float) -> float:
        """Seconds that are left, after `wall` more by the clock and `cpu` of processor time in all."""
        wall += self.wall
        if wall - self.frozen >= self.seconds * LONGEST:
            return 0.0
        if wall < self.seconds:
            return self.seconds - wall
        return self.seconds - max(wall - self.excused, cpu - self.cpu_before)


class Clock:
    """What is left of a completion's time; `left` is not kept up to date while the clock runs."""

    running: Clock | None = None
    # Whether a process of the completion could continue this one after a stop.
    is_reachable = True
    # Whether a process of the completion was seen stopped, at any time, and whether all stood still.
    saw_stop = stood_still = False

    def __init__(self, seconds: float, session: int) -> None:
        self.account = Account(session)
        self.limits = [Limit(seconds)]
        self.left = seconds
        self.wall = 0.0
        self.began = self.looked = self.due = self.worked = 0.0
        self.seen = -LOOKED_AGAIN_SECONDS
        self.unlooked = 0.0
        self.waited = 0.0
        self.gap = 0.0
        self.is_over = False

    @property
    def excused(self) -> float:
        return self.limits[0].excused

    def start(self, most: float | None = None) -> None:
        """Has `DeadlineReached` raised when the time, or `most` seconds of it, are over; at once if they are.

        What was run or waited for since the account was last brought up to date counts for `most` as if it came
        after this, so the account may only be as old as makes no difference to that limit.
        """
        age = monotonic() - self.seen
        if self.left <= 0 or (most is not None and age >= min(LOOKED_AGAIN_SECONDS, SHARE_OF_LIMIT * most)):
            self.look(0.0)
        if most is not None:
            self.limits.append(Limit(most, self.account.cpu))
        self.began = self.looked = monotonic()
        Clock.running = self
        self.arm(0.0)

    def stop(self) -> None:
        Clock.running = None
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        if not self.began:
            return
        now = monotonic()
        self.unlooked += now - self.looked
        self.wall += now - self.began
        self.limits[0].wall = self.wall
        if not self.is_over:
            self.left = max(self.limits[0].left(0.0, self.account.cpu), 0.0)
        self.began, self.gap = 0.0, 0.0
        del self.limits[1:]

    def give(self, seconds: float, most: float) -> None:
        """Adds to the time, while the clock stands; all of it becomes `most` at the most."""
        seconds = min(seconds, most - self.limits[0].seconds)
        if seconds > 0 and not self.is_over:
            self.limits[0].seconds += seconds
            self.left += seconds

    def look_again(self) -> None:
        """Brings the account up to date before a process is waited for, which ends the kernel's account of it."""
        now = monotonic()
        if now - self.looked > LOOKED_AGAIN_SECONDS:
            self.look(now - self.looked)
            self.looked = now

    def look(self, wall: float) -> None:
        """Brings the account up to date, `wall` seconds of the running clock after the last time."""
        self.excuse(self.account.look() - self.waited, wall)
        self.unlooked = 0.0
        self.seen = monotonic()

    def excuse(self, waited: float, wall: float) -> None:
        self.waited += waited
        seconds = max(waited, self.gap)
        self.limits[0].excused += min(seconds, self.unlooked + wall)
        for limit in self.limits:
            limit.frozen += self.gap
        for limit in self.limits[1:]:
            limit.excused += min(seconds, wall)
        self.gap = 0.0

    def tick(self) -> None:
        now = monotonic()
        late = now - self.due
        if late < 0:
            # A signal that another process sent.
            _signal.setitimer(_signal.ITIMER_REAL, 0.001 - late)
            return
        waited = self.account.own_waited
        # A long step of the judge's own, such as a comparison of large values, is interrupted by no signal.
        late -= process_time() - self.worked
        if late > GAP_SECONDS and not was_continued_by(self.account.session):
            self.gap = late
        gap = self.gap
        self.look(now - self.looked)
        if gap > GAP_SECONDS + self.account.own_waited - waited:
            Clock.stood_still = True
        self.looked = now
        self.arm(now - self.began)

    def arm(self, wall: float) -> None:
        """Sets the timer to the next tick or the end of the time; `DeadlineReached` if that is over."""
        left = [limit.left(wall, self.account.cpu) for limit in self.limits]
        if min(left) <= 0:
            Clock.running = None
            if left[0] <= 0:
                self.left, self.is_over = 0.0, True
            raise DeadlineReached
        seconds = max(min(TICK_SECONDS, *left), 0.001)
        self.due = monotonic() + seconds
        self.worked = process_time()
        _signal.setitimer(_signal.ITIMER_REAL, seconds)


def is_running() -> bool:
    """Whether a clock runs whose time is not over: who catches everything catches its exception, too."""
    return Clock.running is not None


def was_continued_by(process: bytes) -> bool:
    """Whether a completion may have continued this process since the last time, after a stop.

    Process 1 of a sandbox can be stopped from outside alone, and so can a process of another user. Any other blocks
    SIGCONT, which continues it all the same. A sender outside its process namespace has the number 0. A process within
    can send any number by `sigqueue`, but no code of `kill`. It can also use up the room for what the kernel keeps of a
    signal; then the user is 0, too.
    """
    users = read_start(b"/proc/%s/status" % process).partition(b"\nUid:")[2].split()[:4]
    if not Clock.is_reachable or posix.getpid() == 1 or (users and b"%d" % posix.getuid() not in users):
        return False
    sent = _signal.sigtimedwait((_signal.SIGCONT,), 0)
    return sent is not None and not (sent.si_code == SENT_BY_KILL and sent.si_pid == 0 and sent.si_uid != 0)


def listen() -> None:
    def on_alarm(number: int, frame: Any) -> None:
        clock = Clock.running
        if clock is not None:
            try:
                clock.tick()
            except (RecursionError, MemoryError):
                # What the signal interrupted has left no room to look.
                _signal.setitimer(_signal.ITIMER_REAL, 0.01)

    _signal.signal(_signal.SIGALRM, on_alarm)


class Interruption:
    """Raises `DeadlineReached` on a signal while it is open, and swallows the signal otherwise."""

    def __init__(self, number: int) -> None:
        self.is_open = False
        _signal.signal(number, self.on_signal)

    def on_signal(self, number: int, frame: Any) -> None:
        if self.is_open:
            self.is_open = False
            raise DeadlineReached


def too_long(seconds: float) -> str:
    return f"it ran longer than {round(seconds, 3):g} s"
