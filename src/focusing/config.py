"""Schema of a run's config: names, types, defaults and ranges of all options.

The dataclasses here define the options of ``optim``, ``trainer`` and so on. The options of networks
and data sets are the parameters of the functions that read them: :func:`group_schemas` derives
their schemas. The YAML files in conf/ set the values, with comments, but define no options.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, make_dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from annotated_types import Ge, Gt, Le, Lt
from omegaconf import MISSING

from focusing.validation import OneOf

NonNegative = Annotated[float, Ge(0)]
Positive = Annotated[float, Gt(0)]
Count = Annotated[int, Ge(0)]
AtLeastOne = Annotated[int, Ge(1)]
Share = Annotated[float, Ge(0), Lt(1)]
PRECISIONS = ("32-true", "64-true", "bf16-mixed", "bf16-true", "16-mixed")


@dataclass
class FociOptim:
    """A separate optimizer for the foci; its learning rates are ``optim.lr_mu`` and so on."""

    name: str | None = None
    momentum: Share | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Optim:
    """How weights and foci are trained."""

    name: str = MISSING
    lr: Positive = MISSING
    lr_mu: NonNegative = MISSING
    lr_sigma: NonNegative = MISSING
    lr_dynamic: NonNegative = 0.003
    momentum: Share | None = None
    options: dict[str, Any] = field(default_factory=dict)
    foci: FociOptim = field(default_factory=FociOptim)
    batch_size: AtLeastOne = MISSING
    drop_last: Annotated[Any, OneOf("auto", True, False)] = "auto"
    shuffle: bool = True
    accumulate: AtLeastOne = 1
    clip_value: Positive | None = None
    l2: NonNegative = 0.0
    sigma_l1: NonNegative = 0.0
    sigma_l2: NonNegative = 0.0
    mu_repulsion: NonNegative = 0.0
    decay_epochs: list[Count] = field(default_factory=list)
    decay: NonNegative = 1.0
    decay_mu: NonNegative | None = None
    decay_sigma: NonNegative | None = None
    anneal_from: Positive = 1.0
    anneal_epochs: Count = 0

    def __post_init__(self) -> None:
        """Convert the nested dict of a checked config."""
        if isinstance(self.foci, dict):
            self.foci = FociOptim(**self.foci)


FOCI_ONLY = ("sigma_l1", "sigma_l2", "mu_repulsion", "anneal_from", "anneal_epochs")
"""Options of ``optim`` that affect foci only; at their defaults they have no effect."""


def drops_last_batch(
    drop_last: bool | str, samples: int, batch_size: int, *, batch_norm: bool
) -> bool:
    """Whether an epoch drops its incomplete last batch.

    Batch norm divides by the standard deviation of a batch, which is tiny for a few samples. One
    such step per epoch was enough to drive the losses of whole runs into the thousands.

    Args:
        drop_last: ``"auto"`` drops a single sample, and with batch norm also less than a quarter of
            a batch.
        samples: number of samples per epoch; the only batch is never dropped.
        batch_size: number of samples of a full batch.
        batch_norm: whether the network has batch norm.
    """
    rest = samples % batch_size
    if drop_last == "auto":
        drop_last = rest == 1 or (batch_norm and 4 * rest < batch_size)
    return bool(drop_last) and samples > batch_size


PAPER_EDITION = {"size": "full", "variant": "text", "protocol": "best_test"}
"""Size, variant and protocol of the experiments as the paper describes them."""
LEGACY_NAME = "paper"
"""Name of all three in version 0.1; its records use it, and hashes still do."""


def data_dir() -> str:
    """The folder of the data sets."""
    from platformdirs import user_cache_dir

    return os.environ.get("FOCUSING_DATA_DIR") or user_cache_dir("focusing")


@dataclass
class Protocol:
    """How to choose the epoch whose test score counts."""

    name: Annotated[str, OneOf("best_test", "holdout", "last")] = MISSING
    holdout: float = MISSING


@dataclass
class TrainerOptions:
    """Duration, device and precision of training."""

    max_epochs: AtLeastOne = MISSING
    accelerator: str = MISSING
    devices: Any = MISSING
    precision: Annotated[str, OneOf(*PRECISIONS)] = MISSING
    deterministic: bool = MISSING
    limit_batches: AtLeastOne | None = None
    compile: bool = False


@dataclass
class Paths:
    """Folders of results and data sets."""

    output_dir: str = MISSING
    data_dir: str = MISSING


@dataclass
class Sweep:
    """Options of sweeps and random trials."""

    trials: Annotated[int, Ge(1), Le(100_000)] = MISSING
    trial: Count | None = None
    only: list[int] | None = None
    changed: str | None = None  # how an impossible random trial was made possible
    stacked: bool = MISSING
    stack_mb: AtLeastOne | None = None
    retry_failed: bool = MISSING
    archive: str | None = None


@dataclass
class Config:
    """All options of a run."""

    name: str = MISSING
    seed: Count = MISSING
    size: str = MISSING
    variant: str = MISSING
    resume: Annotated[str, OneOf("auto", "never")] = MISSING
    force: bool = MISSING
    figures: bool = MISSING
    data: Any = MISSING
    model: Any = MISSING
    optim: Optim = field(default_factory=Optim)
    protocol: Protocol = field(default_factory=Protocol)
    trainer: TrainerOptions = field(default_factory=TrainerOptions)
    callbacks: dict[str, Any] = field(default_factory=dict)
    logger: dict[str, Any] = field(default_factory=dict)
    paths: Paths = field(default_factory=Paths)
    sweep: Sweep = field(default_factory=Sweep)


DATA_SETS = (
    *("synthetic", "mnist", "fashion", "cifar10", "clt", "shifted", "lfw", "catsdogs", "fsdd"),
    *("multi_domain", "boston", "dna", "reuters", "imdb"),
)
SCHEMA_TARGETS: dict[str, dict[str, str]] = {
    "model": {
        "dense": "focusing.models.dense_mlp",
        "focused": "focusing.models.focused_mlp",
        "cnn": "focusing.models.CNN",
        "focused_cnn": "focusing.models.focused_cnn",
        "transfer": "focusing.models.dense_transfer",
        "focused_transfer": "focusing.models.focused_transfer",
        "fasttext": "focusing.models.FastText",
        "focused_fasttext": "focusing.models.focused_fasttext",
        "transformer": "focusing.models.Transformer",
        "focused_transformer": "focusing.models.focused_transformer",
    },
    "data": {name: f"focusing.data.{name}" for name in DATA_SETS},
}
"""Group -> name -> callable whose parameters are the options of ``/schema/<group>@_here_: <name>``
in the files of conf/."""
IMAGE_OPTIONS = "focusing.data.dataset.ImageOptions"
"""Options of ``/schema/data@_here_: images``, for your own image data sets."""
FOCUSED_LAYER = "focusing.nn.FocusedLinear"
RUNTIME_ARGUMENTS = frozenset(
    {"self", "inputs", "outputs", "vocabulary", "in_features", "out_features", "device", "dtype"}
    | {"data_dir", "run_seed", "holdout", "peek", "preparation"}
)
"""Parameters that the code passes at run time; they are not options."""


@cache
def group_schemas() -> dict[str, dict[str, type]]:
    """Schemas of networks and data sets, derived from the signatures of their callables.

    The signatures are parsed from the source: importing it would import torch, which takes seconds.
    """
    schemas = {
        group: {
            # Such as FocusedCnnModel and MnistData.
            name: _derive(f"{name.title().replace('_', '')}{group.title()}", target, target)
            for name, target in targets.items()
        }
        for group, targets in SCHEMA_TARGETS.items()
    }
    schemas["data"]["images"] = _derive("ImagesData", MISSING, IMAGE_OPTIONS)
    return schemas


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Look up a derived schema by its class name, which pickled configs refer to."""
        if not name.startswith("_"):
            group_schemas()
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _derive(class_name: str, target: str, signature: str) -> type:
    """Make the dataclass of a target from the parameters of a signature."""
    options: dict[str, tuple[Any, Any]] = {"_target_": (str, target), "name": (str, MISSING)}
    options |= _options(signature)
    if target in SCHEMA_TARGETS["model"].values():
        options["dynamic"] = (Any, None)  # the config group dynamic, for any network
    return _make_dataclass(class_name, options)


