"""Every experiment can be run as the author's code did it."""

from functools import cache

import pytest

from focusing.compose import config_dir, family, read_recipes
from focusing.experiments.listing import configs_of, experiments, jobs_of
from focusing.training.trainer import build_net, load_data

ASKED = ("variant=author", "data.fake=true", "data.limit_train=8", "data.limit_test=8")


@cache
def special() -> frozenset[str]:
    """What is chosen for one model on one data set."""
    return frozenset(read_recipes(config_dir() / "recipe")["author_model"])


@cache
def chosen() -> dict[str, list[tuple[str, ...]]]:
    """A job of each experiment, and of all of them one for each recipe that they need."""
    seen: set[tuple[str, str]] = set()
    jobs: dict[str, list[tuple[str, ...]]] = {}
    for name in sorted(experiments()):
        jobs[name] = []
        for job in jobs_of([f"experiment={name}", *ASKED]):
            options = dict(override.split("=", 1) for override in job)
            data, model = options.get("data", name), options.get("model", "focus_s")
            own = f"author_{data}_{model}" in special()
            if not jobs[name] or (data, model if own else family(model)) not in seen:
                jobs[name].append(job)
            seen.add((data, model if own else family(model)))
    return jobs


@pytest.mark.parametrize("name", sorted(experiments()))
def test_its_jobs_compose_and_their_networks_can_be_built(name: str) -> None:
    for config, _ in configs_of(chosen()[name]):
        assert (config["name"], config["variant"]) == (name, "author")
        build_net(config, load_data(config), pretrained=False)


def test_no_recipe_is_left_out() -> None:
    ran = {" ".join(job) for jobs in chosen().values() for job in jobs}
    assert any("data=catsdogs" in job and "model=vgg_focus" in job for job in ran)
    assert any("data=reuters" in job and "model=focus_s" in job for job in ran)
    assert sum("data=lfw" in job for job in ran) >= 5  # dense, three focused ones, a CNN
