"""--requeue on a real Slurm: what is fast. Usage: requeue_test.py CXXRUN"""
import os

import slurm_case
from jobs import Hang, read, wait_until
from slurm_case import SlurmCase


def setUpModule():
    slurm_case.use_cluster(nodes=3, gpus=0)


class RequeueCase(SlurmCase):
    """Workers note "up RESTARTS JOB" and wait; the job script appends to its output."""

    def setUp(self):
        super().setUp()
        self.program = self.worker('note up ${SLURM_RESTART_COUNT:-0} $SLURM_JOB_ID\n'
                                   'echo "line of run ${SLURM_RESTART_COUNT:-0}"\ngate never')

    def submit(self, *arguments, options="--requeue", srun="-N2 -n2"):
        return self.sbatch(f"trap : TERM\nsrun {srun} cxxrun --log-dir {self.path('logs')} {options} {self.program}\n"
                           "echo rc=$?", "--open-mode=append", *arguments)

    def await_run(self, restarts, workers=2, guard=60):
        def seen():
            return len([e for e in self.events("up") if e[3] == str(restarts)]) >= workers
        try:
            wait_until(seen, f"run {restarts}", guard)
        except Hang as hang:
            raise Hang(f"{hang}\n{self.scontrol('show', 'job').out}\n{self.outputs()}") from None

    def outputs(self):
        return "\n".join(read(self.path(name)) for name in os.listdir(self.dir) if name.startswith("slurm-"))

    def crash(self, node):
        """Ends cxxrun on a node as if it had crashed: for the others the node is lost at once."""
        self.on(node, "sh", "-c", "pkill -KILL -n -x cxxrun")


class Requeue(RequeueCase):
    def test_scancel_is_never_followed_by_a_requeue(self):
        job = self.submit("-N2", "--ntasks-per-node=1")
        self.await_run(0)
        self.scancel(job)
        self.await_gone(job)
        self.assertEqual(self.job(job)["JobState"], "CANCELLED")
        self.assertIn("not requeued: the job was cancelled", self.output(job))
        self.assertEqual(self.job(job)["Restarts"], "0")
        self.row("requeue", "--requeue; scancel JOB", "not requeued, one line")

    def test_a_lost_agent_requeues_the_job_once_and_keeps_the_output(self):
        job = self.submit("-N2", "--ntasks-per-node=1", "-w", "node1,node2")
        self.await_run(0)
        self.crash("node2")
        self.await_run(1)
        self.assertEqual(self.job(job)["Restarts"], "1")
        output = self.output(job)
        self.assertIn("line of run 0", output)
        self.assertIn(f"requeue of job {job}: too few nodes, 1 of at most 3 without progress", output)
        self.assertEqual(read(self.path(f"logs/requeue-{self.cluster_name()}-{job}")), "run 0 nodes-lost none\nnode node2 0 lost\n")
        runs = sorted(name for name in os.listdir(self.path("logs")) if not name.startswith("requeue-"))
        self.assertEqual(runs, [f"{job}.0.1_node1", f"{job}.0.1_node2", f"{job}.0_node1", f"{job}.0_node2"])
        self.row("requeue", "--requeue; a node is lost", "requeued once; logs of both runs are kept")

    def test_a_node_that_is_lost_in_two_runs_is_left_out_of_the_third_as_the_line_says(self):
        job = self.submit("-N2", "--ntasks-per-node=1")
        for run in (0, 1):
            self.await_run(run)
            self.assertEqual(self.job(job)["NodeList"], "node[1-2]")
            if run == 1:
                self.scontrol("update", "PartitionName=all", "State=DOWN")  # so that the third run waits
                self.addCleanup(self.scontrol, "update", "PartitionName=all", "State=UP")
            self.crash("node2")
        wait_until(lambda: "ExcNodeList=node2" in self.output(job), "the line")
        wait_until(lambda: self.job(job)["JobState"] == "PENDING", "pending",
                   pause=slurm_case.PAUSE)
        line = [text for text in self.output(job).splitlines() if "scontrol update" in text][-1]
        self.login(*line[line.index("scontrol update"):].split(), code=0)
        self.scontrol("update", "PartitionName=all", "State=UP")
        self.await_run(2)
        self.assertEqual(self.job(job)["NodeList"], "node[1,3]")
        self.scancel(job)
        self.await_gone(job)
        self.row("requeue", "--requeue; a node is lost in two runs", "named with the line that leaves it out of the third")

    def test_the_limit_of_runs_without_progress_ends_in_115(self):
        job = self.submit("-N2", "--ntasks-per-node=1", "-w", "node1,node2", options="--requeue --max-requeues 0")
        self.await_run(0)
        self.crash("node2")
        self.wait_job(job)
        self.assertIn("no progress in 1 run", self.output(job))
        self.assertIn("rc=137", self.output(job))  # srun's highest: that of the agent that was killed
        self.assertIn("Exited with exit code 115", self.output(job))
        self.assertEqual(self.job(job)["Restarts"], "0")
        self.row("requeue", "--max-requeues N reached", "not requeued; exit code 115 on the node that coordinates")

    def test_of_an_array_only_the_task_concerned_is_requeued(self):
        array = self.submit("--array=1-2", "-N1", "-n1", options="--requeue --time-limit 0:04", srun="-N1 -n1")
        self.await_run(0)
        names = []
        for task in ("1", "2"):  # both reach cxxrun's limit; each is queued again, once
            wait_until(lambda task=task: self.job(f"{array}_{task}").get("Restarts") == "1", f"task {task} again",
                       pause=slurm_case.PAUSE)
            number = self.job(f"{array}_{task}")["JobId"]
            names.append(f"{array}_{task}" if number == array else number)
        self.scancel(array)
        self.await_gone(array)
        outputs = self.output(f"{array}_1") + self.output(f"{array}_2")
        for name in names:
            self.assertEqual(outputs.count(f"requeue of job {name}: the time limit is reached"), 1)

    def test_a_job_that_slurm_may_not_requeue_says_so(self):
        job = self.submit("-N1", "-n1", "--no-requeue", options="--requeue --time-limit 0:02", srun="-N1 -n1")
        self.wait_job(job)
        self.assertIn("not requeued: Slurm refuses for this job", self.output(job))

    def test_a_job_of_srun_alone_cannot_be_requeued(self):
        done = self.srun("-N1", "cxxrun", "--requeue", "--time-limit", "0:02", self.program, code=143)
        self.assertIn("not requeued: only a batch job can be; submit it with sbatch", done.err)

    def cluster_name(self):
        return self.scontrol("show", "config").out.split("ClusterName")[1].split()[1]


if __name__ == "__main__":
    slurm_case.main()
