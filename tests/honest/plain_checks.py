"""Runs in a sandbox: makes checks of expressions about generated classes, and decides them in plain Python.

Reads tasks as JSON from standard input. Prints, for each, a list of checks with whether they pass: right and wrong ones
of each expression. Each task runs in a process of its own.
"""

import json
import os
import sys

PLAIN = (int, float, complex, str, bytes, bool, type(None))
CONTAINERS = (list, tuple, set, frozenset)


def is_plain(value):
    if type(value) in CONTAINERS:
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(is_plain(key) and is_plain(item) for key, item in value.items())
    return type(value) in PLAIN and value == value


def other_than(value):
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, (int, float, complex)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, bytes):
        return value + b"x"
    if isinstance(value, (list, tuple)):
        return type(value)([*value, 0])
    if isinstance(value, dict):
        return {**value, "other": 0}
    return value | {"other"}


def checks_of(expression, namespace):
    try:
        value = eval(expression, dict(namespace))
    except Exception as error:
        name = type(error).__name__
        own = "\n    assert str(error) == 'own'" if str(error) == "own" else ""
        right = "try:\n    {}\nexcept {} as error:\n    pass{}\nelse:\n    raise AssertionError"
        yield right.format(expression, name, own)
        yield expression + "\nassert True"
        return
    if is_plain(value):
        yield f"assert ({expression}) == {value!r}"
        yield f"assert ({expression}) == {other_than(value)!r}"
        yield f"assert {value!r} == ({expression})"
        if type(value) in PLAIN:
            yield "assert type({}) is {}".format(expression, "type(None)" if value is None else type(value).__name__)
    elif type(value).__name__ == "C":
        yield f"r = {expression}\nassert isinstance(r, C)\nassert r.n == {value.n!r}"
        yield f"r = {expression}\nassert r.n == {other_than(value.n)!r}"
    elif value is NotImplemented:
        yield f"assert ({expression}) is NotImplemented"


def passes(check, namespace):
    try:
        exec(check, dict(namespace))
    except Exception:
        return False
    return True


def decide(task):
    namespace = {}
    exec(task["setup"], namespace)
    exec(task["code"], namespace)
    checks = [check for expression in task["expressions"] for check in checks_of(expression, namespace)]
    return [(check, passes(check, namespace)) for check in checks]


def main():
    answers = []
    for task in json.load(sys.stdin):
        their, ours = os.pipe()
        if os.fork() == 0:
            os.close(their)
            with os.fdopen(ours, "w") as out:
                json.dump(decide(task), out)
            os._exit(0)
        os.close(ours)
        with os.fdopen(their) as text:
            answers.append(json.load(text))
        os.wait()
    json.dump(answers, sys.stdout)


main()
