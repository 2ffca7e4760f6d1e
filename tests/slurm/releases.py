"""What a test expects of Slurm by its release and its control groups, in one table. What cxxrun does is the same on all."""
import functools
import subprocess

import namespaces
from machine import PATH

# What is asked for: from which release on it is which value, oldest first. A row "…, version 2" is for machines that have
# version 2 of control groups alone, where Slurm has cgroup/v2, task/cgroup and ConstrainDevices (slurm_conf.py).
TABLE = {
    # What srun --no-kill ends with when a node has failed, and the highest code of the others is given. Since 23.02 it is
    # 1, whatever they ended with (src/api/step_launch.c, _node_fail_handler).
    "srun after a lost node": [((22, 5), lambda highest: highest), ((23, 2), lambda highest: 1)],
    # How a report names the control group of step 0 of a job. Of version 2 they are named by SLUID since 26.05.
    "step in a report": [((22, 5), r"step \d+\.0")],
    "step in a report, version 2": [((22, 5), r"step \d+\.0"), ((26, 5), "step 0 of this Slurm job")],
    # CUDA_VISIBLE_DEVICES: with ConstrainDevices a task counts those that are left to it, from 0.
    "one GPU of each of four tasks": [((22, 5), ["0", "1", "2", "3"])],
    "one GPU of each of four tasks, version 2": [((22, 5), ["0", "0", "0", "0"])],
    "two GPUs of each of two steps": [((22, 5), ["0,1", "2,3"])],
    "two GPUs of each of two steps, version 2": [((22, 5), ["0,1", "0,1"])],
    # Whether a rendezvous that its script has not ended removes its file. By control groups Slurm kills it with the script.
    "a forgotten rendezvous ends by itself": [((22, 5), True)],
    "a forgotten rendezvous ends by itself, version 2": [((22, 5), False)],
    # Seconds in which a cancelled job is gone where KillWait is 5. Whoever has version 2 alone here is a guest, and slow.
    "seconds to the end of a job": [((22, 5), 5)],
    "seconds to the end of a job, version 2": [((22, 5), 60)],
    # What the doctor says of slurm.conf there.
    "setting that the doctor warns of": [((22, 5), "ProctrackType=proctrack/linuxproc ")],
    "setting that the doctor warns of, version 2": [((22, 5), "KillWait=5 s: ")],
}


@functools.cache
def running():
    """The release on this machine, such as (22, 5, 8)."""
    said = subprocess.run(["slurmd", "-V"], capture_output=True, text=True, check=True, env={"PATH": PATH}).stdout
    return tuple(int(word) for word in said.split()[-1].split("."))


def expected(what):
    """What the table says of the Slurm on this machine."""
    row = namespaces.unified() and TABLE.get(what + ", version 2") or TABLE[what]
    return [value for first, value in row if first <= running()][-1]
