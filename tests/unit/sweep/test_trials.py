"""The draws of Table 1."""

from collections import Counter

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from focusing.compose import check, config_dir, prepare_hydra
from focusing.data import synthetic
from focusing.errors import UserError
from focusing.sweep.table1.trials import GRIDS, apply_trial, draw

TRIALS = [draw(0, index) for index in range(750)]


def composed(*overrides: str) -> DictConfig:
    prepare_hydra()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        return compose("train", ["experiment=table1", *overrides])


def test_a_trial_is_a_function_of_seed_and_number() -> None:
    assert draw(0, 317) == TRIALS[317]  # whatever was drawn before
    assert draw(1, 317) != TRIALS[317]
    assert len({each.data_seed for each in TRIALS}) == 750


@pytest.mark.parametrize("variant", ["paper", "author", "author2018"])
def test_every_value_of_the_grid_is_drawn_equally_often(variant: str) -> None:
    grid, trials = GRIDS[variant], [draw(3, index, variant) for index in range(3000)]
    columns = {
        "n_samples": grid.samples,
        "noise_level": grid.noise,
        "noise_position": grid.positions,
        "clusters": grid.clusters,
        "classes": grid.classes,
        "hidden": grid.hidden,
        "lr": grid.rates,
        "l2": grid.l2,
    }
    for name, options in columns.items():
        counts = Counter(getattr(each, name) for each in trials)
        assert set(counts) == set(options)
        assert all(abs(n - 3000 / len(options)) < 150 for n in counts.values()), name


def test_the_papers_table() -> None:
    possible = [each for each in TRIALS if not each.changed]
    assert {each.length for each in possible} == {4, 40, 400}
    assert all(each.noise == each.noise_level * each.length for each in possible)
    assert {each.batch_size / each.n_samples for each in TRIALS} == {0.1, 0.05}
    assert {(each.lr, each.lr_mu, each.lr_sigma) for each in TRIALS} == {
        (0.01, 0.01, 0.001),
        (0.001, 0.001, 0.0001),
    }


def test_the_notebook_has_noise_on_each_side_and_one_batch_size() -> None:
    trials = [draw(0, index, "author") for index in range(200)]
    assert {each.batch_size for each in trials} == {512}
    sides = next(each for each in trials if (each.noise_position, each.noise_level) == ("sides", 1))
    left = next(each for each in trials if (each.noise_position, each.noise_level) == ("left", 1))
    assert (sides.noise, left.noise) == (2 * sides.length, left.length)


@pytest.mark.parametrize(("variant", "length"), [("paper", 5), ("author", 32)])
def test_impossible_draws_get_a_greater_length_and_say_so(variant: str, length: int) -> None:
    trials = [draw(0, index, variant) for index in range(750)]
    hardest = [each for each in trials if each.classes * each.clusters == 32 and each.length < 40]
    assert hardest
    for each in hardest:
        assert each.changed == f"length 4 raised to {length} for 8 classes x 4 clusters"
        assert each.length == length
    for each in trials:
        assert each.classes * each.clusters <= 2**each.length
        assert (each.changed is None) == (each.length in GRIDS[variant].lengths)


def test_what_is_called_impossible_is_and_what_it_becomes_is_not() -> None:
    options = {"generator": "classification", "n_samples": 100, "classes": 8, "clusters": 4}
    with pytest.raises(UserError, match="n_classes"):
        synthetic(informative=4, **options)  # type: ignore[arg-type]
    assert synthetic(informative=5, noise=0, **options).inputs == 5  # type: ignore[arg-type]


def test_what_follows_from_a_given_option_follows() -> None:
    plain = next(each for each in TRIALS if each.noise_level == 1 and each.n_samples == 10000)
    given = {"data.n_samples": 60, "data.informative": 6, "optim.lr": 0.5}
    trial = draw(0, plain.index, given=given)
    assert (trial.n_samples, trial.length, trial.noise, trial.changed) == (60, 6, 6, None)
    assert trial.batch_size == plain.batch_size * 60 // 10000
    assert (trial.lr_mu, trial.lr_sigma) == (0.5, 0.05)
    assert (trial.data_seed, trial.l2) == (plain.data_seed, plain.l2)  # drawn as ever
    crowded = draw(0, plain.index, given={"data.classes": 64, "data.clusters": 8})
    assert crowded.length >= 9


def test_a_trial_becomes_ordinary_options() -> None:
    cfg = composed("sweep.trial=317", "model=dense")
    apply_trial(cfg)
    trial, config = TRIALS[317], check(cfg)
    assert config["data"]["n_samples"] == trial.n_samples
    assert config["data"]["seed"] == trial.data_seed
    assert config["model"]["hidden"] == [trial.hidden]
    assert config["optim"]["lr"] == trial.lr
    assert config["trainer"]["max_epochs"] == 150
    changed = next(each for each in TRIALS if each.changed)
    cfg = composed(f"sweep.trial={changed.index}")
    apply_trial(cfg)
    assert cfg.sweep.changed == changed.changed


def test_a_run_that_is_no_trial_stays_as_it_is() -> None:
    cfg = composed()
    before = cfg.copy()
    apply_trial(cfg)
    assert cfg == before


@pytest.mark.parametrize(
    ("seed", "index", "variant", "message"),
    [
        (0, -1, "paper", "sweep.trial=-1 must be at least 0"),
        (-1, 0, "paper", "seed=-1 must be at least 0"),
        (0, 0, "mine", "variant=mine is not one of paper, author"),
    ],
)
def test_draws_that_do_not_exist(seed: int, index: int, variant: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        draw(seed, index, variant)
