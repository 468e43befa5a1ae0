import os
from pathlib import Path
from typing import Any

import pytest

from focusing.errors import UserError
from focusing.sweep.local import make_slots, processors


def slots(**options: Any) -> list[tuple[str, int]]:
    found = make_slots(**{"workers": None, "gpus": 0, "per_gpu": 1, "threads": None, **options})
    return [(each.gpu, each.threads) for each in found]


@pytest.fixture(autouse=True)
def _no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_processors_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert slots() == [("", 1)] * processors()
    monkeypatch.setattr("focusing.sweep.local.processors", lambda: 8)
    assert slots(workers=3) == [("", 2)] * 3
    assert slots(workers=20) == [("", 1)] * 20
    assert slots(jobs=1) == [("", 8)]  # fewer jobs than processors have more of them each
    assert slots(workers=2, jobs=100) == [("", 4)] * 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert slots(gpus=2) == [("0", 4), ("1", 4)]
    assert slots(gpus=[1, 3], per_gpu=2, threads=1) == [("1", 1), ("3", 1), ("1", 1), ("3", 1)]
    assert slots(gpus=4, jobs=2) == [("0", 4), ("1", 4)]


def test_what_is_visible_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-a")
    assert [gpu for gpu, _ in slots(gpus="all")] == ["4", "GPU-a"]
    assert [gpu for gpu, _ in slots(gpus=1)] == ["4"]
    assert [gpu for gpu, _ in slots(gpus=[1])] == ["GPU-a"]
    for wrong in (3, [2]):
        with pytest.raises(UserError, match="CUDA_VISIBLE_DEVICES=4,GPU-a names 2"):
            slots(gpus=wrong)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UserError, match="CUDA_VISIBLE_DEVICES= names none"):
        slots(gpus=1)


def test_all_gpus_are_counted_without_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: A (UUID: x)'\necho 'GPU 1: A (UUID: y)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert [gpu for gpu, _ in slots(gpus="all")] == ["0", "1"]
    tool.write_text("#!/bin/sh\nexit 9\n")
    for gpus in ("all", 2, [0]):  # a sweep would go on without one
        with pytest.raises(UserError, match="finds none"):
            slots(gpus=gpus)


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 0},
        {"threads": 0},
        {"gpus": 1, "per_gpu": 0},
        {"gpus": -1},
        {"gpus": "two"},
        {"gpus": True},
        {"gpus": False},
        {"gpus": None},
        {"gpus": []},
        {"gpus": [0, 0]},
        {"gpus": [0, -3]},
        {"gpus": ["x"]},
        {"gpus": 1, "workers": 2},
    ],
)
def test_wrong_numbers_are_refused(wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(UserError, match=r"hydra\.launcher\."):
        slots(**wrong)
