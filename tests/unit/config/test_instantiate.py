"""A config may name what conf/ names, what the user trusts, and nothing that runs programs."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
import yaml
from omegaconf import OmegaConf

from focusing import instantiate as module
from focusing.callbacks import ClipFoci
from focusing.cli import take_trust
from focusing.compose import config_dir
from focusing.config import SCHEMA_TARGETS
from focusing.data import DataSet
from focusing.errors import UserError
from focusing.experiments.trials import sweep_task
from focusing.instantiate import TARGETS, instantiate, trust
from focusing.models import Network
from focusing.sweep import search
from tests.unit.config.foreign import FOREIGN

KINDS = {"callbacks": pl.Callback, "data": DataSet, "models": Network}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module ``own_code`` of a user, whom nobody trusts yet."""
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


def test_builds_what_is_ours() -> None:
    data = instantiate({"_target_": "focusing.data.synthetic", "n_samples": 20}, DataSet)
    assert len(data.train.targets) + len(data.test.targets) == 20
    node = {"_target_": "focusing.models.dense_mlp", "hidden": [3]}
    assert instantiate(node, Network, inputs=(2,), outputs=2)(torch.rand(3, 2)).shape == (3, 2)
    assert isinstance(
        instantiate({"_target_": "focusing.callbacks.ClipFoci"}, pl.Callback), ClipFoci
    )


def test_the_list_is_what_conf_names() -> None:
    named = {"focusing.callbacks.SearchTrial"}  # of a search, which writes its own overrides
    assert "focusing.callbacks.SearchTrial" in Path(search.__file__).read_text()
    for file in config_dir().rglob("*.yaml"):
        if "hydra" not in file.parts:
            text = file.read_text()
            named |= set(_targets(yaml.safe_load(text)))
            for group, schema in re.findall(r"/schema/(\w+)@_here_: (\w+)", text):
                named.add(SCHEMA_TARGETS[group][schema])
    assert named == TARGETS


def _targets(node: Any) -> list[str]:
    if isinstance(node, dict):
        inside = [name for value in node.values() for name in _targets(value)]
        return [*inside, *([node["_target_"]] if "_target_" in node else [])]
    return [name for value in node for name in _targets(value)] if isinstance(node, list) else []


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_everything_listed_is_of_one_kind(name: str) -> None:
    target = module._resolve(name)
    kinds = [package for package, kind in KINDS.items() if module._makes(target, kind)]
    assert kinds == [name.split(".")[1]]


@pytest.mark.parametrize("name", FOREIGN)
def test_nothing_else_is_called_or_imported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "import_module", lambda home: pytest.fail(f"{home} was imported"))
    for kind in KINDS.values():
        with pytest.raises(UserError, match="is refused: a config may only name"):
            instantiate({"_target_": name}, kind)


@pytest.mark.parametrize("kind", KINDS.values())
@pytest.mark.parametrize(
    "node", [None, 3, [], {}, {"hidden": 3}, {"_target_": None}, {"_target_": ["a"]}]
)
def test_says_what_is_no_target(node: Any, kind: type) -> None:
    with pytest.raises(UserError, match="is not a _target_ with its options"):
        instantiate(node, kind)


def test_another_kind_is_refused_before_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def synthetic(**given: Any) -> DataSet:
        pytest.fail("it was called")

    monkeypatch.setattr("focusing.data.synthetic", synthetic)
    with pytest.raises(
        UserError, match=r"focusing\.data\.synthetic is refused: it is not a Callback"
    ):
        instantiate({"_target_": "focusing.data.synthetic"}, pl.Callback)


@pytest.mark.parametrize("wrap", [lambda evil: evil, lambda evil: [3, {"a": evil}]])
def test_a_target_inside_is_refused(wrap: Callable[[Any], Any]) -> None:
    evil = wrap({"_target_": "os.system", "command": "false"})
    with pytest.raises(UserError, match="Progress is given another _target_, which is refused"):
        instantiate({"_target_": "focusing.callbacks.Progress", "interval": evil}, pl.Callback)


def test_says_what_an_object_does_not_take() -> None:
    with pytest.raises(UserError, match=r"focusing\.callbacks\.ClipFoci: .*colour"):
        instantiate({"_target_": "focusing.callbacks.ClipFoci", "colour": 1}, pl.Callback)
    options = {"hidden": [2], "mu": "spread", "sigma": 0.1, "focus": "x"}
    node = {"_target_": "focusing.models.focused_mlp", **options}
    with pytest.raises(UserError, match="focus='x' is not one of gaussian"):
        instantiate(node, Network, inputs=(2,), outputs=2)


def test_users_own_need_their_trust(own: Path) -> None:
    node = {"_target_": "own_code.Watch", "every": 3}
    with pytest.raises(UserError, match="--trust-target own_code.Watch"):
        instantiate(node, pl.Callback)
    assert not own.with_name("imported").exists()
    trust(["own_code.Watch"])
    assert vars(instantiate(node, pl.Callback)) == {"every": 3}
    with pytest.raises(UserError, match="it is not a DataSet"):
        instantiate(node, DataSet)
    with pytest.raises(UserError, match="own_code.make is refused"):  # one name is not the module
        instantiate({"_target_": "own_code.make", "every": 3}, pl.Callback)


def test_a_function_has_to_say_what_it_returns(own: Path) -> None:
    trust(f"own_code.{name}" for name in ("make", "unsaid", "unknown", "missing"))
    assert vars(instantiate({"_target_": "own_code.make", "every": 2}, pl.Callback)) == {"every": 2}
    for name in ("unsaid", "unknown"):
        with pytest.raises(UserError, match="it is not a Callback"):
            instantiate({"_target_": f"own_code.{name}"}, pl.Callback)
    assert not own.with_name("called").exists()
    with pytest.raises(UserError, match=r"own_code.missing cannot be found .*PYTHONPATH"):
        instantiate({"_target_": "own_code.missing"}, pl.Callback)


def test_an_installed_package_may_add_its_own(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = own.parent / "own_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[focusing.targets]\nwatch = own_code:Watch\n")
    monkeypatch.setattr(module, "_installed", module._installed.__wrapped__)
    assert instantiate({"_target_": "own_code.Watch"}, pl.Callback)
    with pytest.raises(UserError, match="own_code.make is refused"):
        instantiate({"_target_": "own_code.make"}, pl.Callback)


def test_trust_is_taken_from_the_command_line(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trusting = "-m --trust-target a.B x=1,2 --config-dir d --trust-target=c.D ~y"
    monkeypatch.setattr(sys, "argv", ["train.py", *trusting.split()])
    take_trust()
    assert sys.argv == ["train.py", "-m", "x=1,2", "--config-dir", "d", "~y"]
    assert module.trusted() == {"a.B", "c.D"}
    for name in ("os", "a b.C", "a..b", "../a.b", "a.b:C", "", "a.b\n"):
        with pytest.raises(UserError, match="not a name like my_module.MyClass"):
            trust([name])


def test_trust_goes_along_to_the_processes_of_a_sweep(own: Path) -> None:
    """But an environment or a config that one of them gets cannot give it."""
    trust(["own_code.Watch"])
    task = sweep_task(print)
    module._trusted.clear()
    task(OmegaConf.create({"sweep": {"stacked": True, "trial": None}}))
    assert module.trusted() == {"own_code.Watch"}


def test_a_command_imports_little_for_it() -> None:
    code = "import sys, focusing.instantiate; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
