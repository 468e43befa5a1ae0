"""The epochs of a stack: its batches, its scores, and the states that scored best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from focusing.data import Batches, Split
from focusing.sweep.table1.stack import Stack

EVALUATION_BATCH = 1024
State = dict[str, Tensor]


@dataclass
class Course:
    """What became of the networks of a stack; row 2t is the dense one of trial t, 2t + 1 the other.

    Attributes:
        series: metric name -> (rows,) for each epoch; ``focus/sigma_mean`` has a row per trial.
        foci: mu and sigma, (2, T, n, 1), at the start and after each epoch.
        best: of each row, the best value so far of what chooses, and the state that had it.
    """

    series: dict[str, list[Tensor]] = field(default_factory=dict)
    foci: list[Tensor] = field(default_factory=list)
    best: list[tuple[float, State]] = field(default_factory=list)

    def note(self, **row: Tensor) -> None:
        """Add the values of an epoch."""
        for name, values in row.items():
            self.series.setdefault(name, []).append(values.double().cpu())


@torch.inference_mode()
def fit_stack(
    stack: Stack,
    train: Split,
    evaluated: Mapping[str, Split],
    *,
    epochs: int,
    batch_size: int,
    seed: int | None,
    limit: int | None = None,
    drop_last: bool = False,
    chooses: str | None = None,
) -> Course:
    """Train a stack, scoring every epoch.

    Args:
        stack: the networks.
        train: inputs (T, N, m) and targets (T, N), on the stack's device.
        evaluated: the splits that are scored after each epoch, by name.
        epochs: how many.
        batch_size: samples of a batch.
        seed: of the order of the batches, which is that of a single run; None: no shuffling.
        limit: batches per epoch, at most.
        drop_last: leave out samples that do not fill a last batch.
        chooses: the series whose best epoch's states are kept.
    """
    course = Course(best=[(-1.0, {})] * (2 * stack.trials))
    numbers = torch.arange(train.targets.shape[1])
    whole = len(numbers) // batch_size + 1  # an epoch in one piece
    orders = Batches(
        Split(numbers, numbers), batch_size, seed, limit, bundle=whole, drop_last=drop_last
    )
    device = train.targets.device
    course.foci.append(_foci(stack))
    for epoch in range(epochs):
        orders.epoch = epoch
        [order] = [split.targets.to(device) for split in orders]
        targets = train.targets.index_select(1, order)
        units = functional.one_hot(targets, stack.classes).movedim(2, 1).unsqueeze(1)
        batches = torch.split(order, batch_size)
        wanted = torch.split(units.to(train.inputs), batch_size, 3)
        outputs = [
            stack.step(train.inputs.index_select(1, index), unit)
            for index, unit in zip(batches, wanted, strict=True)
        ]
        row = _score("train", outputs, targets)
        stack.look()
        for name, split in evaluated.items():
            outputs = [stack.outputs(x) for x in torch.split(split.inputs, EVALUATION_BATCH, 1)]
            row |= _score(name, outputs, split.targets)
        row["focus/sigma_mean"] = stack.sigma.mean((1, 2))
        course.note(**row)
        course.foci.append(_foci(stack))
        if chooses is not None:
            _keep_best(course, stack, chooses)
    return course


def _score(name: str, outputs: list[Tensor], targets: Tensor) -> dict[str, Tensor]:
    """Loss and accuracy of each network, from outputs (2T, C, b) of batches."""
    output = torch.cat(outputs, 2)
    output = output.view(-1, 2, *output.shape[1:])
    # argmax and logsumexp along an axis that is not the last take many times longer.
    best, chosen = output[:, :, 0].clone(), torch.zeros_like(output[:, :, 0], dtype=torch.int8)
    for number in range(1, output.shape[2]):
        one = output[:, :, number]
        chosen.masked_fill_(one > best, number)
        torch.maximum(best, one, out=best)
    picked = output.gather(2, targets[:, None, None].expand(-1, 2, -1, -1)).squeeze(2)
    rest = (output - best.unsqueeze(2)).exp_().sum(2).log_()
    accuracy = (chosen == targets[:, None]).sum(2).double() / targets.shape[1]
    loss = (rest + best - picked).mean(2)
    return {f"{name}/loss": loss.flatten(), f"{name}/acc": accuracy.flatten()}


def _foci(stack: Stack) -> Tensor:
    return torch.stack([stack.mu, stack.sigma]).float().cpu()


def _keep_best(course: Course, stack: Stack, chooses: str) -> None:
    for row, value in enumerate(course.series[chooses][-1].tolist()):
        if value > course.best[row][0]:
            trial, focused = divmod(row, 2)
            course.best[row] = (value, stack.state(trial, focused=bool(focused)))
