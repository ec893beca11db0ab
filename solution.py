from contextlib import nullcontext


def opener(thing):
    return thing if hasattr(thing, "__enter__") else nullcontext(thing)


def first_line(thing):
    with opener(thing) as lines:
        return next(iter(lines))
