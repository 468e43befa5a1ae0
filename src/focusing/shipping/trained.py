"""What a run left, ready to be used again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from focusing.compose import override_data
from focusing.data import Batches, DataSet, Part
from focusing.errors import UserError
from focusing.models import Network
from focusing.training.assembly import build_net, load_data, settle_source, split
from focusing.training.checkpoint import load_checkpoint
from focusing.training.session import evaluation_batch

PRUNED = "pruned.pt"


@dataclass(frozen=True)
class Trained:
    """A trained network with the data that it was made for.

    Args:
        folder: the run folder.
        config: of the run.
        net: in eval mode, at the epoch that the run's protocol chose.
        data: the data set.
        parts: ``train``, ``test`` and, if the run held something out, ``val``.
    """

    folder: Path
    config: dict[str, Any]
    net: Network
    data: DataSet
    parts: Mapping[str, Part]

    @property
    def metric(self) -> str:
        """Name of the score: ``"acc"``, or ``"mae"``, of which less is better."""
        return "acc" if self.data.classes else "mae"

    @property
    def labels(self) -> list[str]:
        """Names of the classes; none for regression."""
        return list(self.data.labels) or [str(number) for number in range(self.data.classes)]

    def batches(self, part: str) -> Batches:
        """The samples of a part as the network wants them."""
        samples = self.parts[part]
        return Batches(samples, evaluation_batch(samples), prepare=self.data.prepare)


def load_run(folder: Path, *, pruned: bool = False, data_overrides: Sequence[str] = ()) -> Trained:
    """Read a run folder.

    Args:
        folder: it.
        pruned: take the network that ``focusing prune`` left there.
        data_overrides: other data, as on the command line: ``data=...``, ``data.seed=3``.
    """
    try:
        config = yaml.safe_load((folder / "config.yaml").read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{folder} is not a run folder: it has no config.yaml.") from None
    if pruned:
        path, missing = folder / PRUNED, "run focusing prune first"
    else:
        name = "last.ckpt" if config["protocol"]["name"] == "last" else "best.ckpt"
        path, missing = folder / "checkpoints" / name, "its first epoch has not ended"
    if not path.exists():
        raise UserError(f"{folder} has no {path.name}: {missing}.")
    trained_on = config["data"]
    if data_overrides:
        config["data"] = override_data(trained_on, data_overrides)
        settle_source(config, strict=False)
    data = load_data(config)
    net = build_net(config, data, pretrained=False)
    state = load_checkpoint(path)["state_dict"]
    try:
        net.load_state_dict({key.removeprefix("net."): value for key, value in state.items()})
    except RuntimeError:
        raise UserError(
            f"This network was trained on {trained_on['name']}: data with {data.inputs} inputs and "
            f"{data.outputs} outputs does not fit."
            if data_overrides
            else f"{path} does not fit {folder / 'config.yaml'}."
        ) from None
    return Trained(folder, config, net.eval(), data, split(config, data))