def _options(signature: str) -> dict[str, tuple[Any, Any]]:
    """Type and default of every option of a signature."""
    options: dict[str, tuple[Any, Any]] = {}
    for module, name, annotation, default in _parameters(signature):
        match annotation:
            case _ if name in RUNTIME_ARGUMENTS:
                continue
            case ast.Name(id=kind) if name == "options":  # a dataclass of further options
                options |= _options(f"{module}.{kind}")
            case ast.BinOp(left=ast.Name(id=kind), right=ast.Subscript(value=ast.Name("Mapping"))):
                nested = _nested_schema(f"{module}.{kind}")
                options[name] = (nested, nested())
            case ast.BinOp(left=ast.Subscript(value=ast.Name("Mapping"))):  # of an inner layer
                continue
            case _:
                options[name] = (_config_type(annotation), default)
    return options


@cache
def _nested_schema(signature: str) -> type:
    return _make_dataclass(f"{signature.rpartition('.')[2]}Options", _options(signature))


def _make_dataclass(class_name: str, options: dict[str, tuple[Any, Any]]) -> type:
    specification = []
    for name, (kind, default) in options.items():
        mutable = not isinstance(default, bool | float | int | str | None)
        value: Any = field(default_factory=partial(copy, default)) if mutable else default
        specification.append((name, kind, value))
    made = make_dataclass(class_name, specification, namespace={"__module__": __name__})
    globals()[class_name] = made
    return made


