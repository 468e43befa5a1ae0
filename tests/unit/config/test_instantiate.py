"""Configs, including Hydra's own part, may name allow-listed and trusted callables only."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from omegaconf import OmegaConf

from focusing import instantiate as module
from focusing.callbacks import ClipFoci
from focusing.cli import parse_trust_and_help
from focusing.compose import compose_config, config_dir, prepare_hydra
from focusing.config import SCHEMA_TARGETS
from focusing.data import DataSet
from focusing.errors import UserError
from focusing.instantiate import TARGETS, check_hydra, instantiate, trust
from focusing.models import Network
from focusing.sweep import search

NAMES = """
os.system builtins.eval subprocess.Popen numpy.zeros focusing_evil.Thing focusing focusing.data
focusing.models.network.torch.load focusing.data.image_sets.mnist focusing.models.Network
focusing.models.MLP focusing.nn.FocusedLinear focusing.cli.main focusing.data.download.download
focusing.data.dataset.ImageOptions focusing.reports.report.main focusing.results.store.json.loads
focusing.results.record.subprocess.Popen focusing.results.store.write_record focusing.run.train
focusing.shipping.prune.run focusing.training.loggers.MetricsFile torch.os.system torch.load
torch.hub.load torch.nn.Module torch.nn.Linear torch.PyTorchFileWriter torch.distributed.FileStore
torch.distributed.elastic.multiprocessing.subprocess_handler.SubprocessHandler
torch.distributed.elastic.rendezvous.etcd_server.EtcdServer torch.fx.GraphModule
torch.distributed.launcher.api.elastic_launch torch.multiprocessing.pool.Pool
torch.package.PackageImporter torch.profiler.profile torch.utils.benchmark.Timer
torch.utils.cpp_extension.load torch.utils.data.DataLoader torch.utils.tensorboard.SummaryWriter
torch._inductor.codecache.PyCodeCache torch._weights_only_unpickler.Unpickler
torchmetrics.text.bert.BERTScore pytorch_lightning.LightningModule.load_from_checkpoint
pytorch_lightning.Trainer pytorch_lightning.callbacks.LambdaCallback
pytorch_lightning.callbacks.ModelCheckpoint pytorch_lightning.cli.LightningCLI
pytorch_lightning.loggers.CSVLogger pytorch_lightning.strategies.DDPStrategy
pytorch_lightning.strategies.launchers.subprocess_script._SubprocessScriptLauncher
"""
"""Dangerous callables, most of which an allow-list of packages would let through."""
KINDS = {"callbacks": pl.Callback, "data": DataSet, "models": Network}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module ``own_code`` of the user, which is not trusted yet."""
    monkeypatch.setattr(module, "_trusted", set())
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_code", raising=False)
    path = tmp_path / "own_code.py"
    path.write_text(
        "from pathlib import Path\n"
        "import pytorch_lightning as pl\n"
        "Path(__file__).with_name('imported').touch()\n"
        "class Watch(pl.Callback):\n"
        "    def __init__(self, every=1): self.every = every\n"
        "def make(every) -> Watch: return Watch(every)\n"
        "def unsaid(): Path(__file__).with_name('called').touch()\n"
        "def unknown() -> 'Nothing': unsaid()\n"
    )
    return path


def test_own_targets_are_built() -> None:
    data = instantiate({"_target_": "focusing.data.synthetic", "n_samples": 20}, DataSet)
    assert len(data.train.targets) + len(data.test.targets) == 20
    node = {"_target_": "focusing.models.dense_mlp", "hidden": [3]}
    assert instantiate(node, Network, inputs=(2,), outputs=2)(torch.rand(3, 2)).shape == (3, 2)
    node = {"_target_": "focusing.callbacks.ClipFoci"}
    assert isinstance(instantiate(node, pl.Callback), ClipFoci)


def test_allow_list_equals_the_targets_in_conf() -> None:
    named = {"focusing.callbacks.SearchTrial"}  # added by the overrides of a search
    assert "focusing.callbacks.SearchTrial" in Path(search.__file__).read_text()
    for file in config_dir().rglob("*.yaml"):
        if "hydra" not in file.parts:
            text = file.read_text()
            named |= set(re.findall(r"\b_target_: ([\w.]+)", text))
            for group, schema in re.findall(r"/schema/(\w+)@_here_: (\w+)", text):
                named.add(SCHEMA_TARGETS[group][schema])
    assert named == TARGETS


def test_every_target_returns_one_kind() -> None:
    for name in TARGETS:
        target = module._resolve(name)
        kinds = [package for package, kind in KINDS.items() if module._makes(target, kind)]
        assert kinds == [name.split(".")[1]]


