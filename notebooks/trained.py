# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A trained network
# Train a small reader of digits, look at its foci, prune it, and make it plain.

# %%
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from focusing import FocusConstraint, param_groups, to_inference
from focusing.models import focused_mlp

torch.manual_seed(0)
digits = load_digits()
x = torch.tensor(digits.images, dtype=torch.float32) / 8 - 1
y = torch.tensor(digits.target)
net = focused_mlp((8, 8), 10, hidden=[40], topology="image", mu="spread", sigma=0.2, dropout=[])
optimizer = torch.optim.Adam(param_groups(net, lr=1e-2, lr_mu=5e-3, lr_sigma=5e-3))
constraint = FocusConstraint(net, optimizer)
for _ in range(15):
    for batch in torch.randperm(1300).split(100):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimizer.step()
net.eval()


def accuracy(model: torch.nn.Module) -> float:
    with torch.no_grad():
        return 100 * (model(x[1300:]).argmax(1) == y[1300:]).float().mean().item()


print(net.summary())
print(f"{accuracy(net):.1f} % of the test digits")

# %%
[layer] = net.focused_layers().values()
figure, axes = plt.subplots(2, 8, figsize=(8, 2.2))
for axis, phi in zip(axes.flat, layer.phi().detach(), strict=False):
    axis.imshow(phi.reshape(8, 8), cmap="viridis")
    axis.axis("off")
plt.show()

# %% [markdown]
# What the neurons hardly look at can go.

# %%
for threshold in (0.1, 0.5):
    sparsity = layer.prune(threshold)
    print(f"phi < {threshold}: {sparsity:.0%} dropped, {accuracy(net):.1f} %")
fast = to_inference(net, sparse=True)
print(f"for inference: {accuracy(fast):.1f} %")
