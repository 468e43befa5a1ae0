"""The parts of a run: its data, its network, its Lightning trainer, and the fit itself."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.utilities.exceptions import MisconfigurationException
from lightning_fabric.utilities.warnings import PossibleUserWarning
from pytorch_lightning.plugins.precision import HalfPrecision, MixedPrecision
from pytorch_lightning.profilers import PassThroughProfiler
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from focusing.config import drops_last_batch
from focusing.data import Batches, DataSet, Split, hold_out
from focusing.data.batches import Preparation, move_if_fits
from focusing.data.image_sets import resolve_missing
from focusing.errors import UserError
from focusing.instantiate import instantiate
from focusing.models import Network, build_network
from focusing.results.record import Series, best_epoch
from focusing.training.checkpoint import EpochCheckpoint, PlainCheckpointIO, newest_checkpoint
from focusing.training.module import FocusingModule
from focusing.training.resume import interruptible
from focusing.validation import check_memory

# Makes matrix products on a GPU deterministic. Lightning sets it too, but possibly too late: torch
# reads it once, at the first product of the process.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

TEXT_DATA = "focusing.data.imdb"
"""The data set whose inputs are token numbers."""
TEXT_MODEL_OPTIONS = {"embedding", "heads"}
"""A model takes token numbers if it has one of these options."""
MAX_EVALUATION_BATCH, MAX_EVALUATION_VALUES = 1024, 2**22
"""Largest evaluation batch, in samples and in input values."""
BUNDLE_WORK, MAX_BUNDLE = 2**27, 200
"""Size of a bundle of batches: parameters times samples, and the most batches in one."""


def resolve_source(config: dict[str, Any], *, strict: bool) -> None:
    """Decide whether a run uses the sample of 5000 MNIST digits, and write that into its config.

    Args:
        config: its ``data.on_missing``, if any, becomes ``"sample"`` or ``"error"``.
        strict: use the sample only if the user asked for it.
    """
    resolve_missing(config["data"], Path(config["paths"]["data_dir"]).expanduser(), strict=strict)


def load_data(
    config: Mapping[str, Any], *, peek: bool = False, preparation: Preparation | None = None
) -> DataSet:
    """Make or read the data set of a config.

    Args:
        config: the config of a run.
        peek: read only the source and the fingerprint; download and prepare nothing.
        preparation: scaling that a trained network expects; None fits it to the training data.
    """
    if config["data"]["_target_"] == TEXT_DATA and not TEXT_MODEL_OPTIONS & config["model"].keys():
        # Checked here because decoding the text takes a while.
        raise UserError(
            f"data={config['data']['name']} is made of words: use a model that embeds them, "
            f"model=fasttext_focus or model=fasttext_dense, not {config['model']['name']}."
        )
    options = {name: value for name, value in config["data"].items() if name != "name"}
    context = {"run_seed": config["seed"], "holdout": config["protocol"]["holdout"]}
    if "split" in options:  # it is read from files
        context |= {"data_dir": config["paths"]["data_dir"], "peek": peek}
        context |= {"preparation": preparation}
    try:
        return instantiate(options, DataSet, **context)
    except FileNotFoundError as error:
        raise UserError(f"data={config['data']['name']}: {error.filename} is missing.") from None


def split_data(config: Mapping[str, Any], data: DataSet) -> dict[str, Split]:
    """Split a data set as the protocol demands: train, test and, with a holdout, val."""
    share = config["protocol"]["holdout"]
    if not share:
        return {"train": data.train, "test": data.test}
    train, val = hold_out(data.train, share, config["seed"], data.classes)
    return {"train": train, "val": val, "test": data.test}


def build_net(config: Mapping[str, Any], data: DataSet, *, pretrained: bool = True) -> Network:
    """Build the network of a config; its initial weights depend only on the seed.

    Args:
        config: the config of a run.
        data: the data set, for the sizes of inputs and outputs.
        pretrained: load pretrained weights if the config asks for them; pass False if a
            checkpoint will replace them anyway.
    """
    model = config["model"]["name"]
    options = {name: value for name, value in config["model"].items() if name != "name"}
    if "pretrained" in options and not pretrained:
        options |= {"pretrained": False, "weights": None}
    sizes: dict[str, Any] = {"inputs": data.train.inputs.shape[1:], "outputs": data.outputs}
    if data.vocabulary:
        sizes["vocabulary"] = data.vocabulary
    elif "embedding" in options:
        raise UserError(f"model={model} is for texts: data={data.name} is not.")
    _check_size(model, options, sizes)
    torch.manual_seed(config["seed"])
    return build_network(options, **sizes)


def _check_size(model: str, options: dict[str, Any], sizes: dict[str, Any]) -> None:
    """Refuse a network whose weights and gradients exceed the memory, tried on the meta device."""
    empty = {"pretrained": False, "weights": None} if "pretrained" in options else {}
    try:
        with torch.device("meta"):
            net = build_network({**options, **empty}, **sizes)
    except RuntimeError as error:
        if "overflow" not in str(error):  # a custom network that cannot be built on meta
            return
        raise UserError(f"model={model}: its layers are too large.") from None
    count = sum(parameter.numel() for parameter in net.parameters())
    size = 2 * count * torch.get_default_dtype().itemsize
    check_memory(size, f"model={model} with {count} parameters")


def check_batch_norm(config: Mapping[str, Any], net: Network, train: Split) -> None:
    """Refuse batches of one sample for a network with batch norm."""
    samples, optim = len(train.targets), config["optim"]
    size, limit = optim["batch_size"], config["trainer"]["limit_batches"]
    if size == 1:
        cause = "optim.batch_size=1"
    elif samples == 1:
        cause = "There is 1 training sample"
    elif samples % size == 1 and optim["drop_last"] is False and not limit:
        cause = "optim.drop_last=false leaves a last batch of 1 sample"
    else:
        return
    try:  # the meta device computes nothing
        deepcopy(net).to("meta").train()(net.example().to("meta"))
    except ValueError:
        raise UserError(
            f"{cause}: batch norm needs 2 or more samples in a batch; use more, or "
            "model.batch_norm=false."
        ) from None


def build_trainer(
    options: Mapping[str, Any],
    run_dir: Path,
    *,
    callbacks: Iterable[pl.Callback] = (),
    best_of: str | None = None,
    metric: str = "accuracy",
) -> pl.Trainer:
    """A quiet Lightning trainer that checkpoints every epoch.

    Args:
        options: the group ``trainer`` of a config.
        run_dir: the run folder.
        callbacks: further callbacks.
        best_of: name of the series whose best epoch is kept as ``best.ckpt``; None keeps only the
            last epoch.
        metric: metric of that series, ``"accuracy"`` or ``"mae"``.
    """

    def is_best(series: Series) -> bool:
        if best_of is None:
            return False
        values = series[best_of]
        return best_epoch(values, metric) == len(values) - 1

    silence_lightning()
    precision = options["precision"]
    try:
        trainer = pl.Trainer(
            max_epochs=options["max_epochs"],
            accelerator=options["accelerator"],
            devices=options["devices"],
            precision="32-true" if precision == "16-mixed" else precision,
            deterministic=options["deterministic"],
            default_root_dir=run_dir,
            callbacks=[*callbacks, EpochCheckpoint(run_dir / "checkpoints", is_best)],
            logger=False,  # a run opens its loggers after it has claimed its folder
            # A run is one process. Otherwise Lightning would detect SLURM, warn and requeue.
            plugins=[PlainCheckpointIO(), LightningEnvironment()],
            profiler=_NoProfiler(),
            num_sanity_val_steps=0,
            log_every_n_steps=1,
            use_distributed_sampler=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
    except (MisconfigurationException, ImportError, TypeError, ValueError) as error:
        raise UserError(f"trainer: {' '.join(str(error).split())}") from None
    if precision == "bf16-true":
        trainer.strategy.precision_plugin = _HalfInputs(precision)
    if precision == "16-mixed":
        # On a CPU Lightning would silently use bf16 instead, though torch supports both.
        device = trainer.strategy.root_device.type
        trainer.strategy.precision_plugin = MixedPrecision("16-mixed", device)
    return trainer


class _HalfInputs(HalfPrecision):
    """Leaves the targets as they are: losses and scores of rounded ones would be wrong."""

    def convert_input(self, data: Any) -> Any:
        """Convert the inputs of a batch."""
        if isinstance(data, Split):
            return data._replace(inputs=super().convert_input(data.inputs))
        return super().convert_input(data)


class _NoProfiler(PassThroughProfiler):
    """A faster no-op: Lightning enters a profiler forty times per step."""

    _context = nullcontext()

    def profile(self, action_name: str) -> Any:
        return self._context


def silence_lightning() -> None:
    """Silence Lightning's tips and warnings."""
    for name in ("pytorch_lightning", "lightning_fabric", "pytorch_lightning.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=PossibleUserWarning)
    warnings.filterwarnings("ignore", message="`isinstance.treespec, LeafSpec.` is deprecated")
    # Deterministic mode would also fill new memory with NaN, which costs time and finds nothing.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def evaluation_batch(split: Split) -> int:
    """Evaluation batch size; smaller for large samples, whose feature maps need memory."""
    return max(1, min(MAX_EVALUATION_BATCH, MAX_EVALUATION_VALUES // split.inputs[0].numel()))


def fit(
    trainer: pl.Trainer,
    module: FocusingModule,
    splits: Mapping[str, Split],
    *,
    limit: int | None = None,
    resume_from: Path | None = None,
    prepare: Callable[[Tensor], Tensor] | None = None,
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None,
) -> None:
    """Train until the last epoch or a signal.

    Args:
        trainer: from :func:`build_trainer`.
        module: the module to train.
        splits: ``"train"``, and the splits that are evaluated after every epoch.
        limit: maximum number of batches per epoch.
        resume_from: continue from the newest valid checkpoint in this folder.
        prepare: applied to every batch.
        augment: applied to every training batch.

    Raises:
        Interrupted: on SIGTERM and Ctrl-C, with the exit code.
    """
    device, optim, train = trainer.strategy.root_device, module.optim, splits["train"]
    work = optim.batch_size * sum(parameter.numel() for parameter in module.parameters())
    batch_norm = any(isinstance(layer, _BatchNorm) for layer in module.net.modules())
    module.batches = {
        "train": Batches(
            move_if_fits(train, device),
            optim.batch_size,
            seed=module.seed if optim.shuffle else None,
            limit=limit,
            bundle=max(1, min(MAX_BUNDLE, BUNDLE_WORK // work)),
            device=device,
            prepare=prepare,
            augment=augment,
            augment_seed=module.seed,
            drop_last=drops_last_batch(
                optim.drop_last, len(train.targets), optim.batch_size, batch_norm=batch_norm
            ),
        )
    }
    size = max(evaluation_batch(train), optim.batch_size)
    for name, split in splits.items():
        if name != "train":
            batches = Batches(move_if_fits(split, device), size, device=device, prepare=prepare)
            module.batches[name] = batches
    train_batches, *evaluated = module.batches.values()
    # Lightning's own handler stops at SIGTERM without saving anything, and exits with 0.
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]
    checkpoint = resume_from and newest_checkpoint(resume_from, module)
    with interruptible():
        trainer.fit(module, train_batches, evaluated, ckpt_path=checkpoint, weights_only=True)
