"""Checkpoints on disk, under the names the service gives them.

`tinker://RUN/weights/NAME` and `tinker://RUN/sampler_weights/NAME` are directories `RUN/weights/NAME` and so on. The
design decision: such a directory appears in one step and is never changed. Whoever is killed while saving leaves no
half of one, and a server started on the same directory later knows all of them.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel
from tinker.types import Checkpoint, LoraConfig, ParsedCheckpointTinkerPath

from tests.support.tinker_server.refusals import NotThere, Refused, TakenAlready

KINDS = {"training": "weights", "sampler": "sampler_weights"}
_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._:-]+")


class About(BaseModel):
    """What is known of a checkpoint without loading it."""

    base_model: str
    config: LoraConfig
    time: datetime
    size_bytes: int


class Checkpoints:
    """All checkpoints of all training runs.

    Args:
        directory: Where they lie.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reserved: set[str] = set()

    def reserve(self, run: str, kind: str, name: str) -> str:
        """Makes sure of a name before its checkpoint is saved.

        Returns:
            The path of the checkpoint to be.

        Raises:
            Refused: If the name cannot be used.
            TakenAlready: If it is in use.
        """
        if not _NAME.fullmatch(name):
            raise Refused(f"not a name for a checkpoint: {name!r}")
        path = f"tinker://{run}/{KINDS[kind]}/{name}"
        if path in self._reserved or self._place(path).exists():
            raise TakenAlready(f"{path} exists already")
        self._reserved.add(path)
        return path

    def save(self, path: str, content: bytes, base_model: str, config: LoraConfig) -> None:
        """Saves a checkpoint."""
        place = self._place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        about = About(base_model=base_model, config=config, time=datetime.now(UTC), size_bytes=len(content))
        with tempfile.TemporaryDirectory(prefix=".saving-", dir=self._directory) as temporary:
            made = Path(temporary, "made")
            made.mkdir()
            (made / "content.pt").write_bytes(content)
            (made / "about.json").write_text(about.model_dump_json())
            made.rename(place)

    def read(self, path: str) -> bytes:
        """What was saved.

        Raises:
            NotThere: If nothing was.
        """
        self.about(path)
        return (self._place(path) / "content.pt").read_bytes()

    def about(self, path: str) -> About:
        """What is known of a checkpoint.

        Raises:
            NotThere: If there is none.
        """
        try:
            return About.model_validate_json((self._place(path) / "about.json").read_bytes())
        except FileNotFoundError as error:
            raise NotThere(f"there is no checkpoint {path}") from error

    def of_run(self, run: str) -> list[Checkpoint]:
        """A run's checkpoints, oldest first."""
        found = []
        for kind, folder in KINDS.items():
            for place in (self._directory / run / folder).glob("*/about.json") if _NAME.fullmatch(run) else ():
                path = f"tinker://{run}/{folder}/{place.parent.name}"
                about = self.about(path)
                found.append(
                    Checkpoint(
                        checkpoint_id=f"{folder}/{place.parent.name}",
                        checkpoint_type=kind,
                        time=about.time,
                        tinker_path=path,
                        size_bytes=about.size_bytes,
                    )
                )
        return sorted(found, key=lambda checkpoint: checkpoint.time)

    def remove_leftovers(self) -> None:
        """Removes what a killed server had not finished saving."""
        for leftover in self._directory.glob(".saving-*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def _place(self, path: str) -> Path:
        try:
            parsed = ParsedCheckpointTinkerPath.from_tinker_path(path)
        except ValueError as error:
            raise NotThere(str(error)) from error
        parts = [parsed.training_run_id, *parsed.checkpoint_id.split("/")]
        if not all(_NAME.fullmatch(part) for part in parts):
            raise NotThere(f"there is no checkpoint {path}")
        return self._directory.joinpath(*parts)
