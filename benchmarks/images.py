"""Starts of sandboxes from an image, against the host's system and against the runners of containers on this machine.

`python -m benchmarks.images ROOTFS` imports an archive of a root file system (as mmdebstrap writes it) and alternates
rounds, so that a change of the machine's speed affects all; the median of the ratios of the rounds is the figure to
quote. The parts (without `--part`, all of them run):

- `start`: seconds from the request of a sandbox to the end of its first command (`/bin/true`), one after another: the
  host's system, the image, and bubblewrap, crun and podman over the same files where they run;
- `rate`: the same, as many at a time as suits the machine, in starts per second;
- `many`: `--many` sandboxes at once, of the host's system and of the image, each with a shell that sleeps: memory of
  the machine, and disk beside the layers, that each needs;
- `mbpp`: the references of MBPP (`--mbpp FILE`) in cells of the image, against cells of the host's system.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.cells import report_all
from sandrl.runtime import daemon
from sandrl.sandboxes import Command, Connection, Job, connect, new_job_id
from sandrl.settings import RuntimeKind, Settings, load_settings

PARTS = ("start", "rate", "many", "mbpp")
NAME = "benchmark/image:latest"
TRUE = Command(("/bin/true",), timeout_seconds=60)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rootfs", type=Path, help="an archive of a root file system, such as mmdebstrap writes")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; may be repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=40, help="starts of one way in one round")
    parser.add_argument("--many", type=int, default=200)
    parser.add_argument("--mbpp", type=Path, help="the file mbpp.jsonl")
    arguments = parser.parse_args()
    parts = arguments.part or PARTS
    settings = load_settings()
    sandrl("images", "import", f"rootfs:{arguments.rootfs.resolve()}", NAME)
    host = connect(settings, runtime=RuntimeKind.LOCAL)
    image = connect(settings, runtime=RuntimeKind.LOCAL, image=NAME)
    load = os.getloadavg()[0]
    print(f"{len(os.sched_getaffinity(0))} processors, isolation {image.isolation}, load {load:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        if "start" in parts or "rate" in parts:
            starts(parts, arguments.rounds, arguments.starts, host, image, runners(arguments.rootfs, Path(folder)))
        if "many" in parts:
            for name, connection in (("host", host), ("image", image)):
                many(name, arguments.many, connection, settings)
        if "mbpp" in parts:
            mbpp(arguments.mbpp, arguments.rounds, Path(folder))


def sandrl(*words: str) -> None:
    """Runs a command of sandrl, which must succeed."""
    subprocess.run([sys.executable, "-m", "sandrl", *words], check=True, capture_output=True)


def runners(rootfs: Path, folder: Path) -> dict[str, list[str]]:
    """The commands that run `/bin/true` over the same files, of the runners that start here."""
    root = folder / "rootfs"
    with tarfile.open(rootfs) as archive:
        archive.extractall(root, filter="tar", members=(each for each in archive if not each.isdev()))
    known = {
        "bubblewrap": ["bwrap", "--unshare-all", "--bind", str(root), "/", "--proc", "/proc", "--dev", "/dev"],
        "crun": ["crun", "run", "--bundle", str(folder), "benchmark"],
        "podman": ["podman", "run", "--rm", "--network", "none", "--rootfs", str(root)],
    }
    if shutil.which("crun"):
        subprocess.run(["crun", "spec", *(["--rootless"] if os.getuid() else [])], cwd=folder, check=True)
        bundle = folder / "config.json"
        specification = json.loads(bundle.read_text())
        specification["process"] |= {"args": ["/bin/true"], "terminal": False}
        specification["process"].pop("rlimits", None)
        specification["root"]["readonly"] = False
        bundle.write_text(json.dumps(specification))
    found = {}
    for name, words in known.items():
        command = words if name == "crun" else [*words, "/bin/true"]
        if shutil.which(command[0]) is None:
            print(f"{name}: not installed")
        elif (tried := subprocess.run(command, capture_output=True, text=True, check=False)).returncode:
            print(f"{name}: does not start here: {tried.stderr.strip()[-200:]}")
        else:
            found[name] = command
    return found


@contextmanager
def fresh_sandboxes(connection: Connection) -> Iterator[Job]:
    """A job that starts a sandbox for each command."""
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=3600, has_cells=False) as job:
        yield job


def starts(
    parts: tuple[str, ...],
    rounds: int,
    count: int,
    host: Connection,
    image: Connection,
    commands: dict[str, list[str]],
) -> None:
    """Starts of every way, one after another and many at a time."""
    at_once = 2 * len(os.sched_getaffinity(0)) + 2
    with fresh_sandboxes(host) as on_host, fresh_sandboxes(image) as on_image:
        for part, places in (("start", 1), ("rate", at_once)):
            if part not in parts:
                continue
            ways: dict[str, Callable[[], float]] = {
                "host": lambda places=places: sandbox_rate(on_host, count, places),
                "image": lambda places=places: sandbox_rate(on_image, count, places),
            }
            for name, command in commands.items():
                ways[name] = lambda command=command, places=places: runner_rate(command, count, places)
            if places > 1:
                ways.pop("crun", None)  # each container needs a name of its own
            for measure in ways.values():
                measure()
            rates: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(rounds):
                for name, measure in ways.items():
                    rates[name].append(measure())
            report_all(f"{part}: {places} at a time ({rounds} rounds of {count})", rates)


def sandbox_rate(job: Job, count: int, places: int) -> float:
    """Sandboxes per second, each started for one command and ended."""
    begun = time.monotonic()
    launched = under_way = 0
    while launched < count or under_way:
        while launched < count and under_way < places:
            job.launch(TRUE)
            launched, under_way = launched + 1, under_way + 1
        for launch in job.wait_any():
            assert job.collect(launch).exit_code == 0
            under_way -= 1
    return count / (time.monotonic() - begun)


def runner_rate(command: list[str], count: int, places: int) -> float:
    """Runs of a command per second."""

    def run(_: int) -> None:
        subprocess.run(command, capture_output=True, check=True)

    begun = time.monotonic()
    with ThreadPoolExecutor(places) as pool:
        list(pool.map(run, range(count)))
    return count / (time.monotonic() - begun)


def many(name: str, count: int, connection: Connection, settings: Settings) -> None:
    """Memory of the machine and bytes of its disk, before and while many sandboxes run a command each."""
    waits = Command(("/bin/sh", "-c", "sleep 30"), timeout_seconds=600)
    with fresh_sandboxes(connection) as job:
        sandbox_rate(job, 10, 5)
        before, disk = available_memory(), disk_bytes(settings)
        under_way = [job.launch(waits) for _ in range(count)]
        least, most = before, 0
        while under_way:
            for launch in job.wait_any(timeout_seconds=0.2):
                assert job.collect(launch).exit_code == 0
                under_way.remove(launch)
            most = max(most, daemon.status(settings.state_dir).sandboxes)
            least = min(least, available_memory())
        used = disk_bytes(settings) - disk
    memory, disk = ((value / max(most, 1) / (1 << 20)) for value in (before - least, used))
    print(f"\nmany, {name}: {most} of {count} at once: {memory:.2f} MiB of memory each, {disk:.3f} of disk")


def disk_bytes(settings: Settings) -> int:
    """Bytes on disk of the user's store and of the daemon's files."""
    roots = (settings.cache_dir, settings.state_dir)
    files = (os.path.join(folder, name) for root in roots for folder, _, names in os.walk(root) for name in names)
    return sum(os.lstat(file).st_blocks * 512 for file in files if os.path.lexists(file))


def available_memory() -> int:
    """Bytes of memory that programs could have, without swap."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    return int(lines["MemAvailable"].split()[0]) << 10


