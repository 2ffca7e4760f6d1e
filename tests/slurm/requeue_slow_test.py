"""--requeue on a real Slurm: what takes a minute. Usage: requeue_slow_test.py CXXRUN"""
import slurm_case
from cluster import LOGIN
from jobs import read, wait_until
from requeue_test import RequeueCase


class TimeLimit(RequeueCase):
    cluster_options = {"nodes": 2, "proctrack": "cgroup", "gpus": 0}

    def test_a_job_at_its_time_limit_is_requeued_once(self):
        job = self.submit("-N2", "--ntasks-per-node=1", "-t", "1")
        self.await_run(0)
        self.await_run(1, guard=150)  # the limit is noticed up to 30 s late
        self.assertEqual(self.job(job)["Restarts"], "1")
        self.assertIn(f"requeue of job {job}: the time limit is reached", self.output(job))
        self.row("requeue", "--requeue; time limit", "requeued once")


class Preemption(RequeueCase):
    cluster_options = {"nodes": 2, "proctrack": "linuxproc", "gpus": 0, "config": {
        "PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE",
        "PartitionName": "low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE\n"
                         "PartitionName=cheap Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL\n"
                         "PartitionName=kind Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=40\n"
                         "PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF"}}

    def preempted(self, partition):
        job = self.submit("-N2", "--ntasks-per-node=1", "--exclusive", "-p", partition)
        self.await_run(0)
        urgent = self.sbatch("sleep 2", "-N2", "--exclusive", "-p", "high")
        self.wait_job(urgent)
        self.await_run(1, guard=120)
        self.assertEqual(self.job(job)["Restarts"], "1")
        return self.output(job)

    def test_a_job_that_slurm_requeues_itself_is_not_requeued_twice(self):
        output = self.preempted("low")
        self.assertIn("not requeued: Slurm has requeued the job itself", output)
        self.assertIn("was told to end by SIGTERM from Slurm: requeued by Slurm\n", output)
        self.row("requeue", "--requeue; preempted, PreemptMode=REQUEUE", "Slurm requeues, cxxrun does not ask again")

    def test_a_job_that_is_preempted_for_good_is_requeued(self):
        output = self.preempted("cheap")
        self.assertRegex(output, r"requeue of job \d+: preempted\n")
        self.assertIn("was told to end by SIGTERM from Slurm: preempted\n", output)
        self.row("requeue", "--requeue; preempted, PreemptMode=CANCEL", "requeued once")


    def test_a_preemption_with_a_grace_is_named_with_what_is_left_of_it(self):
        output = self.preempted("kind")
        self.assertRegex(output, r"was told to end by SIGTERM from Slurm: preempted, about (3\d|40) s left\n")
        self.assertRegex(output, r"requeue of job \d+: preempted\n")


class NodeFailure(RequeueCase):
    cluster_options = {"nodes": 3, "proctrack": "linuxproc", "gpus": 0}

    def test_a_dead_node_leads_to_one_requeue_whoever_asks_first(self):
        job = self.submit("-N2", "--ntasks-per-node=1")
        self.await_run(0)
        self.assertEqual(self.job(job)["NodeList"], "node[1-2]")
        self.cluster.kill("node2", fin=True)
        self.await_run(1, guard=150)
        self.assertEqual(self.job(job)["Restarts"], "1")


class NoAnswer(RequeueCase):
    cluster_options = {"nodes": 2, "proctrack": "linuxproc", "gpus": 0}

    def test_without_an_answer_of_slurmctld_there_is_no_requeue(self):
        """The job is over late: slurmd tells slurmctld again only after a while."""
        job = self.submit("-N2", "--ntasks-per-node=1", options=f"--requeue --time-limit 0:03 2>{self.path('said')}")
        self.await_run(0)
        self.on(LOGIN, "pkill", "-STOP", "-x", "slurmctld")
        try:
            wait_until(lambda: "not requeued" in read(self.path("said")), "cxxrun has given up to ask")
        finally:
            self.on(LOGIN, "pkill", "-CONT", "-x", "slurmctld")
        self.wait_job(job, guard=150)
        self.assertEqual(self.job(job)["Restarts"], "0")
        self.row("requeue", "--requeue; slurmctld does not answer", "not requeued, one line")


if __name__ == "__main__":
    slurm_case.main()
