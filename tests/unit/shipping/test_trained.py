"""Loading the network of a run, also from another machine."""

from pathlib import Path
from shutil import copytree

import yaml

from focusing.config import data_dir
from focusing.results.store import read_record
from focusing.shipping.trained import evaluate, load_run
from tests.unit.shipping.conftest import SYNTHETIC, make_run


def test_author2018_network_is_loaded_as_trained(tmp_path: Path) -> None:
    folder = make_run(tmp_path, *SYNTHETIC, "experiment=learning_to_focus", "variant=author2018")
    [layer] = load_run(folder).net.focused_layers().values()
    assert (layer.normalizer, layer.grid, layer.mu_range) == ("mean", "index", (0.01, 0.99))
    assert evaluate(folder)["test/acc"] == read_record(folder)["scores"]["best_test"]["value"]


def test_missing_data_folder_is_replaced_by_the_default(focused: Path, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    copytree(focused, folder)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["paths"]["data_dir"] = str(elsewhere)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert load_run(folder).config["paths"]["data_dir"] == data_dir()
    assert not elsewhere.exists()
