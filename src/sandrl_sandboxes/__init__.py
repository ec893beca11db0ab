"""The environment of verifiers whose agents act in sandboxes: `vf-eval TASKSET --env.id sandrl-sandboxes`."""

from sandrl.integrations.classes.verifiers_runtime import SandboxEnv

__all__ = ["SandboxEnv"]
