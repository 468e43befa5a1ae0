# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # The layer
# Four neurons, forty inputs, the left half pure noise. Where do the foci go?

# %%
import matplotlib.pyplot as plt
import torch

from focusing import FocusConstraint, FocusedLinear, param_groups
from focusing.data import synthetic

torch.manual_seed(0)
data = synthetic(n_samples=2857, informative=20, noise=20, noise_position="left", seed=2)
net = torch.nn.Sequential(
    FocusedLinear(40, 4, mu="center_jitter", sigma=0.08), torch.nn.ReLU(), torch.nn.Linear(4, 2)
)
layer = net[0]
start = layer.phi().detach().clone()

# %% [markdown]
# The foci have learning rates of their own and stay in their ranges.

# %%
optimizer = torch.optim.Adam(param_groups(net, lr=1e-2, lr_mu=1e-2, lr_sigma=1e-3))
constraint = FocusConstraint(net, optimizer)
x, y = data.train.inputs, data.train.targets
for _ in range(20):
    for batch in torch.randperm(len(x)).split(128):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimizer.step()

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 2.4), sharey=True)
for axis, phi, title in zip(axes, (start, layer.phi().detach()), ("before", "after"), strict=True):
    axis.axvspan(20, 39, color="0.9")
    axis.plot(phi.T)
    axis.set(title=title, xlabel="input (grey: informative)")
axes[0].set_ylabel("phi")
plt.show()

# %% [markdown]
# `fold()` gives a plain `nn.Linear` with the same outputs.
# `prune()` drops what lies outside the foci.

# %%
same = torch.allclose(layer.fold()(x), layer(x), atol=1e-4)
print(f"folded layer computes the same: {same}; pruned: {layer.prune(0.1):.0%}")
