"""A run folder may come from anybody, and from any machine."""

from pathlib import Path
from shutil import copytree

import yaml

from focusing.compose import data_dir
from focusing.shipping.trained import load_run


def test_a_data_folder_of_another_machine_is_not_made(focused: Path, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    copytree(focused, folder)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["paths"]["data_dir"] = str(elsewhere)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert load_run(folder).config["paths"]["data_dir"] == data_dir()
    assert not elsewhere.exists()
