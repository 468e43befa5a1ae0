"""The networks of experiment=local_fields have equal numbers of parameters, as it claims."""

import re

import torch
from omegaconf import OmegaConf

from focusing.compose import compose_config
from focusing.models import build_network

SHAPES = {"cifar10": (32, 32, 3), "fashion": (28, 28, 1)}
FEWER = ("anchored_2d", "[400,400]")
"""A network of equal width, which has far fewer parameters."""


def test_parameters_are_equal() -> None:
    sweeper = OmegaConf.load("conf/experiment/local_fields.yaml").hydra.sweeper
    models = {
        model: OmegaConf.to_container(compose_config(f"model={model}").model, resolve=True)
        for part in sweeper.parts.values()
        for model in part.model.split(",")
    }
    counts: dict[str, dict[tuple[str, str], int]] = {name: {} for name in SHAPES}
    for part in sweeper.parts.values():
        for data in part.get("data", sweeper.params.data).split(","):
            for model in part.model.split(","):
                options = {key: value for key, value in models[model].items() if key != "name"}
                options["hidden"] = [
                    int(width) for width in re.findall(r"\d+", part["model.hidden"])
                ]
                with torch.device("meta"):
                    net = build_network(options, inputs=SHAPES[data], outputs=10)
                trained = sum(p.numel() for p in net.parameters() if p.requires_grad)
                counts[data][model, part["model.hidden"]] = trained
    for data, by_model in counts.items():
        fewer = by_model.pop(FEWER)
        assert len(by_model) == 5
        assert max(by_model.values()) < 1.002 * min(by_model.values()), data
        assert fewer < (0.2 if data == "cifar10" else 0.45) * min(by_model.values())