@pytest.mark.parametrize("kind", KINDS.values())
def test_other_names_are_rejected_without_importing(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "import_module", lambda home: pytest.fail(f"{home} was imported"))
    for name in NAMES.split():
        with pytest.raises(UserError, match=f"{name} is refused: a config may only name"):
            instantiate({"_target_": name}, kind)
    for node in (None, 3, [], {}, {"hidden": 3}, {"_target_": None}, {"_target_": ["a"]}):
        with pytest.raises(UserError, match="is not a _target_ with its options"):
            instantiate(node, kind)


def test_targets_of_another_kind_are_rejected_without_calling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def synthetic(**options: Any) -> DataSet:
        pytest.fail("it was called")

    monkeypatch.setattr("focusing.data.synthetic", synthetic)
    with pytest.raises(UserError, match="focusing.data.synthetic is refused: it is not a Callback"):
        instantiate({"_target_": "focusing.data.synthetic"}, pl.Callback)


@pytest.mark.parametrize(
    "wrap", [lambda evil: evil, lambda evil: [3, {"a": evil}], lambda evil: {"_target_": evil}]
)
def test_nested_targets_are_rejected(wrap: Callable[[Any], Any]) -> None:
    evil = wrap({"_target_": "os.system", "command": "false"})
    with pytest.raises(UserError, match="Progress is given another _target_, which is refused"):
        instantiate({"_target_": "focusing.callbacks.Progress", "interval": evil}, pl.Callback)


def test_message_for_unknown_and_invalid_arguments() -> None:
    with pytest.raises(UserError, match=r"focusing\.callbacks\.ClipFoci: .*colour"):
        instantiate({"_target_": "focusing.callbacks.ClipFoci", "colour": 1}, pl.Callback)
    options = {"hidden": [2], "mu": "spread", "sigma": 0.1, "focus": "x"}
    node = {"_target_": "focusing.models.focused_mlp", **options}
    with pytest.raises(UserError, match="focus='x' is not one of gaussian"):
        instantiate(node, Network, inputs=(2,), outputs=2)


def test_own_callables_need_trust(own: Path) -> None:
    node = {"_target_": "own_code.Watch", "every": 3}
    with pytest.raises(UserError, match="--trust-target own_code.Watch"):
        instantiate(node, pl.Callback)
    assert not own.with_name("imported").exists()
    trust(["own_code.Watch"])
    assert vars(instantiate(node, pl.Callback)) == {"every": 3}
    with pytest.raises(UserError, match="it is not a DataSet"):
        instantiate(node, DataSet)
    with pytest.raises(UserError, match="own_code.make is refused"):  # trust is per name
        instantiate({"_target_": "own_code.make", "every": 3}, pl.Callback)


def test_functions_need_a_return_annotation(own: Path) -> None:
    trust(f"own_code.{name}" for name in ("make", "unsaid", "unknown", "missing"))
    assert vars(instantiate({"_target_": "own_code.make", "every": 2}, pl.Callback)) == {"every": 2}
    for name in ("unsaid", "unknown"):
        with pytest.raises(UserError, match="it is not a Callback"):
            instantiate({"_target_": f"own_code.{name}"}, pl.Callback)
    assert not own.with_name("called").exists()
    with pytest.raises(UserError, match=r"own_code.missing cannot be found .*PYTHONPATH"):
        instantiate({"_target_": "own_code.missing"}, pl.Callback)


def test_entry_points_add_targets(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = own.parent / "own_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[focusing.targets]\nwatch = own_code:Watch\n")
    monkeypatch.setattr(module, "_installed", module._installed.__wrapped__)
    assert instantiate({"_target_": "own_code.Watch"}, pl.Callback)
    with pytest.raises(UserError, match="own_code.make is refused"):
        instantiate({"_target_": "own_code.make"}, pl.Callback)


