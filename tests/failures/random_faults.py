"""A job of three nodes that many random faults hit, one after the other, and what its account says of them."""
import dataclasses
import json
import random
import re
import signal

from stage import GUARD

import jobs
import sides
import wires
from machines import Cluster, send

COUNT = 20
STEPS = 10  # that a generation makes before the next fault
HOSTS, LOCAL = 3, 2
SEED = 2
OPTIONS = ["--nproc-per-node", str(LOCAL), "--max-restarts", str(2 * COUNT), "--restart-delay", "0", "--restart-timeout", "1",
           "--scale-out", "at-restart", "--rdzv-conf", "last_call_timeout=1", "--hang-timeout", "5",
           "--heartbeat-timeout", "15"]
SIGNALS = {"kill": signal.SIGKILL, "crash": signal.SIGSEGV, "exit": signal.SIGUSR2, "hang": signal.SIGSTOP}
NAMES = {"kill": r"signal 9\b", "crash": r"signal 11\b", "exit": r"exit code 17\b", "hang": "stopped in|did not enter",
         "node": "lost"}
PARTS = ("waiting", "startup", "training", "checkpoint", "lost", "stopping")


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    host: int
    local_rank: int

    def __str__(self):
        return f"{self.kind} of host{self.host}" + ("" if self.kind == "node" else f", local rank {self.local_rank}")

    def named_by(self, why):
        """Whether the line of a generation's end says what happened, and where."""
        return f"host{self.host}" in why and re.search(NAMES[self.kind], why) is not None


def chosen(seed, count=COUNT):
    """Never the node of the coordinator; no two nodes running, because a node that is started again is let in when a
    worker fails next; and no two workers of one host running: it would be excluded."""
    dice = random.Random(seed)
    found = [Fault("kill", 0, 0)]
    while len(found) < count:
        fault = Fault(dice.choice([*SIGNALS, "node"]), dice.randrange(HOSTS), dice.randrange(LOCAL))
        of_worker = [each.host for each in found if each.kind != "node"][-1]
        if fault.kind == "node":
            fits = fault.host != 0 and found[-1].kind != "node"
        else:
            fits = fault.host not in (of_worker, found[-1].host)
        if fits:
            found.append(fault)
    return found


class Job:
    def __init__(self, cluster, scene, build, env):
        self.cluster, self.scene, self.env = cluster, scene, env
        self.program = ["--no-python", "/usr/bin/env", f"LD_PRELOAD={build}/tests/exits.so",
                        f"{build}/bin/examples/train", "--quiet", "--steps", "100000000", "--curve", f"{scene.dir}/curve", "--checkpoint-dir",
                        f"{scene.dir}/checkpoints"]
        self.cxxrun = f"{build}/bin/cxxrun"
        for machine in cluster.machines:
            self.start(machine)

    def start(self, machine):
        (machine.logs / "exit").unlink(missing_ok=True)
        meeting = sides.meeting(self.cluster.endpoint, f"2:{HOSTS}", machine.index)
        machine.start([self.cxxrun, *meeting, *OPTIONS, "--log-dir", str(self.scene.logs), *self.program], self.env)

    def generation(self):
        """The newest one, as the coordinator tells of it; 0: none yet."""
        found = re.findall(r"generation (\d+) runs: ", self.cluster.machines[0].said)
        return int(found[-1]) if found else 0

    def steps(self):
        """How many are in the curve: those that are to be done again are taken out of it."""
        return jobs.read(self.scene.dir / "curve").count("\n")

    def await_training(self, after):
        """A generation beyond `after` that has made steps."""
        jobs.wait_until(lambda: self.generation() > after or self.ended(), f"a generation after {after} runs", GUARD)
        first = self.steps()
        jobs.wait_until(lambda: self.steps() >= first + STEPS or self.ended(), "it trains", GUARD)
        return self.generation()

    def await_loss(self, text, already):
        """Until the coordinator has said it once more."""
        jobs.wait_until(lambda: self.cluster.machines[0].said.count(text) > already or self.ended(), text, GUARD)

    def ended(self):
        code = self.cluster.machines[0].exit_code()
        if code is not None:
            raise RuntimeError(f"the job has ended with {code}:\n{self.cluster.machines[0].said[-4000:]}")

    def hit(self, fault):
        machine = self.cluster.machines[fault.host]
        if fault.kind == "node":
            machine.close()
            return
        trains = [pid for pid in machine.workers() if jobs.read(f"/proc/{pid}/comm") == "train\n"
                  and f"\0LOCAL_RANK={fault.local_rank}\0" in jobs.read(f"/proc/{pid}/environ")]
        if not trains:
            raise RuntimeError(f"{fault}: no such worker runs")
        send(trains, SIGNALS[fault.kind])

    def finish(self):
        """The verdict of a job that is told to end."""
        send(self.cluster.machines[0].parent(), signal.SIGTERM)
        jobs.wait_until(lambda: self.cluster.machines[0].exit_code() is not None, "the job has ended", GUARD)
        found = [path for path in self.scene.logs.glob("*host0*/verdict.json")]
        return json.loads(found[0].read_text())


def play(scene, build, env, planned):
    """The verdict of a job that all of these have happened to."""
    with wires.Wires(HOSTS) as net, Cluster(net, scene.dir) as cluster:
        job = Job(cluster, scene, build, env)
        generation = job.await_training(0)
        for fault in planned:
            already = cluster.machines[0].said.count(f"lost host{fault.host}")
            job.hit(fault)
            if fault.kind == "node":
                job.await_loss(f"lost host{fault.host}", already)
                job.start(cluster.machines[fault.host])
            generation = job.await_training(generation)
        return job.finish()


# ---- pure

def unnamed(planned, verdict):
    """The faults that no generation's end names, each generation for one fault and in their order."""
    whys = iter([past["why"] for past in verdict["history"]])
    return [fault for fault in planned if not any(fault.named_by(why) for why in whys)]


def wrong(planned, verdict):
    """What does not add up or is not named, or ""."""
    account = verdict["account"]
    parts = sum(round(account[f"{part}_s"] * 1000) for part in PARTS)
    if parts != round(account["wall_s"] * 1000):
        return f"{parts} ms of {account['wall_s']} s are accounted for"
    lost = sum(round(past["lost_s"] * 1000) for past in verdict["history"])
    if lost != round(account["lost_s"] * 1000):
        return f"the failures have lost {lost} ms, the account {account['lost_s']} s"
    missing = unnamed(planned, verdict)
    return "not named: " + "; ".join(map(str, missing)) if missing else ""
