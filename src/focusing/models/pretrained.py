"""Weights that were trained elsewhere, from a file or a download."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from focusing.errors import UserError
from focusing.models.extractors import EXTRACTORS
from focusing.validation import check_regular

ELSE = "give a file with model.weights=PATH, or use model.pretrained=false"


def load_features(module: nn.Module, name: str, path: str | Path | None = None) -> None:
    """Fill a feature extractor.

    Args:
        module: from :data:`focusing.models.extractors.EXTRACTORS`.
        name: its name there.
        path: a state dict with torchvision's names; what belongs to other layers is left out.
            None: download the ImageNet weights, once.

    Raises:
        UserError: if there are no such weights, or they are of something else.
    """
    state, source = (_download(name), name) if path is None else (_read(Path(path)), str(path))
    prefix, wanted = EXTRACTORS[name].prefix, module.state_dict()
    for key, own in wanted.items():
        found = state.get(prefix + key)
        if not isinstance(found, Tensor):
            raise UserError(f"{source} has no {prefix}{key}: these are not weights of {name}.")
        if found.shape != own.shape:
            raise UserError(
                f"{source}: {prefix}{key} has shape {tuple(found.shape)}, but this network needs "
                f"{tuple(own.shape)}."
            )
    module.load_state_dict({key: state[prefix + key] for key in wanted})


def _read(path: Path) -> Mapping[str, Any]:
    try:
        path = path.expanduser()
        check_regular(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"model.weights={path} cannot be read: {error.strerror}.") from None
    except Exception:  # torch raises many kinds, and advises to run what is in the file
        raise UserError(
            f"model.weights={path} is not a file of weights: give a state dict of torch.save."
        ) from None
    if not isinstance(state, Mapping):
        kind = type(state).__name__
        raise UserError(f"model.weights={path} is not a state dict: it is a {kind}.")
    return state


def _download(name: str) -> Mapping[str, Any]:
    url = EXTRACTORS[name].url
    if url is None:
        raise UserError(f"model.features={name} has no ImageNet weights: {ELSE}.")
    # Not load_state_dict_from_url, which prints a line first, even when there is no network.
    file = url.rpartition("/")[2]
    copy = Path(torch.hub.get_dir()) / "checkpoints" / file
    prefix = file.removesuffix(".pth").rpartition("-")[2]
    try:
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(url, str(copy), prefix, progress=sys.stderr.isatty())
    except OSError as error:  # no network, no such host, a full disk
        reason = getattr(error, "reason", None) or error
        raise UserError(f"{url} cannot be downloaded ({reason}): {ELSE}.") from None
    except RuntimeError as error:
        raise UserError(f"{url} came damaged ({error}): try again, or {ELSE}.") from None
    try:
        state: Mapping[str, Any] = torch.load(copy, map_location="cpu", weights_only=True)
    except Exception:  # torch raises many kinds
        raise UserError(f"{copy} is damaged: remove it, or {ELSE}.") from None
    return state
