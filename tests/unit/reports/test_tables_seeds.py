"""Seeds that learnt, and options that validation chooses."""

from pathlib import Path

import pytest

from focusing.reports.tables.experiments import chosen_tables, learnt_tables
from focusing.results.collect import collect
from tests.unit.reports.records import leave, texts

CLASSES = {"classes": 10}


def test_seeds_that_learnt(tmp_path: Path) -> None:
    for seed, (score, spread) in enumerate([(0.9, 0.2), (0.1, 0.0), (0.56, 0.1)]):
        leave(
            tmp_path, "e", "clt", "dynamic_2d", seed, [score], val=[score], sizes=CLASSES,
            measured={"windows": {"spread": spread}},
        )  # fmt: skip
    leave(tmp_path, "e", "clt", "dense", 0, [0.2], val=[0.2], sizes=CLASSES)
    [table] = learnt_tables(collect([tmp_path]))
    assert [column.title for column in table.columns][3:5] == ["learnt", "from"]
    [row] = texts(table)
    assert row[1:] == ["Dynamic-2d", "", "2 of 3", "55", "10.00", "52.00", "90.00", "0.100", "1"]
    [record] = table.records
    assert (record["learnt"], record["runs"], record["failed_seeds"]) == (2, 3, "1")
    assert record["threshold"] == pytest.approx(55)


def test_validation_chooses_and_the_test_data_does_not(tmp_path: Path) -> None:
    cache = tmp_path / "cache.json"
    for sigma, val, test in ((0.1, [0.2, 0.8], [0.1, 0.5]), (0.2, [0.7, 0.1], [0.9, 0.1])):
        for seed in (0, 1):
            options = {"model.sigma": sigma}
            leave(tmp_path, "e", "clt", "fixed_2d", seed, test, val=val, options=options)
    leave(tmp_path, "e", "clt", "focus_2d", 0, [0.6], val=[0.6])
    for _ in range(2):  # from records, then from the cache
        [table] = chosen_tables(collect([tmp_path], cache))
        [row] = texts(table)
        assert row[1:] == ["Fixed-2d", "sigma=0.1", "sigma=0.2", "2", "80.00", "50.00"]


def test_fixed_foci_are_no_rivals_of_trained_ones(tmp_path: Path) -> None:
    """As in experiment=attention, where both are the same model."""
    for train, val in ((True, 0.9), (False, 0.7)):
        for sigma in (0.1, 0.2):
            options = {"model.sigma": sigma, "model.train_mu": train, "model.train_sigma": train}
            leave(tmp_path, "e", "clt", "m", 0, [0.5], val=[val + sigma / 10], options=options)
    [table] = chosen_tables(collect([tmp_path]))
    assert sorted(row[-2] for row in texts(table)) == ["72.00", "92.00"]


def test_nothing_to_choose(tmp_path: Path) -> None:
    leave(tmp_path, "e", "clt", "fixed_2d", 0, [0.5], val=[0.5])
    for sigma in (0.1, 0.2):  # without a validation split
        leave(tmp_path, "f", "clt", "fixed_2d", 0, [0.5], options={"model.sigma": sigma})
    for noise in ("image", "audio"):  # other data
        leave(tmp_path, "g", "clt", "dense", 0, [0.5], val=[0.5], options={"data.noise": noise})
    assert chosen_tables(collect([tmp_path])) == []
    assert learnt_tables(collect([tmp_path])) == []
