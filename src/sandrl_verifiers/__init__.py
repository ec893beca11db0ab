"""The plugin of verifiers, which finds it by the name of this package: `vf-eval sandrl-verifiers`."""

from sandrl.integrations.classes.verifiers import CodeEnv, CodeHarness, CodeTaskset

__all__ = ["CodeEnv", "CodeHarness", "CodeTaskset"]
