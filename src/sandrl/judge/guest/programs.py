"""Judges a program in a language other than Python: compiles it, and runs the result.

Between two runs the program is in this process's memory, which no other process can reach. Each run has directories of
its own, with a fresh copy of the program, and what a run left elsewhere is removed before the next one (`baseline.py`).
So each run starts from the same state, even if the run before it changed its files, its home, or its own program. The
compiler, which reads hostile text, is a child like any other, with a time limit of its own.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
from collections.abc import Callable

from sandrl.judge.guest.baseline import Baseline, end_descendants
from sandrl.judge.guest.cases import Comparison, files_of_case, judge_cases, stdin_of_case, take_output
from sandrl.judge.guest.child import ROOM_FOR_STACKS_BYTES, describe, to_hex
from sandrl.judge.guest.clock import read_start
from sandrl.judge.guest.declarations import Libc, Plan, Request, Say
from sandrl.judge.guest.descriptors import head, read_exactly, scratch_file, write_all
from sandrl.judge.guest.places import remove_all
from sandrl.judge.guest.script import judge_program
from sandrl.judge.guest.supervisor import ChildExit, Judgment, Times, become_reaper, filled, from_hex, run_child

SEARCHED_FIRST = "/usr/bin:/bin"
# The values of LD_LIBRARY_PATH in the images of the local runtime; those of other images stay.
LIBRARIES_OF_PYTHON = ("/usr/local/lib", "/run/sandrl/lib", "/run/sandrl/lib:/usr/local/lib")
LEAST_MEMORY_BYTES = 32 << 20  # without which a virtual machine does not start
SHARE_OF_MEMORY = 0.6  # that a virtual machine may use for objects; its code and its threads need the rest
FILE_BYTES_OF_COMPILER = 64 << 20
MOST_PROGRAM_BYTES, MOST_PROGRAM_FILES = 128 << 20, 4000
RLIMIT_STACK = 3
MOST_DEPTH = 100
UNSTARTED = 126
LINE_CHARACTERS = 200
# Signals that Python ignores, and what it starts would then.
SIGPIPE, SIGXFSZ = 13, 25
# The signal of a process that aborts itself.
SIGABRT = 6
# What compilers say that were not given what they need.
OUT_OF_ROOM = tuple(
    b"Killed signal terminated,out of memory,Cannot allocate memory,OutOfMemoryError,signal: killed,memory exhausted,"
    b"No space left on device,File size limit,heap limit".split(b",")
)


class Place:
    """The directories of one run: where it runs, and its home."""

    # The directory that the latest ones are in.
    latest = "/"

    def __init__(self) -> None:
        self.name = Place.latest = f"/tmp/.{posix.urandom(12).hex()}"
        self.work, self.home = self.name + "/work", self.name + "/home"
        for path, mode in ((self.name, 0o755), (self.work, 0o777), (self.home, 0o777)):
            posix.mkdir(path, mode)
            # Root runs the program as nobody.
            posix.chmod(path, mode)

    def write(self, files: list[tuple[str, int, bytes]]) -> None:
        for name, mode, content in files:
            path = self.work
            for folder in name.split("/")[:-1]:
                path += "/" + folder
                make_directory(path)
            descriptor = posix.open(f"{self.work}/{name}", posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, mode)
            try:
                write_all(descriptor, content)
            finally:
                posix.close(descriptor)

    def remove(self) -> None:
        remove_all(self.name)


def make_directory(path: str) -> None:
    try:
        posix.mkdir(path, 0o755)
    except FileExistsError:
        pass


class TooLarge(Exception):
    """What a compiler wrote is more than a program."""


def read_files(directory: str, prefix: str = "", depth: int = 0) -> list[tuple[str, int, bytes]]:
    """The names, modes and contents of the files in a directory, without links; `TooLarge` if they are too large."""
    files: list[tuple[str, int, bytes]] = []
    with posix.scandir(directory) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False) and depth < MOST_DEPTH:
                files += read_files(f"{directory}/{entry.name}", f"{prefix}{entry.name}/", depth + 1)
            elif entry.is_file(follow_symlinks=False):
                mode = entry.stat(follow_symlinks=False).st_mode & 0o555
                flags = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK
                descriptor = posix.open(f"{directory}/{entry.name}", flags)
                content, size = head(descriptor, MOST_PROGRAM_BYTES)
                posix.close(descriptor)
                if size > MOST_PROGRAM_BYTES:
                    raise TooLarge
                files.append((prefix + entry.name, mode | 0o444, content))
            if len(files) > MOST_PROGRAM_FILES or sum([len(content) for _, _, content in files]) > MOST_PROGRAM_BYTES:
                raise TooLarge
    return files


def limits_on(name: str) -> tuple[int | None, int | None]:
    """The soft and the hard limit of this process with a name of the kernel's; None where it has none."""
    words = read_start("/proc/self/limits").partition(b"\nMax %s " % name.encode())[2].split()
    soft, hard = [int(word) if word.isdigit() else None for word in [*words[:2], b"", b""][:2]]
    return soft, hard


