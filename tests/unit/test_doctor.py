"""``focusing doctor`` finds problems, and works without optional packages."""

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from focusing import doctor
from focusing.doctor import Finding
from focusing.nn.ops import fused
from tests.integration.commands import environment

CPU = torch.device("cpu")
EXTRAS = ("numba", "llvmlite", "triton", "ray", "submitit", "optuna", "shap", "onnx", "onnxruntime")
ROOT = Path(__file__).parents[2]


def test_self_test_passes_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ROUNDS", 1)
    findings = {finding.subject: finding for finding in doctor.self_test(CPU)}
    assert {"cpu engine torch", "cpu steps", "cpu checkpoint", "cpu precision"} <= {*findings}
    assert {finding.status for finding in findings.values()} <= {"ok", "slow"}
    assert not torch.are_deterministic_algorithms_enabled()  # as it was


def test_works_without_extras(tmp_path: Path) -> None:
    """In a process where importing them fails; nothing is downloaded or written."""
    code = f"""if True:
        import sys
        sys.modules.update(dict.fromkeys({EXTRAS}))
        from focusing import cli, doctor
        doctor.ROUNDS = 1
        cli.run_command(['doctor', '--json'])
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(FOCUSING_DATA_DIR=str(tmp_path / "none"), WANDB_MODE="offline"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    findings = {finding["subject"]: finding for finding in answer["findings"]}
    assert {"torch", "memory", "GPU", "numba", "data", "W&B", "SLURM", "ray"} <= {*findings}
    assert "cpu engine numba" not in findings
    assert findings["cpu engine torch"]["status"] == "ok"
    assert "no data sets yet" in findings["data"]["detail"]
    assert not list(tmp_path.iterdir())


def test_wrong_engine_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fused.focused_linear
    monkeypatch.setattr(fused, "focused_linear", lambda *args: right(*args) + 0.01)
    findings = {finding.subject: finding for finding in doctor.check_engines(CPU)}
    assert findings["engine torch"].status == "broken"
    assert "model.backend" in findings["engine torch"].remedy
    assert findings["engine reference"].status == "ok"


def test_checks_that_raise_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: torch.device) -> Iterator[Finding]:
        raise RuntimeError("CUDA error:\nno kernel image")

    for name in ("check_engines", "check_steps", "check_precision"):
        monkeypatch.setattr(doctor, name, fail)
    *broken, last = sorted(doctor.self_test(CPU), key=lambda finding: finding.status)
    assert [finding.status for finding in broken] == ["broken"] * 3
    assert broken[0].detail.startswith("RuntimeError: CUDA error: no kernel image (after")
    assert (last.subject, last.status) == ("cpu checkpoint", "ok")


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("slow", 0), ("absent", 0), ("broken", 1)])
@pytest.mark.parametrize("as_json", [True, False])
def test_exit_code(
    status: str,
    code: int,
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = Finding("GPU", status, "[none]", "Update the driver.")
    monkeypatch.setattr(doctor, "inspect_machine", lambda: [Finding("torch", "ok", "2"), row])
    monkeypatch.setattr(doctor, "devices", list)
    with pytest.raises(SystemExit, match="1") if code else nullcontext():
        doctor.run(Namespace(json=as_json))
    output = capsys.readouterr().out
    assert "[none]" in output
    if as_json:
        expected = status if status != "absent" else "ok"
        assert json.loads(output)["status"] == expected


@pytest.mark.parametrize(
    ("driver", "built", "status"),
    [(None, None, "absent"), ("nvidia-smi", None, "slow"), ("nvidia-smi", "12.8", "broken")],
)
def test_gpu_that_torch_does_not_see(
    driver: str | None, built: str | None, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_accelerator", lambda: None)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: driver)
    monkeypatch.setattr(torch.version, "cuda", built)
    [finding] = doctor._gpus()
    assert finding.status == status
    assert bool(finding.remedy) == (status != "absent")


def test_issue_template_mentions_doctor() -> None:
    assert "focusing doctor" in (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text()
