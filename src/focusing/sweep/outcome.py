"""What became of one job of a sweep."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from hydra.core.utils import JobReturn, JobStatus

from focusing.errors import UserError

Status = Literal["done", "failed", "busy", "pruned"]


@dataclass(frozen=True)
class Job:
    """One job.

    Attributes:
        index: its place in the sweep, from 0.
        overrides: what makes it differ from the config files.
    """

    index: int
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of a job; plain values, so that it can come from another machine.

    Attributes:
        status: ``busy``: another process is running it.
        earlier: it was so before this sweep looked.
        run_dir: its folder, if its config could tell.
        score: under the config's protocol.
        metric: ``"accuracy"``, or ``"mae"``, of which less is better.
        error: a sentence.
        runs: of a stack, those that failed.
    """

    status: Status
    earlier: bool = False
    run_dir: str | None = None
    score: float | None = None
    metric: str | None = None
    error: str | None = None
    runs: tuple[tuple[Job, Outcome], ...] = ()


class RunsFailedError(UserError):
    """Some runs of a stack failed.

    Args:
        message: a sentence.
        runs: which.
    """

    def __init__(self, message: str, runs: tuple[tuple[Job, Outcome], ...]) -> None:
        super().__init__(message)
        self.runs = runs


def sentence(error: BaseException) -> str:
    """What went wrong, in a line."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}."
    from focusing.compose import explain

    return explain(error) or repr(error)


def failure(error: BaseException) -> Outcome:
    """The outcome of a job that an error ended before it had a folder."""
    return Outcome("failed", error=sentence(error))


def varying(jobs: Sequence[Sequence[str]]) -> set[str]:
    """The options that are not the same in all jobs: these name a job."""
    every = [set(each) for each in jobs]
    everything: set[str] = set().union(*every)
    common = everything.intersection(*every) if len(every) > 1 else set()
    return {each.partition("=")[0] for each in everything - common} - {"+callbacks.trial"}


def label(overrides: Sequence[str], options: Collection[str]) -> str:
    """A short name of a job: what it has for these options."""
    return " ".join(each for each in overrides if each.partition("=")[0] in options) or "the job"


def better(one: Outcome, other: Outcome | None) -> bool:
    """Whether a job scored better than another."""
    if one.score is None:
        return False
    if other is None or other.score is None:
        return True
    return one.score < other.score if one.metric == "mae" else one.score > other.score


def numbered(jobs: Sequence[Sequence[str]], first: int = 0) -> list[Job]:
    """Jobs as launchers are given them."""
    return [Job(first + place, tuple(each)) for place, each in enumerate(jobs)]


def returned(job: Job, outcome: Outcome) -> JobReturn:
    """An outcome as launchers hand it on."""
    return JobReturn(overrides=job.overrides, status=JobStatus.COMPLETED, _return_value=outcome)


def outcome_of(returned: JobReturn) -> Outcome:
    """The outcome in what a launcher returned for a job, also if it broke before ours could."""
    value = returned._return_value
    if isinstance(value, Outcome):
        return value
    if isinstance(value, BaseException):
        return failure(value)
    return Outcome("done", score=value if isinstance(value, float) else None)
