"""Adapters for other frameworks: their environments and reward functions, scored in sandboxes of sandrl.

An adapter converts a framework's row to a problem, and a result to the framework's own type, and does nothing else. All
adapters score with one backend (`backend`), in this process or with a running `sandrl serve`. The user installs the
framework: it is imported on use, and importing an adapter does not need it.
"""
