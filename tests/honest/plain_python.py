"""Runs in a sandbox: decides, in plain Python, which solutions pass their checks.

Reads a list of tasks as JSON from standard input and prints a list of reasons: an empty one for a solution that passes.
Each solution, and each case of a program, has a fresh interpreter and a directory of its own; what a case has left
elsewhere is removed. Tests run as graders run them: the solution is a module that is imported, not `__main__`, and its
checks run in its namespace.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

GRADER = """\
import importlib.util, json, os, sys


def main():
    with open("task.json", encoding="utf-8") as file:
        task = json.load(file)
    spec = importlib.util.spec_from_file_location("solution", os.path.abspath("solution.py"))
    module = sys.modules["solution"] = importlib.util.module_from_spec(spec)
    namespace = module.__dict__
    exec(compile(task["prelude"], "prelude", "exec"), namespace)
    setup = task["setup"]
    try:
        exec(compile(setup, "setup", "exec"), namespace)
    except Exception:
        pass  # it needs the solution
    spec.loader.exec_module(module)
    exec(compile(setup, "setup", "exec"), namespace)
    for number, test in enumerate(task["tests"], 1):
        print("in check", number, file=sys.stderr)
        exec(compile(test, "check", "exec"), namespace)
    with open("passed", "w") as file:
        file.write("yes")


# Not in the processes that `multiprocessing` spawns, which import this file.
if __name__ == "__main__":
    main()
"""
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def run(argv, folder, stdin, seconds):
    with tempfile.TemporaryFile() as given:
        given.write(stdin.encode())
        given.seek(0)
        try:
            return subprocess.run(argv, cwd=folder, stdin=given, capture_output=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return None


def last_line(data):
    lines = data.decode("utf-8", "replace").strip().split("\n")
    return lines[-1][:300] or "it failed without a word"


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def judge_tests(task, folder):
    write(folder, "grader.py", GRADER)
    write(folder, "solution.py", task["code"])
    write(folder, "task.json", json.dumps(task))
    ended = run([sys.executable, "grader.py"], folder, "", task["seconds"])
    if ended is None:
        return "it took too long"
    if os.path.exists(os.path.join(folder, "passed")):
        return ""
    return f"{last_line(ended.stderr)} (exit status {ended.returncode})"


def judge_cases(task, folder):
    for number, case in enumerate(task["cases"]):
        own = os.path.join(folder, str(number))
        os.mkdir(own)
        write(own, "solution.py", task["prelude"] + task["code"])
        ended = run([sys.executable, "solution.py"], own, case["stdin"], task["seconds"])
        for place in ("/tmp", os.path.expanduser("~")):
            for name in os.listdir(place):
                path = os.path.join(place, name)
                if path != folder:
                    subprocess.run(["rm", "-rf", path])
        if ended is None:
            return "it took too long"
        if ended.returncode:
            return last_line(ended.stderr)
        if not same(ended.stdout.decode("utf-8", "replace"), case["stdout"], task["tolerance"]):
            return f"it printed {ended.stdout[:200]!r}"
    return ""


def same(actual, expected, tolerance):
    lines, wanted = ([line.rstrip() for line in text.rstrip().split("\n")] for text in (actual, expected))
    if tolerance is None:
        return lines == wanted
    return len(lines) == len(wanted) and all(close(*pair, tolerance) for pair in zip(lines, wanted))


def close(line, wanted, tolerance):
    """Whether two lines differ in their numbers only, and these by no more than the tolerance."""
    if NUMBER.sub("#", " ".join(line.split())) != NUMBER.sub("#", " ".join(wanted.split())):
        return False
    numbers = zip(NUMBER.findall(line), NUMBER.findall(wanted))
    return all(abs(float(one) - float(other)) <= tolerance for one, other in numbers)


def main():
    reasons = []
    for task in json.load(sys.stdin):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            reasons.append((judge_cases if task["cases"] else judge_tests)(task, folder))
    json.dump(reasons, sys.stdout)


main()
