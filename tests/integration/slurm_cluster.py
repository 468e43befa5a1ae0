"""Runs a real SLURM cluster of two nodes on loopback, without systemd and root.

It needs Debian's packages slurm-wlm and munge. The partition ``urgent`` preempts ``main``, whose
jobs get 40 s of grace and are requeued. The caller sets the number of processors of a node.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.processes import wait_until

os.environ["PATH"] += f"{os.pathsep}/usr/sbin"  # where Debian has slurmctld
CONFIG = """\
ClusterName=own
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=2
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdTimeout=10
KillWait=20
ReturnToService=2
NodeName=DEFAULT CPUs={cpus} RealMemory=64000
NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]}
NodeName=node2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]}
PartitionName=main Nodes=node[1-2] Default=YES State=UP PriorityTier=1 GraceTime=40
PartitionName=urgent Nodes=node[1-2] State=UP PriorityTier=10
"""


class Slurm:
    """Runs commands of the cluster whose files are in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.env = {"SLURM_CONF": str(folder / "slurm.conf")}

    def __call__(self, *command: str) -> str:
        """Run a SLURM command; returns its output."""
        env = {**os.environ, **self.env}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait(self, seconds: float, *command: str, until: str) -> None:
        """Run a command until it prints this."""
        wait_until(lambda: self(*command).strip() == until, seconds)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for free in sockets:
        free.bind(("127.0.0.1", 0))
    ports = [free.getsockname()[1] for free in sockets]
    for free in sockets:
        free.close()
    return ports


@contextmanager
def slurm_cluster(cpus: int) -> Iterator[Slurm]:
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o711)  # munge needs a socket that everyone can reach
    (folder / "state").mkdir()
    key = folder / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    user = subprocess.check_output(["id", "-un"], text=True).strip()
    text = CONFIG.format(folder=folder, user=user, cpus=cpus, ports=_free_ports(3))
    (folder / "slurm.conf").write_text(text)
    slurm = Slurm(folder)
    try:
        files = {"socket": "munge.sock", "key-file": "key", "pid-file": "munged.pid"}
        files |= {"log-file": "munged.log", "seed-file": "seed"}
        slurm("munged", *(f"--{name}={folder / file}" for name, file in files.items()))
        slurm("slurmctld")
        for node in ("node1", "node2"):
            (folder / f"spool-{node}").mkdir()
            slurm("slurmd", "-N", node)
        slurm.wait(30, "sinfo", "-h", "-p", "main", "-o", "%T", until="idle")
        yield slurm
        slurm("scancel", "-u", user)
        with suppress(AssertionError):
            slurm.wait(30, "squeue", "-h", until="")
    finally:
        for path in folder.glob("*.pid"):
            with suppress(OSError):
                os.kill(int(path.read_text()), signal.SIGTERM)
        time.sleep(0.5)  # they finish their logs
        shutil.rmtree(folder, ignore_errors=True)
