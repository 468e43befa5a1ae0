"""Compile the Triton kernels for several GPUs, without a GPU, and print their resources as JSON.

python -m tests.unit.nn.compile_kernels [--all]

Runs in its own process, because the tests interpret the kernels. The last line lists the tensors
that each kernel writes, as torch.compile sees it.
"""

import itertools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch._subclasses import FakeTensorMode
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from focusing.nn.ops import gpu

TARGETS = {
    "sm_75": GPUTarget("cuda", 75, 32),
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
KERNELS = [gpu.effective_weight_kernel, gpu.gradients_kernel]
DTYPES = [("fp32", "fp32"), ("fp32", "bf16"), ("fp32", "fp16"), ("bf16", "bf16"), ("fp16", "fp16")]
"""Data types of the parameters and of the product, which differ under autocast."""
Variant = tuple[tuple[str, str], int, int, str, bool]
PLAIN: Variant = (("fp32", "fp32"), 784, 1, "l2", False)
HEAVY: Variant = (("fp32", "bf16"), 784, 3, "l2", True)  # the most registers
OTHERS: list[Variant] = [
    (("bf16", "bf16"), 5001, 2, "mean", True),
    (("fp16", "fp16"), 37, 2, "none", False),
]


def compiled(kernel: Any, variant: Variant, target: GPUTarget) -> Any:
    """Compile a kernel for one variant: dtypes, inputs, axes, normaliser, mask."""
    (parameter, product), inputs, axes, normalizer, masked = variant
    options = gpu.launch_options(inputs, axes, normalizer)
    types = {"m": "i32", "log_sum_phi": "fp32", "tau": "*fp32", "mask": "*i1"}
    types |= {"product": f"*{product}", "grad_product": f"*{product}"}
    signature, constants, aligned = {}, {}, {}
    for place, name in enumerate(kernel.arg_names):
        constant = name.isupper() or (name == "mask" and not masked)
        signature[name] = "constexpr" if constant else types.get(name, f"*{parameter}")
        if constant:
            constants[(place,)] = options.get(name)
        elif signature[name].startswith("*") or (name == "m" and inputs % 16 == 0):
            aligned[(place,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constants, aligned)
    return triton.compile(source, target=target, options={"num_warps": options["num_warps"]})


def resources(binary: Any) -> dict[str, int]:
    """Registers per thread, bytes of shared memory per program, and spilled bytes."""
    if "cubin" in binary.asm:
        tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(binary.asm["cubin"])
            file.flush()
            command = [tool, "--dump-resource-usage", file.name]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        used = {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}
        registers, spilled = used["REG"], used["STACK"] + used["LOCAL"]
    else:
        used = {
            name: int(number)
            for name, number in re.findall(r"\.(\w+):\s+(\d+)", binary.asm["amdgcn"])
        }
        registers = used["vgpr_count"]
        spilled = (
            used["vgpr_spill_count"] + used["sgpr_spill_count"] + used["private_segment_fixed_size"]
        )
    return {"registers": registers, "spilled": spilled, "shared": binary.metadata.shared}


class Driver:
    """Names the GPU to compile for; it cannot launch anything."""

    def get_current_target(self) -> GPUTarget:
        return TARGETS["sm_80"]


def written_tensors() -> list[list[str]]:
    """Trace a step as torch.compile does, and list the arguments that each kernel writes."""
    written = []

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        kernels = [node for node in graph.graph.nodes if "triton_kernel" in str(node.target)]
        written.extend(list(node.kwargs["tensors_to_clone"]) for node in kernels)
        return make_boxed_func(graph.forward)

    def product(*own: torch.Tensor) -> torch.Tensor:
        return gpu.effective_weight(*own, torch.rand(20, 2), None, "l2", torch.float16)

    triton.runtime.driver.set_active(Driver())
    with FakeTensorMode():
        own = [torch.rand(3, size, requires_grad=True) for size in (20, 2, 2)]
        aot_function(product, fw_compiler=keep, bw_compiler=keep)(*own).sum().backward()
    return written


def main() -> None:
    variants: list[tuple[str, Variant]]
    if "--all" in sys.argv:
        kinds = itertools.product(
            DTYPES, (37, 784, 5001), (1, 2, 3), ("l2", "mean", "none"), (False, True)
        )
        variants = list(itertools.product(TARGETS, kinds))
    else:
        variants = list(itertools.product(TARGETS, (PLAIN, HEAVY))) + [
            ("sm_80", kind) for kind in OTHERS
        ]
    for (target, variant), kernel in itertools.product(variants, KERNELS):
        used = resources(compiled(kernel, variant, TARGETS[target]))
        print(json.dumps({"kernel": kernel.__name__, "target": target, "variant": variant, **used}))
    print(json.dumps(written_tensors()))


if __name__ == "__main__":
    main()
