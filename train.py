"""Run an experiment: python train.py model=focus_s data=synthetic. See python train.py --help."""

import hydra
from omegaconf import DictConfig

from focusing.cli import parse_trust_and_help, reporting_errors, train_job
from focusing.compose import prepare_hydra

prepare_hydra()


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> float | None:
    return train_job(cfg)  # focusing.run.train(cfg), with errors reported as one sentence


if __name__ == "__main__":
    with reporting_errors():
        parse_trust_and_help()
        main()