def test_trust_target_is_removed_from_the_command_line(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = "-m --trust-target a.B --config-dir d x=1,2 --trust-target=c.D ~y"
    monkeypatch.setattr(sys, "argv", ["train.py", *trusting.split()])
    parse_trust_and_help()
    assert sys.argv == ["train.py", "-m", "--config-dir", "d", "x=1,2", "~y"]
    assert module.trusted() == {"a.B", "c.D"}
    for name in ("os", "a b.C", "a..b", "../a.b", "a.b:C", "", "a.b\n"):
        with pytest.raises(UserError, match="not a name like my_module.MyClass"):
            trust([name])


EVIL = {
    "_target_": "torch.distributed.elastic.multiprocessing.subprocess_handler.SubprocessHandler"
}


def hydra_part(**parts: Any) -> Any:
    """The default ``hydra`` node of a config, with some changes."""
    plugin = {"_target_": "hydra_plugins.x.Y", "folder": "${hydra.sweep.dir}/x", "more": None}
    known: dict[str, Any] = {
        "job": {"env_set": {}, "name": "train"},
        "sweep": {"dir": "."},
        "runtime": {"output_dir": "???"},
        "callbacks": {},
        "launcher": plugin,
        "sweeper": plugin,
        "hydra_logging": {"handlers": {"a": {"class": "logging.StreamHandler"}}},
        "job_logging": None,
    }
    return OmegaConf.create({"hydra": {**known, **parts}, "evil": EVIL, "os": "os"}).hydra


def handler(key: str, value: str, **more: Any) -> dict[str, Any]:
    return {"root": {"level": "INFO"}, "handlers": {"one": {key: value, **more}}}


FILE = "${hydra.runtime.output_dir}/${hydra.job.name}.log"


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"job_logging": handler("class", "logging.FileHandler", filename=FILE)},
        {"job_logging": handler("class", "logging.StreamHandler", stream="ext://sys.stdout")},
        {"launcher": None, "sweeper": {"_target_": "x.Y", "params": {"a": ["b", 1]}}},
    ],
)
def test_harmless_hydra_configs_pass(parts: dict[str, Any]) -> None:
    check_hydra(hydra_part(**parts), sweeps=True)


@pytest.mark.parametrize(
    ("parts", "option"),
    [
        ({"callbacks": {"x": EVIL}}, r"callbacks\.x\._target_"),
        ({"callbacks": {"x": "${evil}"}}, r"callbacks\.x\._target_"),
        (
            {"callbacks": {"x": {"y": [{"_target_": "${os}.system"}]}}},
            r"y\.0\._target_='os.system'",
        ),
        ({"launcher": {"_target_": "hydra_plugins.x.Y", "a": EVIL}}, r"launcher\.a\._target_"),
        ({"sweeper": {"_target_": "x.Y", "a": [{"b": EVIL}]}}, r"sweeper\.a\.0\.b\._target_"),
        ({"sweeper": {"_target_": "x.Y", "a": "${evil}"}}, r"sweeper\.a\._target_"),
        ({"job": {"env_set": {"GIT_CONFIG_COUNT": "1"}}}, r"job\.env_set"),
        ({"job_logging": handler("class", "subprocess.Popen")}, r"one\.class='subprocess.Popen'"),
        ({"hydra_logging": handler("()", EVIL["_target_"])}, r"hydra_logging\.handlers\.one\.\(\)"),
        ({"job_logging": handler("class", "${os}.X")}, r"one\.class"),
        ({"job_logging": handler("stream", "ext://os.system")}, r"one\.stream"),
        ({"job_logging": handler("filename", "/etc/passwd")}, r"one\.filename"),
        ({"job_logging": handler("mode", "w")}, r"one\.mode"),
        ({"job_logging": {"handlers": "${evil}"}}, r"job_logging\.handlers"),
        ({"job_logging": "${evil}"}, "job_logging"),
    ],
)
def test_harmful_hydra_configs_are_rejected(parts: dict[str, Any], option: str) -> None:
    with pytest.raises(UserError, match=rf"^hydra\..*{option}.* is refused"):
        check_hydra(hydra_part(**parts), sweeps=True)


def test_own_hydra_callbacks_need_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_trusted", {"my_code.Watch"})
    check_hydra(hydra_part(callbacks={"x": {"_target_": "my_code.Watch"}}), sweeps=False)
    with pytest.raises(UserError, match="add --trust-target my_code.Other"):
        check_hydra(hydra_part(callbacks={"x": {"_target_": "my_code.Other"}}), sweeps=False)


@pytest.mark.parametrize("choice", ["default", "none"])
@pytest.mark.usefixtures("hydra")
def test_hydras_own_logging_configs_pass(choice: str) -> None:
    assert compose_config(f"hydra/job_logging={choice}")


@pytest.mark.usefixtures("hydra")
def test_every_composed_config_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "touched"
    prepare_hydra()  # again
    evil = f"+hydra.callbacks.x={{_target_:{EVIL['_target_']},entrypoint:touch,args:[{file}]}}"
    with pytest.raises(UserError, match=r"hydra\.callbacks\.x\._target_"):
        compose_config(evil)
    assert not file.exists()
