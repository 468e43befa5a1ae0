"""Loading the network of a run, also from another machine."""

from pathlib import Path
from shutil import copytree

import pytest
import yaml

from focusing.config import data_dir
from focusing.errors import UserError
from focusing.results.store import read_record, write_record
from focusing.shipping.trained import evaluate, load_run
from tests.unit.shipping.conftest import SYNTHETIC, make_run


def test_author2018_network_is_loaded_as_trained(tmp_path: Path) -> None:
    folder = make_run(tmp_path, *SYNTHETIC, "experiment=learning_to_focus", "variant=author2018")
    [layer] = load_run(folder).net.focused_layers().values()
    assert (layer.normalizer, layer.grid, layer.mu_range) == ("mean", "index", (0.01, 0.99))
    assert evaluate(folder)["test/acc"] == read_record(folder)["scores"]["best_test"]["value"]


def test_an_unfinished_run_says_so(
    focused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load_run(focused)
    assert capsys.readouterr().err == ""
    folder = tmp_path / "run"
    copytree(focused, folder)
    record = read_record(folder)
    write_record(folder, record | {"status": "failed", "error": "It diverged."})
    load_run(folder)
    (folder / "result.json").unlink()
    load_run(folder)
    assert capsys.readouterr().err == 2 * f"Note: the run {folder} has not finished.\n"
    best = folder / "checkpoints" / "best.ckpt"
    best.write_bytes(b"torn")
    with pytest.raises(UserError, match="the command that trained it writes it again"):
        load_run(folder)
    best.unlink()
    with pytest.raises(UserError, match=r"has no best\.ckpt: run the same command again"):
        load_run(folder)


def test_missing_data_folder_is_replaced_by_the_default(focused: Path, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    copytree(focused, folder)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["paths"]["data_dir"] = str(elsewhere)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert load_run(folder).config["paths"]["data_dir"] == data_dir()
    assert not elsewhere.exists()
