"""Random changes to a batch of images, on whatever device it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Augment:
    """Flips, shifts, shears and zooms each image of a batch by its own random amount.

    As Keras' ImageDataGenerator did for the paper: what is moved in from outside repeats the
    border (``fill_mode="nearest"``), and a shift need not be by whole pixels.

    Args:
        flip: left and right change places in half of the images.
        shift: up to so large a part of the height and of the width, either way.
        shear: up to so many degrees, either way.
        zoom: height and width are scaled by 1 - zoom to 1 + zoom.

    Shape:
        - Input: (N, H, W, C) floats.
        - Output: the same.
    """

    flip: bool = False
    shift: float = 0.0
    shear: float = 0.0
    zoom: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.shift <= 1 or not 0 <= self.shear < 90 or not 0 <= self.zoom < 1:
            raise ValueError(
                f"data.augment: shift={self.shift} must lie in [0, 1], shear={self.shear} in "
                f"[0, 90) and zoom={self.zoom} in [0, 1)."
            )

    def __bool__(self) -> bool:
        return bool(self.flip or self.shift or self.shear or self.zoom)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Change a batch.

        Args:
            images: (N, H, W, C).
            generator: of the CPU, so that all devices see the same changes.
        """
        count = len(images)

        def uniform(half_width: float) -> Tensor:
            return half_width * (2 * torch.rand(count, generator=generator) - 1)

        down, right = uniform(self.shift), uniform(self.shift)
        angle = uniform(math.radians(self.shear))
        tall, wide = 1 + uniform(self.zoom), 1 + uniform(self.zoom)
        mirrored = torch.rand(count, generator=generator) < 0.5
        if not self:
            return images
        if not (self.shift or self.shear or self.zoom):
            turned = mirrored.to(images.device).view(-1, 1, 1, 1)
            return torch.where(turned, images.flip(2), images)
        # From places of the result to places of the original, in units of half the image's size.
        height, width = images.shape[1:3]
        sign = torch.where(mirrored, -1.0, 1.0) if self.flip else torch.ones(count)
        theta = torch.zeros(count, 2, 3)
        theta[:, 0, 0] = sign * wide * torch.cos(angle)
        theta[:, 0, 1] = 0
        theta[:, 0, 2] = sign * 2 * right
        theta[:, 1, 0] = -torch.sin(angle) * wide * width / height
        theta[:, 1, 1] = tall
        theta[:, 1, 2] = 2 * down
        planes = images.permute(0, 3, 1, 2)
        grid = functional.affine_grid(
            theta.to(images.device, images.dtype), list(planes.shape), align_corners=False
        )
        moved = functional.grid_sample(planes, grid, padding_mode="border", align_corners=False)
        return moved.permute(0, 2, 3, 1).contiguous()
