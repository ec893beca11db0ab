"""A sandbox for inspect_ai, found by its entry point: `sandbox="sandrl"`, or `sandbox=("sandrl", IMAGE)`.

inspect_ai imports this module, and with it the class (`sandrl.integrations.classes.inspect`).
"""

from __future__ import annotations

from sandrl import extras

PACKAGE = "inspect-ai>=0.3.285"

_classes = extras.require("sandrl.integrations.classes.inspect", package=PACKAGE)
SandrlSandboxEnvironment = _classes.SandrlSandboxEnvironment
SandrlSandbox = _classes.SandrlSandbox
