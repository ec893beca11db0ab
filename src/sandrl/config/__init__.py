"""The configurations of the commands: one frozen model for each command, made of parts that commands share.

A field is declared once, with its type, bounds, default, help text and flag, so the options of the command line, the
keys of a `--config` file, the output of `--print-config` and the `options` of a run's `config.json` cannot differ.
This package only describes a request; the packages above convert it into their own types, each part in one place
(`ScoreOptions.of`, `SandboxRequest.of`).
"""