def mbpp(file: Path | None, rounds: int, folder: Path) -> None:
    """The references of MBPP through the command, in cells of the host's system and of the image."""
    if file is None:
        print("\nmbpp: left out: --mbpp FILE names the file")
        return
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    answers = folder / "answers.jsonl"
    answers.write_text("".join(json.dumps({"task_id": row["task_id"], "code": row["code"]}) + "\n" for row in rows))
    ways = {
        "host": lambda: command_rate(file, answers, folder),
        "image": lambda: command_rate(file, answers, folder, NAME),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, measure in ways.items():
            rates[name].append(measure())
    report_all(f"mbpp ({rounds} rounds of {len(rows)} through the command)", rates)


def command_rate(problems: Path, answers: Path, folder: Path, image: str | None = None) -> float:
    """Completions per second through `sandrl reward`, all of them right."""
    words = [sys.executable, "-m", "sandrl", "reward", str(answers), "--problems", str(problems), "--json"]
    words += ["--runs-dir", str(folder / "runs"), *(["--image", image] if image else [])]
    begun = time.monotonic()
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    seconds = time.monotonic() - begun
    summary = json.loads(ended.stdout)["summary"]
    assert summary["total_reward"] == summary["n"], summary
    return float(summary["n"]) / seconds


if __name__ == "__main__":
    main()
