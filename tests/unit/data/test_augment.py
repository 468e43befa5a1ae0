import numpy as np
import pytest
import torch
from scipy import ndimage

from focusing.data.batches import Augment


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


IMAGES = torch.rand(200, 12, 9, 3, generator=seeded(1))


def test_the_same_seed_changes_the_same() -> None:
    augment = Augment(flip=True, shift=0.1, shear=5, zoom=0.1)
    first, second = augment(IMAGES, seeded()), augment(IMAGES, seeded())
    assert torch.equal(first, second)
    assert not torch.equal(first, augment(IMAGES, seeded(2)))
    assert first.shape == IMAGES.shape


def test_a_flip_mirrors_about_half_of_the_images() -> None:
    changed = Augment(flip=True)(IMAGES, seeded())
    kept = (changed == IMAGES).flatten(1).all(1)
    mirrored = (changed == IMAGES.flip(2)).flatten(1).all(1)
    assert bool((kept ^ mirrored).all())
    assert 70 < int(mirrored.sum()) < 130


def test_flips_agree_with_and_without_interpolation() -> None:
    both = [Augment(flip=True, shift=shift)(IMAGES, seeded()) for shift in (0.0, 1e-9)]
    torch.testing.assert_close(*both, atol=1e-5, rtol=0)


def test_a_shift_repeats_the_border_and_is_at_most_what_was_asked() -> None:
    ramp = torch.arange(20.0).view(1, 1, 20, 1).expand(300, 10, 20, 1)
    moved = Augment(shift=0.1)(ramp, seeded())
    change = moved[:, 5, 10, 0] - 10
    assert 1.8 < change.abs().max() <= 2.0001
    assert change.abs().min() < 0.1  # not only whole pixels
    assert moved.min() >= 0
    assert moved.max() <= 19
    right = moved[change.argmax()]
    torch.testing.assert_close(right[:, -1], torch.full((10, 1), 19.0))


@pytest.mark.parametrize("options", [{"shift": 0.2}, {"zoom": 0.3}, {"shear": 20.0}])
def test_it_is_what_scipy_does_as_keras_called_it(options: dict[str, float]) -> None:
    image = torch.rand(1, 15, 11, 1, generator=seeded(3))  # not square
    changed = Augment(**options)(image, seeded(4))[0, ..., 0].numpy()
    random = torch.rand(6, generator=seeded(4)).numpy()  # in the order in which they are drawn
    down, right, angle, tall, wide = 2 * random[:5] - 1
    shear = np.deg2rad(options.get("shear", 0) * angle)
    zoom = 1 + options.get("zoom", 0) * np.array([tall, wide])
    matrix = np.array([[1, -np.sin(shear)], [0, np.cos(shear)]]) @ np.diag(zoom)
    middle = np.array([7.0, 5.0])
    shift = options.get("shift", 0) * np.array([15 * down, 11 * right])
    offset = shift + middle - matrix @ middle
    expected = ndimage.affine_transform(
        image[0, ..., 0].numpy(), matrix, offset, order=1, mode="nearest"
    )
    np.testing.assert_allclose(changed, expected, atol=1e-4)


def test_no_options_change_nothing() -> None:
    assert not Augment()
    assert Augment()(IMAGES, seeded()) is IMAGES


@pytest.mark.parametrize("options", [{"shift": 2}, {"zoom": 1}, {"shear": 90}, {"shift": -0.1}])
def test_impossible_amounts_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"data\.augment: shift="):
        Augment(**options)
