"""The commands of ``focusing`` as functions of their arguments: prune([run, "--json"])."""

from collections.abc import Callable, Sequence

from focusing.cli import run_command


def _command(name: str) -> Callable[[Sequence[str]], None]:
    return lambda arguments: run_command([*name.split(), *arguments])


archive = _command("archive")
check_data = _command("data check")
dashboard = _command("wandb dashboard")
export = _command("export")
get_data = _command("data get")
list_experiments = _command("experiments")
predict = _command("predict")
list_data = _command("data list")
prune = _command("prune")
push = _command("wandb push")
report = _command("report")
show_data = _command("data show")
wandb = _command("wandb")
write_sweep = _command("wandb sweep")