def _parameters(callable_name: str) -> Iterator[tuple[str, str, ast.expr, Any]]:
    """Module, name, annotation and default of every parameter of a function, class or dataclass.

    ``focused(f)`` has the parameters of f and of the focused layer.
    """
    module, definition = _find_definition(callable_name)
    if isinstance(definition, ast.Call):
        yield from _parameters(f"{module}.{ast.unparse(definition.args[0])}")
        yield from _parameters(FOCUSED_LAYER)
        return
    if isinstance(definition, ast.ClassDef):
        methods = {node.name: node for node in definition.body if isinstance(node, ast.FunctionDef)}
        if "__init__" not in methods:  # a dataclass
            for base in definition.bases:
                yield from _parameters(f"{module}.{ast.unparse(base)}")
            for node in definition.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    yield module, node.target.id, node.annotation, _default(node.value)
            return
        definition = methods["__init__"]
    arguments = definition.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    for argument, default in (
        *zip(positional, defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ):
        annotation = argument.annotation or ast.Name("Any")
        yield module, argument.arg, annotation, _default(default)


def _default(value: ast.expr | None) -> Any:
    """The value of a literal default; MISSING without one, so the YAML files must set it."""
    try:
        literal = MISSING if value is None else ast.literal_eval(value)
    except ValueError:  # a call, so the parameter is not an option
        return MISSING
    return list(literal) if isinstance(literal, tuple) else literal


def _find_definition(callable_name: str) -> tuple[str, ast.FunctionDef | ast.ClassDef | ast.Call]:
    """Find the module that defines a name of this package, and the definition; follows imports."""
    module, _, name = callable_name.rpartition(".")
    guarded = [node.body for node in _parse(module).body if isinstance(node, ast.If)]
    for node in chain(_parse(module).body, *guarded):
        match node:
            case ast.FunctionDef(name=defined) | ast.ClassDef(name=defined) if defined == name:
                return module, node
            case ast.Assign(targets=[ast.Name(id=defined)], value=ast.Call() as call) if (
                defined == name and ast.unparse(call.func) == "focused"
            ):
                return module, call
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=own)) if alias == name:
                return _find_definition(f"{module}.{own}")
            case ast.ImportFrom(module=source, names=aliases) if name in {a.name for a in aliases}:
                return _find_definition(f"{source}.{name}")
    raise LookupError(f"{module} does not define {name}")


@cache
def _parse(module: str) -> ast.Module:
    path = Path(__file__).parent.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _config_type(annotation: ast.expr) -> Any:
    """The type that OmegaConf converts an option to; Any if OmegaConf does not support it."""
    match annotation:
        case ast.Name(id="AtLeastOne" | "Share" as alias):
            return get_args(globals()[alias])[0]
        case ast.Name(id=name):
            return {"bool": bool, "float": float, "int": int, "str": str}.get(name, Any)
        case ast.BinOp(left=kind, right=ast.Constant(value=None)):
            inner = _config_type(kind)
            return Any if inner is Any else inner | None
        case ast.BinOp(left=ast.Name(id="str"), right=ast.Name(id="Path")):
            return str
        case (
            ast.Subscript(value=ast.Name(id="Sequence" | "list"), slice=kind)
            | ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[kind, *_]))
        ):
            return list[_config_type(kind)]  # type: ignore[misc]
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *_])):
            return _config_type(kind)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=choices):
            elements = choices.elts if isinstance(choices, ast.Tuple) else [choices]
            values = [ast.literal_eval(element) for element in elements]
            return str if all(isinstance(value, str) for value in values) else Any
    return Any