def memory_bytes() -> int:
    """The memory that all processes of this sandbox may use together, as far as it can be found out."""
    found = []
    soft, _ = limits_on("data size")
    if soft is not None:
        found.append(soft - ROOM_FOR_STACKS_BYTES)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        word = read_start(path).strip()
        if word.isdigit():
            found.append(int(word))
    words = read_start("/proc/meminfo").split()
    if len(words) > 1 and words[1].isdigit():
        found.append(int(words[1]) * 1024)
    return min([size for size in found if size > 0] or [1 << 29])


def environment_of(plan: Plan, place: Place) -> dict[str, str]:
    """The variables of a program: those of the image, and those that make it run alike everywhere."""
    given = posix.environ.items()
    environment = {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in given}
    if environment.get("LD_LIBRARY_PATH") in LIBRARIES_OF_PYTHON:
        del environment["LD_LIBRARY_PATH"]  # programs of other languages must not load its libraries
    searched = environment.get("PATH", "")
    environment["PATH"] = f"{SEARCHED_FIRST}:{searched}" if searched else SEARCHED_FIRST
    environment.update({"HOME": place.home, "TMPDIR": place.home, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"})
    environment.update(plan["environment"])
    return environment


def find_command(name: str, searched: str) -> str | None:
    if "/" in name:
        return name
    for folder in searched.split(":"):
        path = f"{folder or '.'}/{name}"
        if posix.access(path, posix.X_OK):
            return path
    return None


def enlarge_stack(call: Libc) -> None:
    """Lifts the limit of the stack as far as it goes; threads get the size that is usual without one."""
    _, hard = limits_on("stack size")
    most = (1 << 64) - 1 if hard is None else hard
    call("setrlimit", RLIMIT_STACK, most.to_bytes(8, "little") * 2)


def starter(
    plan: Plan, command: list[str], place: Place, call: Libc | None, most: int | None = None
) -> Callable[[Request, Say], object]:
    """The body of a child that becomes a command; a virtual machine may use `most` bytes for objects."""
    size = int(memory_bytes() * SHARE_OF_MEMORY)
    memory = str((size if most is None else min(size, max(most, LEAST_MEMORY_BYTES))) >> 20)
    words = [word.replace("{memory}", memory) for word in command]

    def body(request: Request, say: Say) -> object:
        why = ": command not found"
        try:
            posix.chdir(place.work)
            environment = environment_of(plan, place)
            path = find_command(words[0], environment["PATH"])
            if path is not None:
                if plan["has_large_stack"] and call is not None:
                    enlarge_stack(call)
                for number in (SIGPIPE, SIGXFSZ):
                    _signal.signal(number, _signal.SIG_DFL)
                posix.execve(path, words, environment)
        except (OSError, ValueError) as error:
            why = " cannot be started: " + describe(error)
        say(b"end unstarted %s\n" % to_hex(words[0] + why).encode())
        posix._exit(UNSTARTED)

    return body


def judge_exit(ended: ChildExit, exit_status: int, last: list[bytes]) -> tuple[str, str]:
    # Nothing but the child before it became the program can write there.
    if last[:2] == [b"end", b"unstarted"]:
        return "invalid_problem", from_hex(last[2])
    said = telling_lines(ended, 1)
    return "failed", f"it exited with status {exit_status}" + (f": {said}" if said else "")


def telling_lines(ended: ChildExit, most: int) -> str:
    """The lines, one or some, of what a program or a compiler printed that say most about why it ended.

    A line that names the directory of its run does so in other words in every run; here it does not name it.
    """
    for descriptor in (ended.stderr, ended.stdout) if most > 1 else (ended.stderr,):
        printed, _ = head(descriptor, 1 << 16)
        text = printed.decode("utf-8", "replace").replace(Place.latest + "/work/", "").replace(Place.latest, "")
        lines = [" ".join(line.split()) for line in text.split("\n")]
        # Lines that a compiler draws below others are no words.
        lines = [line for line in lines if any(map(str.isalnum, line)) and not line.startswith("# ")]
        if lines:
            marks = ("error", "undefined reference", "exception", "panic", "assert", "failed")
            telling = [number for number, line in enumerate(lines) if any(mark in line.lower() for mark in marks)]
            first = telling[0] if telling else 0
            return " | ".join([line[:LINE_CHARACTERS] for line in lines[first : first + most]])
    return ""


class Program:
    """A program: built once, run any number of times.

    `compiler` is how the compiler ended, None where nothing is compiled; `compile_seconds`, without what does not
    count.
    """

    def __init__(self, plan: Plan, request: Request, baseline: Baseline) -> None:
        self.plan = plan
        self.request = request
        self.baseline = baseline
        self.files = [(plan["file"], 0o644, plan["source"].encode("utf-8", "surrogatepass"))]
        self.compiler: ChildExit | None = None
        self.compile_seconds = 0.0

    def build(self) -> tuple[str, str]:
        """Compiles it; returns (status, detail), of which the first is `passed` if it can be run."""
        if not self.plan["compile"]:
            return "passed", ""
        seconds = self.request["compile_timeout_seconds"]
        ended = self.compile_with("quick_compile", seconds) if self.plan.get("quick_compile") else None
        if ended is not None and ended.wait_status != 0 and not ended.excess and self.compile_seconds < seconds:
            # Nothing is decided by the quick way but how long it takes.
            posix.close(ended.stdout)
            posix.close(ended.stderr)
            ended = None
        self.compiler = ended = ended or self.compile_with("compile", seconds - self.compile_seconds)
        status, detail = judge_program(ended, seconds, judge_exit)
        if status == "passed" and not self.files:
            return "resource_limit", f"compiled, it is larger than {MOST_PROGRAM_BYTES >> 20} MiB"
        if status == "failed":
            said = head(ended.stderr, 1 << 20)[0] + head(ended.stdout, 1 << 20)[0]
            if not any(words in said for words in OUT_OF_ROOM):
                return "compile_error", telling_lines(ended, 3) or detail
            status, detail = "resource_limit", telling_lines(ended, 1)
        return status, detail if status in ("passed", "invalid_problem") else f"while it was compiled: {detail}"

    def compile_with(self, command: str, seconds: float) -> ChildExit:
        size = max(self.request["max_file_bytes"], FILE_BYTES_OF_COMPILER)
        request = {**self.request, "max_file_bytes": size, "memory_bytes": None}
        ended = self.run_in_place(command, posix.open("/dev/null", posix.O_RDONLY), request, seconds)
        self.compile_seconds += ended.times.wall - ended.times.starved
        ended.times = Times(0.0, 0.0, 0.0)  # not of the program's time
        return ended

    def run(self, stdin: int, seconds: float, files: list[tuple[str, bytes]]) -> ChildExit:
        own = {name for name, _, _ in self.files}
        more = [(name, 0o666, content) for name, content in files if name not in own]
        return self.run_in_place("run", stdin, self.request, seconds, more)

    def run_in_place(
        self,
        command: str,
        stdin: int,
        request: Request,
        seconds: float,
        more: list[tuple[str, int, bytes]] | tuple[()] = (),
    ) -> ChildExit:
        """Runs a command of the plan in fresh directories; what a compiler makes there replaces its source.

        Raises:
            OSError: If there is no room for it, or the state before the first run cannot be restored.
        """
        self.baseline.prepare()
        place = Place()
        try:
            place.write([*self.files, *more])
            # The files lie where it runs, and nowhere else.
            request, most = {**request, "files": ()}, request["memory_bytes"]
            if any("{memory}" in word for word in self.plan[command]):
                # A virtual machine keeps to a limit for objects, and needs more than these.
                request["memory_bytes"] = None
            body = starter(self.plan, self.plan[command], place, self.baseline.call, most)
            ended = run_child(body, request, stdin, seconds, self.baseline.call)
            end_descendants(self.baseline.spared)
            if command == "run" and request.get("output_file"):
                take_output(ended, f"{place.work}/{request['output_file']}")
            self.look_around(place, command, ended)
            if command != "run" and ended.wait_status == 0:
                self.files = self.made_in(place)
            return ended
        finally:
            place.remove()

    def look_around(self, place: Place, command: str, ended: ChildExit) -> None:
        """Looks at the directories of a run before they are removed; there is nothing to look for here."""

    def made_in(self, place: Place) -> list[tuple[str, int, bytes]]:
        try:
            return [each for each in read_files(place.work) if each[0] != self.plan["file"]]
        except TooLarge:
            return []


def nothing_ran() -> ChildExit:
    return ChildExit([], 0, Times(0.0, 0.0, 0.0), scratch_file(), scratch_file())


class ProgramCases:
    def __init__(self, request: Request, call: Libc | None) -> None:
        become_reaper(call)
        self.request = request
        plans = request["plans"]
        self.baseline = Baseline(call, is_needed=len(request["inputs"]) > 1 or bool(plans[0]["compile"]))
        self.latest: Program | None = None
        self.outcome = "passed", ""
        self.compile_seconds = self.failed_seconds = 0.0

    def build(self, position: int) -> None:
        """Builds one program of the plan, unless building the others has failed for too long."""
        program = self.latest = Program(self.request["plans"][position], self.request, self.baseline)
        self.outcome = program.build()
        if self.outcome[0] == "passed" and program.compiler is not None:
            posix.close(program.compiler.stdout)
            posix.close(program.compiler.stderr)
        self.compile_seconds += program.compile_seconds
        if self.outcome[0] != "passed":
            self.failed_seconds += program.compile_seconds

    def run(
        self, request: Request, position: int, seconds: float, limit: float, baseline: Baseline
    ) -> tuple[ChildExit, str, str]:
        if len(request["plans"]) > 1:
            if self.failed_seconds > request["compile_timeout_seconds"]:
                return nothing_ran(), "compile_error", "it was not compiled: earlier compilations took too long"
            self.build(position)
        program = self.latest
        assert program is not None
        if self.outcome[0] != "passed" and program.compiler is not None:
            return (program.compiler, *self.outcome)
        try:
            ended = program.run(stdin_of_case(request, position), seconds, files_of_case(request, position))
        except OSError as error:
            if program.compiler is None:
                raise
            return nothing_ran(), "resource_limit", f"the case cannot start from the same state as the last ({error})"
        status, detail = judge_program(ended, limit, judge_exit)
        if status == "crashed" and (ended.wait_status or 0) & 0x7F == SIGABRT and (said := telling_lines(ended, 1)):
            # Where an `assert` of C fails, it prints itself, and aborts.
            detail = f"{detail}: {said}"
        return ended, status, detail


def judge_programs(
    request: Request, call: Libc | None, compared: Callable[[Request], Comparison] = Comparison
) -> Judgment:
    """Judges by cases, tests or the exit status: builds the program once, or one for each test, and runs each case."""
    judgement = ProgramCases(request, call)
    if len(request["plans"]) == 1:
        judgement.build(0)
    compiler = judgement.latest.compiler if judgement.latest is not None else None
    if judgement.outcome[0] != "passed" and compiler is not None:
        read_exactly(request["hidden_size"])
        checks = filled([], len(request["inputs"]))
        judged = Judgment(*judgement.outcome, checks, compiler.times, compiler.stdout, compiler.stderr)
    else:
        judged = judge_cases(request, call, judgement.run, compared, judgement.baseline)
    judged.compile_seconds = judgement.compile_seconds
    return judged
