"""The data of a trained network can be changed as on the command line."""

from pathlib import Path

import pytest

from focusing.compose import override_data
from focusing.config import data_dir
from focusing.errors import UserError

SAVED = {"_target_": "focusing.data.synthetic", "name": "synthetic", "n_samples": 50}


def test_a_change_keeps_the_rest_and_another_choice_begins_from_its_file() -> None:
    for overrides, samples in (([], 50), (["data=synthetic"], 2857)):
        data = override_data(SAVED, [*overrides, "data.noise=4"])
        assert (data["n_samples"], data["noise"]) == (samples, 4)


def test_samples_are_prepared_as_they_were_unless_an_override_changes_that() -> None:
    saved = {"name": "mnist", "preprocess": "pixel_mean"}
    assert override_data(saved, ["data=fashion"])["preprocess"] == "pixel_mean"
    other = override_data(saved, ["data=fashion", "data.preprocess=unit"])
    assert other["preprocess"] == "unit"
    assert "preprocess" not in override_data(saved, ["data=synthetic"])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("data.n_samples=[", "cannot be read"),
        ("data.noise=&", "cannot be read"),
        ("model.sigma=1", "only the data can be changed"),
    ],
)
def test_what_is_no_change(change: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        override_data(SAVED, [change])


def test_the_data_folder_is_the_environments_or_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FOCUSING_DATA_DIR", str(tmp_path))
    assert data_dir() == str(tmp_path)
    monkeypatch.delenv("FOCUSING_DATA_DIR")
    assert data_dir().endswith("focusing")
    assert Path(data_dir()).is_absolute()
