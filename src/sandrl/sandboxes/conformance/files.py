"""Files of sandboxes."""

from __future__ import annotations

from sandrl.sandboxes.conformance.check import check, expect, expect_error
from sandrl.sandboxes.conformance.commands import BYTES
from sandrl.sandboxes.conformance.trial import Trial, answer


@check
def files(trial: Trial) -> None:
    """A file is written, seen by programs, replaced, and read back byte for byte."""
    sandbox = trial.started()
    for content in (BYTES, b"", BYTES[:100]):
        answer(sandbox.write_file("/tmp/data.bin", content))
        expect("the file", answer(sandbox.read_file("/tmp/data.bin")), content)
        expect("`wc -c`", trial.run("wc", "-c", "/tmp/data.bin").stdout.split()[:1], [b"%d" % len(content)])


@check
def errors_of_files(trial: Trial) -> None:
    """A file that does not exist and a directory cause different errors, as on this machine."""
    sandbox = trial.started()
    expect_error("reading no file", FileNotFoundError, lambda: answer(sandbox.read_file("/tmp/none")))
    expect_error("reading a directory", IsADirectoryError, lambda: answer(sandbox.read_file("/tmp")))
