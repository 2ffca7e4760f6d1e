"""Failures that Slurm brings about, on the cluster of namespaces that tests/slurm starts."""
import dataclasses
import os
import shlex
import sys

from stage import GUARD, HERE, Seen

import jobs

sys.path.insert(0, str(HERE.parent / "slurm"))
import sides  # noqa: E402
from cluster import LOGIN, PATH, Cluster, why_not  # noqa: E402

CONFIG = {"KillWait": "30", "PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE",
          "PartitionName": "low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL\n"
                           "PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF"}
SCRIPT = """#!/bin/sh
trap : TERM
srun {command}
echo $? > {dir}/ended
"""
NODES = 2
_running = []  # the cluster, once a row has needed it


def cluster(room, build):
    if not _running:
        visible = [str(room), str(build), os.environ.get("CXXRUN_TODAYS_TORCH")]
        _running.append(Cluster(nodes=NODES, gpus=0, config=CONFIG, visible=filter(None, visible)).up())
    return _running[0]


def down():
    while _running:
        _running.pop().down()


class Queue:
    """Slurm's commands for one job."""

    def __init__(self, row, scene):
        self.scene = scene
        self.env = {**scene.env(row), "PATH": PATH}
        self.cluster = cluster(scene.room, scene.build)

    def ask(self, *words):
        done = self.cluster.run(LOGIN, list(words), cwd=str(self.scene.dir), env=self.env)
        if done.code != 0:
            raise RuntimeError(f"{shlex.join(words)}: {done}")
        return done.out.strip()

    def submit(self, text, *options):
        script = self.scene.dir / f"job{options[-1]}"
        script.write_text(text)
        return self.ask("sbatch", "--parsable", "--open-mode=append", f"--output={self.scene.dir}/console",
                        f"--nodes={NODES}", "--ntasks-per-node=1", "--exclusive", *options, str(script))

    def clear(self):
        for job in self.ask("squeue", "-h", "-o", "%A").split():
            self.ask("scancel", job)
        self.scene.clear()
        jobs.wait_until(lambda: not self.ask("squeue", "-h", "-o", "%A"), "no job is left", GUARD)
        self.cluster.await_nodes(guard=GUARD)


def missing():
    return why_not()


def play(row, side, scene):
    queue = Queue(row, scene)
    meeting = sides.meeting("node1", NODES)
    if side.name == "cxxrun":  # learns everything from Slurm, and asks it: its commands are not in the root of torchrun
        side, meeting = dataclasses.replace(side, launcher=side.launcher[-1:]), []
    command = shlex.join(side.command(scene.placed(row), scene.logs, meeting))
    limit = ["--time=1"] if row.name == "time-limit" else []
    try:
        job = queue.submit(SCRIPT.format(command=command, dir=scene.dir), *limit, "--partition=low")
        scene.await_workers(NODES * row.nproc)
        if row.name == "preempted":
            queue.submit("#!/bin/sh\n", "--partition=high")
        if row.name == "cancelled":
            queue.ask("scancel", job)
        code, seconds = scene.await_end(lambda: jobs.read(scene.dir / "ended").strip() or None, row)
        return Seen(jobs.read(scene.dir / "console"), int(code), seconds)
    finally:
        queue.clear()
