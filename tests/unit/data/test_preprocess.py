import numpy as np
import pytest
import torch

from focusing.data.batches import Preparation
from focusing.errors import UserError

IMAGES = np.random.default_rng(0).integers(0, 256, (5000, 4, 3, 2), dtype=np.uint8)


def prepare(kind: str, values: np.ndarray = IMAGES, **more) -> np.ndarray:
    return Preparation.fit(kind, values, **more)(torch.from_numpy(values)).numpy()


def test_the_author_scales_to_minus_two_to_two() -> None:
    np.testing.assert_array_equal(prepare("author"), IMAGES / 256 * 4 - 2)


def test_unit_is_zero_to_one() -> None:
    np.testing.assert_allclose(prepare("unit"), IMAGES / 255, atol=1e-7)


def test_none_is_the_values_as_floats() -> None:
    result = prepare("none")
    np.testing.assert_array_equal(result, IMAGES)
    assert result.dtype == np.float32


def test_standard_is_per_colour() -> None:
    result = prepare("standard").astype(np.float64)
    np.testing.assert_allclose(result.mean((0, 1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(result.std((0, 1, 2)), 1, atol=1e-6)


def test_standard_of_a_table_is_per_column_and_spares_constants() -> None:
    table = np.random.default_rng(1).normal(5, [1, 9, 0], (100, 3))
    result = prepare("standard", table, top=1.0)
    np.testing.assert_allclose(result.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(result.std(0), [1, 1, 0], atol=1e-5)


def test_standard_of_sound_is_per_coefficient() -> None:
    sound = np.random.default_rng(2).normal(0, [[1], [50]], (30, 2, 9))[..., None]
    result = prepare("standard", sound, top=1.0, keep=(1,))
    np.testing.assert_allclose(result.std((0, 2, 3)), 1, atol=1e-5)


def test_pixel_mean_is_zero_for_each_pixel() -> None:
    result = prepare("pixel_mean")
    np.testing.assert_allclose(result.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(result, IMAGES / 255 - (IMAGES / 255).mean(0), atol=1e-6)


def test_statistics_come_from_the_training_samples_alone() -> None:
    made = Preparation.fit("standard", IMAGES[:100])
    np.testing.assert_allclose(made(torch.from_numpy(IMAGES[:100])).mean(), 0, atol=1e-6)
    assert abs(made(torch.full((5, 4, 3, 2), 255.0)).mean()) > 1


def test_floats_are_not_changed_in_place() -> None:
    values = torch.ones(2, 3)
    Preparation.fit("unit", values.numpy())(values)
    assert values.eq(1).all()


def test_other_names_are_refused() -> None:
    with pytest.raises(UserError, match="data.preprocess=zscore is not one of author, unit"):
        prepare("zscore")
