"""A real SLURM of two nodes on loopback, in a folder, without systemd and without root.

It needs the programs of Debian's packages slurm-wlm and munge. Two partitions: ``urgent`` preempts
``main``, whose jobs have 40 s of grace and are queued again. A node has as many processors as the
caller says, whatever the machine has.
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

from tests.processes import children, wait_until

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
    """Commands of a cluster whose files are in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.env = folder, {"SLURM_CONF": str(folder / "slurm.conf")}

    def __call__(self, *command: str) -> str:
        """Run a command of SLURM; returns what it prints."""
        env = {**os.environ, **self.env}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_node(self, name: str) -> None:
        (self.folder / f"spool-{name}").mkdir(exist_ok=True)
        self("slurmd", "-N", name)

    def kill_node(self, name: str) -> None:
        """Kill the daemon of a node and all processes of its jobs, as a power failure does."""
        pid = int((self.folder / f"slurmd-{name}.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"SLURMD_NODENAME={name}\0" in (entry / "environ").read_text(errors="replace"):
                    os.kill(int(entry.name), signal.SIGKILL)
        for entry in Path("/proc").glob("[0-9]*"):  # the one that would tell SLURM of their end
            with suppress(OSError):
                if "slurmstepd" in (entry / "comm").read_text() and not children(int(entry.name)):
                    os.kill(int(entry.name), signal.SIGKILL)

    def wait(self, seconds: float, *command: str, until: str) -> None:
        """Run a command until it prints something."""
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
    folder.chmod(0o711)  # munge wants a socket that all may reach
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
            slurm.start_node(node)
        slurm.wait(30, "sinfo", "-h", "-p", "main", "-o", "%T", until="idle")
        yield slurm
        slurm("scancel", "-u", user)
        with suppress(AssertionError):
            slurm.wait(30, "squeue", "-h", until="")
    finally:
        for path in folder.glob("*.pid"):
            with suppress(OSError):
                os.kill(int(path.read_text()), signal.SIGTERM)
        time.sleep(0.5)  # they write their last lines
        shutil.rmtree(folder, ignore_errors=True)
