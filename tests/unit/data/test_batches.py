"""Batches, preparation and augmentation, which depend only on seed and epoch."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from focusing.config import drops_last_batch
from focusing.data import Batches, Split
from focusing.data.batches import Augment, Preparation, epoch_seed, move_if_fits

BYTES = torch.arange(256, dtype=torch.uint8).repeat(3)[: 20 * 36].view(20, 6, 6, 1)
SPLIT = Split(BYTES, torch.arange(20))
HALVE = Preparation(torch.tensor(0.5), torch.tensor(1.0))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def order(batches: Batches) -> list[int]:
    return torch.cat([batch.targets for batch in batches]).tolist()


def inputs(batches: Batches) -> torch.Tensor:
    return torch.cat([batch.inputs for batch in batches])


def test_an_epoch_has_each_sample_once() -> None:
    batches = Batches(SPLIT, 8, seed=0)
    assert [len(batch.targets) for batch in batches] == [8, 8, 4]
    assert len(batches) == 3
    assert sorted(order(batches)) == list(range(20))
    assert all(torch.equal(batch.inputs, BYTES[batch.targets]) for batch in batches)
    assert order(Batches(SPLIT, 3)) == list(range(20))


def test_the_order_depends_only_on_seed_and_epoch() -> None:
    one, two = Batches(SPLIT, 4, seed=3), Batches(SPLIT, 4, seed=3)
    list(one)
    torch.rand(5)
    two.epoch = one.epoch = 7
    assert order(one) == order(two)
    two.epoch = 8
    assert order(one) != order(two)
    assert order(Batches(SPLIT, 4, seed=0)) != order(Batches(SPLIT, 4, seed=1))
    seeds = {epoch_seed(s, e, k) for s in range(9) for e in range(9) for k in range(2)}
    assert len(seeds) == 162
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_limit_and_drop_last() -> None:
    assert order(Batches(SPLIT, 3, limit=2)) == list(range(6))
    shuffled = Batches(SPLIT, 3, seed=0, limit=2)
    assert (len(shuffled), len(order(shuffled))) == (2, 6)
    assert len(order(Batches(SPLIT, 3, limit=99))) == 20
    assert [len(batch.targets) for batch in Batches(SPLIT, 8, seed=0, drop_last=True)] == [8, 8]
    assert len(order(Batches(SPLIT, 8, limit=1, drop_last=True))) == 8


def test_a_bundle_holds_the_same_batches_in_the_same_order() -> None:
    single, bundled = Batches(SPLIT, 6, seed=5), Batches(SPLIT, 6, seed=5, bundle=2)
    assert len(bundled) == 2
    chunks = [batch for bundle in bundled for batch in bundle.chunks(6)]
    assert [batch.targets.tolist() for batch in chunks] == [b.targets.tolist() for b in single]


@pytest.mark.parametrize(
    ("drop_last", "samples", "batch_norm", "expected"),
    [
        ("auto", 1250, True, True),  # spoken digits: a last batch of 2
        ("auto", 1250, False, False),
        ("auto", 1249, False, True),  # a single sample, which has no spread
        ("auto", 1255, True, True),
        ("auto", 1256, True, False),  # a quarter of a batch
        ("auto", 2, True, False),  # the only batch
        (True, 1279, False, True),
        (True, 31, False, False),
        (False, 1249, True, False),
    ],
)
def test_auto_drops_a_batch_too_small_for_batch_norm(
    drop_last: bool | str, samples: int, batch_norm: bool, expected: bool
) -> None:
    assert drops_last_batch(drop_last, samples, 32, batch_norm=batch_norm) is expected


def test_preparation_does_not_change_the_data() -> None:
    before = BYTES.clone()
    assert torch.equal(inputs(Batches(SPLIT, 7, prepare=HALVE)), BYTES * 0.5 + 1)
    shuffled, plain = Batches(SPLIT, 7, seed=3, prepare=HALVE), Batches(SPLIT, 7, seed=3)
    assert torch.equal(inputs(shuffled), inputs(plain) * 0.5 + 1)
    inputs(Batches(SPLIT, 7, prepare=HALVE, augment=Augment(shift=0.2)))
    assert torch.equal(BYTES, before)


def test_augmentation_differs_between_epochs_and_is_reproducible() -> None:
    options = {"prepare": HALVE, "augment": Augment(flip=True, shift=0.2)}
    batches = Batches(SPLIT, 7, **options)
    first = inputs(batches)
    batches.epoch = 1
    assert not torch.equal(inputs(batches), first)
    batches.epoch = 0
    assert torch.equal(inputs(batches), first)
    assert not torch.equal(inputs(Batches(SPLIT, 7, augment_seed=1, **options)), first)


def test_batches_are_moved_to_the_device() -> None:
    elsewhere, changes = torch.device("meta"), {"prepare": HALVE, "augment": Augment(shift=0.1)}
    for batches in (
        Batches(SPLIT, 7, device=elsewhere),
        Batches(SPLIT, 7, seed=3, device=elsewhere, **changes),
    ):
        assert {batch.inputs.device for batch in batches} == {elsewhere}
        assert {batch.targets.device for batch in batches} == {elsewhere}
    assert move_if_fits(SPLIT, elsewhere).inputs.device == elsewhere


RAW = np.random.default_rng(0).integers(0, 256, (5000, 4, 3, 2), dtype=np.uint8)
SOUND = np.random.default_rng(2).normal(0, [[1], [50]], (30, 2, 9))[..., None]
TABLE = np.random.default_rng(1).normal(5, [1, 9, 0], (100, 3))


def prepare(kind: str, values: np.ndarray = RAW, **more) -> np.ndarray:
    return Preparation.fit(kind, values, **more)(torch.from_numpy(values)).numpy()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("author", RAW / 256 * 4 - 2),
        ("unit", RAW / 255),
        ("none", RAW),
        ("pixel_mean", RAW / 255 - (RAW / 255).mean(0)),
    ],
)
def test_kinds_of_preprocessing(kind: str, expected: np.ndarray) -> None:
    result = prepare(kind)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("values", "stat_axes", "axes", "spread"),
    [
        (RAW, (-1,), (0, 1, 2), [1, 1]),  # per colour
        (TABLE, (-1,), (0,), [1, 1, 0]),  # per column; a constant stays one
        (SOUND, (1,), (0, 2, 3), [1, 1]),  # per coefficient
    ],
)
def test_standard_has_zero_mean_and_unit_variance(
    values: np.ndarray, stat_axes: tuple[int], axes: tuple[int, ...], spread: list[int]
) -> None:
    result = prepare("standard", values, stat_axes=stat_axes).astype(np.float64)
    np.testing.assert_allclose(result.mean(axes), 0, atol=1e-5)
    np.testing.assert_allclose(result.std(axes), spread, atol=1e-5)


def test_statistics_come_only_from_the_training_samples() -> None:
    fitted = Preparation.fit("standard", RAW[:100])
    np.testing.assert_allclose(fitted(torch.from_numpy(RAW[:100])).mean(), 0, atol=1e-6)
    assert abs(fitted(torch.full((5, 4, 3, 2), 255.0)).mean()) > 1
    values = torch.ones(2, 3)
    Preparation.fit("unit", values.numpy())(values)
    assert values.eq(1).all()  # not changed in place


IMAGES = torch.rand(200, 12, 9, 3, generator=seeded(1))


def test_a_flip_mirrors_about_half_of_the_images() -> None:
    changed = Augment(flip=True)(IMAGES, seeded())
    kept = (changed == IMAGES).flatten(1).all(1)
    mirrored = (changed == IMAGES.flip(2)).flatten(1).all(1)
    assert bool((kept ^ mirrored).all())
    assert 70 < int(mirrored.sum()) < 130
    interpolated = Augment(flip=True, shift=1e-9)(IMAGES, seeded())
    torch.testing.assert_close(changed, interpolated, atol=1e-5, rtol=0)


@pytest.mark.parametrize("options", [{"shift": 0.2}, {"zoom": 0.3}, {"shear": 20.0}])
def test_augmentation_matches_scipy_as_used_by_keras(options: dict[str, float]) -> None:
    image = torch.rand(1, 15, 11, 1, generator=seeded(3))  # not square
    changed = Augment(**options)(image, seeded(4))[0, ..., 0].numpy()
    random = torch.rand(6, generator=seeded(4)).numpy()  # in the order in which they are drawn
    down, right, angle, tall, wide = 2 * random[:5] - 1
    shear = np.deg2rad(options.get("shear", 0) * angle)
    zoom = 1 + options.get("zoom", 0) * np.array([tall, wide])
    matrix = np.array([[1, -np.sin(shear)], [0, np.cos(shear)]]) @ np.diag(zoom)
    centre = np.array([7.0, 5.0])
    shift = options.get("shift", 0) * np.array([15 * down, 11 * right])
    expected = ndimage.affine_transform(
        image[0, ..., 0].numpy(), matrix, shift + centre - matrix @ centre, order=1, mode="nearest"
    )
    np.testing.assert_allclose(changed, expected, atol=1e-4)
