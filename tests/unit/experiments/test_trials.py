"""The random trials of Table 1."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from focusing.compose import check_config, compose_config
from focusing.data import synthetic
from focusing.errors import UserError
from focusing.experiments.table1_trials import GRIDS, apply_trial, draw


def drawn(seed: int, index: int, variant: str = "text", **options: Any) -> SimpleNamespace:
    """Return a draw with its options, without their groups, as attributes."""
    trial = draw(seed, index, variant, **options)
    values = {name.partition(".")[2]: value for name, value in trial.items()}
    share = values["noise"] / values["informative"]
    if variant != "text" and values["noise_position"] == "sides":
        share /= 2
    level = min((0.0, 0.5, 1.0), key=lambda level: abs(level - share))  # undo the rounding
    return SimpleNamespace(noise_level=level, **values)


TRIALS = [drawn(0, index) for index in range(750)]


def test_a_trial_is_a_function_of_seed_and_number() -> None:
    assert drawn(0, 317) == TRIALS[317]  # independent of earlier draws
    assert drawn(1, 317) != TRIALS[317]
    assert len({trial.seed for trial in TRIALS}) == 750


@pytest.mark.parametrize("variant", ["text", "author", "author2018"])
def test_values_are_drawn_uniformly(variant: str) -> None:
    grid, trials = GRIDS[variant], [drawn(3, index, variant) for index in range(3000)]
    columns = {
        "n_samples": grid.samples,
        "noise_level": grid.noise,
        "noise_position": grid.positions,
        "clusters": grid.clusters,
        "classes": grid.classes,
        "hidden": [[neurons] for neurons in grid.hidden],
        "lr": grid.rates,
        "l2": grid.l2,
    }
    for name, options in columns.items():
        counts = Counter(str(getattr(trial, name)) for trial in trials)
        assert set(counts) == set(map(str, options))
        assert all(abs(n - 3000 / len(options)) < 150 for n in counts.values()), name


def test_grid_of_the_paper() -> None:
    possible = [trial for trial in TRIALS if not trial.changed]
    assert {trial.informative for trial in possible} == {4, 40, 400}
    assert all(trial.noise == trial.noise_level * trial.informative for trial in possible)
    assert {trial.batch_size / trial.n_samples for trial in TRIALS} == {0.1, 0.05}
    assert {(trial.lr, trial.lr_mu, trial.lr_sigma) for trial in TRIALS} == {
        (0.01, 0.01, 0.001),
        (0.001, 0.001, 0.0001),
    }


def test_grid_of_the_notebook() -> None:
    trials = [drawn(0, index, "author") for index in range(200)]
    assert {trial.batch_size for trial in trials} == {512}
    noisy = {trial.noise_position: trial for trial in trials if trial.noise_level == 1}
    assert noisy["sides"].noise == 2 * noisy["sides"].informative
    assert noisy["left"].noise == noisy["left"].informative


@pytest.mark.parametrize(("variant", "length"), [("text", 5), ("author", 32)])
def test_impossible_draws_are_lengthened(variant: str, length: int) -> None:
    trials = [drawn(0, index, variant) for index in range(750)]
    hardest = [t for t in trials if t.classes * t.clusters == 32 and t.informative < 40]
    assert hardest
    for trial in hardest:
        assert trial.changed == f"length 4 raised to {length} for 8 classes x 4 clusters"
        assert trial.informative == length
    for trial in trials:
        assert trial.classes * trial.clusters <= 2**trial.informative
        assert (trial.changed is None) == (trial.informative in GRIDS[variant].lengths)


def test_generator_refuses_impossible_draws() -> None:
    options = {"generator": "classification", "n_samples": 100, "classes": 8, "clusters": 4}
    with pytest.raises(UserError, match="n_classes"):
        synthetic(informative=4, **options)  # type: ignore[arg-type]
    assert synthetic(informative=5, noise=0, **options).inputs == 5  # type: ignore[arg-type]


def test_derived_values_follow_fixed_options() -> None:
    plain = next(trial for trial in TRIALS if trial.noise_level == 1 and trial.n_samples == 10000)
    fixed = {"data.n_samples": 60, "data.informative": 6, "optim.lr": 0.5}
    trial = drawn(0, plain.trial, fixed=fixed)
    assert (trial.n_samples, trial.informative, trial.noise, trial.changed) == (60, 6, 6, None)
    assert trial.batch_size == plain.batch_size * 60 // 10000
    assert (trial.lr_mu, trial.lr_sigma) == (0.5, 0.05)
    assert (trial.seed, trial.l2) == (plain.seed, plain.l2)  # drawn as before
    crowded = drawn(0, plain.trial, fixed={"data.classes": 64, "data.clusters": 8})
    assert crowded.informative >= 9


def test_apply_trial() -> None:
    cfg = compose_config("experiment=table1", "sweep.trial=317", "model=dense")
    untouched = compose_config("experiment=table1")
    before = untouched.copy()
    apply_trial(untouched)
    assert untouched == before  # not a trial
    apply_trial(cfg)
    trial, config = TRIALS[317], check_config(cfg)
    assert config["data"]["n_samples"] == trial.n_samples
    assert config["data"]["seed"] == trial.seed
    assert config["model"]["hidden"] == trial.hidden
    assert config["optim"]["lr"] == trial.lr
    assert config["trainer"]["max_epochs"] == 150
    changed = next(trial for trial in TRIALS if trial.changed)
    untouched.sweep.trial = changed.trial
    apply_trial(untouched)
    assert untouched.sweep.changed == changed.changed


@pytest.mark.parametrize(
    ("seed", "index", "variant", "message"),
    [
        (0, -1, "text", "sweep.trial=-1 must be at least 0"),
        (-1, 0, "text", "seed=-1 must be at least 0"),
        (0, 0, "mine", "variant=mine is not one of text, author"),
    ],
)
def test_invalid_draws_are_refused(seed: int, index: int, variant: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        draw(seed, index, variant)
