"""Batches that are prepared and changed on their way out."""

import torch

from focusing.data import Batches, Split
from focusing.data.batches import Augment, Preparation, resident

BYTES = torch.arange(256, dtype=torch.uint8).repeat(3)[: 20 * 36].view(20, 6, 6, 1)
SPLIT = Split(BYTES, torch.arange(20))
HALVE = Preparation(torch.tensor(0.5), torch.tensor(1.0))


def inputs(batches: Batches) -> torch.Tensor:
    return torch.cat([batch.inputs for batch in batches])


def test_every_batch_is_prepared() -> None:
    assert torch.equal(inputs(Batches(SPLIT, 7, prepare=HALVE)), BYTES * 0.5 + 1)
    shuffled = Batches(SPLIT, 7, seed=3, prepare=HALVE)
    plain = Batches(SPLIT, 7, seed=3)
    assert torch.equal(inputs(shuffled), inputs(plain) * 0.5 + 1)


def test_changes_are_new_in_each_epoch_and_the_same_when_it_is_repeated() -> None:
    batches = Batches(SPLIT, 7, seed=3, prepare=HALVE, augment=Augment(flip=True, shift=0.2))
    first = inputs(batches)
    batches.epoch = 1
    second = inputs(batches)
    batches.epoch = 0
    assert torch.equal(inputs(batches), first)
    batches.seed = None
    assert not torch.equal(first, second)
    changed = inputs(batches)
    batches.augment_seed = 1
    assert not torch.equal(inputs(batches), changed)


def test_the_data_itself_does_not_change() -> None:
    before = BYTES.clone()
    inputs(Batches(SPLIT, 7, prepare=HALVE, augment=Augment(shift=0.2)))
    assert torch.equal(BYTES, before)


def test_batches_go_to_the_device_on_which_they_are_used() -> None:
    elsewhere = torch.device("meta")
    for batches in (Batches(SPLIT, 7, device=elsewhere), Batches(SPLIT, 7, 3, device=elsewhere)):
        assert {batch.targets.device for batch in batches} == {elsewhere}
    assert resident(SPLIT, elsewhere).inputs.device == elsewhere
