"""cxxrun-rendezvous in job scripts and --join, on a real Slurm. Usage: rendezvous_test.py CXXRUN"""
import glob
import os

import slurm_case
from releases import expected
from slurm_case import SlurmCase, wait_until

BEGIN = "cxxrun-rendezvous --background > rendezvous.out\n"
BEGIN_BESIDE = "cxxrun-rendezvous > rendezvous.out & until [ -s rendezvous.out ]; do sleep 0.05; done\n"
STEP = "srun --ntasks-per-node=1"


def setUpModule():
    slurm_case.use_cluster(nodes=3)


class JobScript(SlurmCase):
    def file(self, job, step=""):
        return self.path(f".cxxrun/rendezvous/{self.cluster_name}-{job}{step}")

    @property
    def cluster_name(self):
        words = self.scontrol("show", "config").out.split("\n")
        return next(line.split("=")[1].strip() for line in words if line.startswith("ClusterName"))

    def assert_file_is_gone(self, job):
        if expected("a forgotten rendezvous ends by itself"):
            self.assertFalse(os.path.exists(self.file(job)))

    def started(self, generation=None):
        return [event[3:] for event in self.events("start", generation)]

    def test_the_second_step_goes_on_where_the_first_one_failed(self):
        worker = self.worker('note start "$TORCHELASTIC_RESTART_COUNT" "$MASTER_ADDR" "$TORCHELASTIC_RUN_ID"\n'
                             '[ -e "$DIR/good" ] || { [ "$RANK" = 1 ] && exit 7; sleep 60; }')
        job = self.sbatch(f"{BEGIN}{STEP} cxxrun --max-restarts 1 {worker}; echo first $?\n"
                          f"touch good; {STEP} cxxrun --max-restarts 1 {worker}; echo second $?\n"
                          f"{STEP} -N1 -n1 cxxrun {worker}; echo third $?", "-N2", state="COMPLETED")
        for line in ("first 7", "second 0", "third 0"):
            self.assertIn(line, self.output(job))
        address = self.events("start")[0][4]
        self.assertRegex(address, r"^\d+\.\d+\.\d+\.\d+$")
        told = [(e[0], *e[3:]) for e in self.events("start")]
        self.assertEqual(sorted(set(told)), [(1, "0", address, f"{job}.0"), (2, "1", address, f"{job}.0"),
                                             (3, "1", address, f"{job}.1"), (4, "0", address, f"{job}.2")])
        self.assert_file_is_gone(job)
        self.row("Rendezvous in the job script", "cxxrun-rendezvous --background; srun cxxrun …; srun cxxrun …",
                 "the second step goes on with the restart count of a first one that failed; generation numbers go on")

    def test_a_step_that_was_killed_is_launched_again(self):
        worker = self.worker('note start "$TORCHELASTIC_RUN_ID"; gate go')
        job = self.sbatch(f"{BEGIN}{STEP} cxxrun {worker}; echo first $?\n{STEP} cxxrun {worker}; echo second $?", "-N2")
        self.await_events(2, "start", 1)
        self.scancel(f"{job}.0")
        self.await_events(2, "start", 2)
        self.open_gate("go")
        self.wait_job(job, "COMPLETED")
        self.assertIn("first 137", self.output(job))
        self.assertIn("second 0", self.output(job))
        self.assertEqual({e[3] for e in self.events("start", 2)}, {f"{job}.1"})
        self.row("Rendezvous in the job script", "scancel JOB.0, then srun cxxrun … again in the script",
                 "the killed step has a verdict (too few nodes); the next one is generation 2 at once")

    def test_two_steps_at_once_are_two_runs(self):
        worker = self.worker('note start "$TORCHELASTIC_RUN_ID" "$WORLD_SIZE"; gate go')
        one = f"{STEP} -N1 -n1 --exact"
        job = self.sbatch(f"{BEGIN}{one} cxxrun {worker} & p=$!; {one} cxxrun {worker} & wait $p $!", "-N2")
        self.await_events(2, "start")
        self.open_gate("go")
        self.wait_job(job, "COMPLETED")
        self.assertEqual(sorted(self.started()), [(f"{job}.0", "1"), (f"{job}.1", "1")])

    def test_it_ends_with_a_script_that_forgets_it_and_with_scancel(self):
        worker = self.worker("note start; gate go")
        for begin in (BEGIN, BEGIN_BESIDE):
            job = self.sbatch(f"{begin}{STEP} cxxrun true", "-N1", state="COMPLETED")
            self.assert_nothing_left()
            self.assertIn("verdict: success", self.output(job))
            self.assert_file_is_gone(job)
            os.remove(self.path("rendezvous.out"))
        job = self.sbatch(f"{BEGIN}{STEP} cxxrun --shutdown-timeout 2 {worker}", "-N2")
        self.await_events(2, "start")
        self.scancel(job)
        self.wait_job(job, "CANCELLED")
        self.assert_nothing_left()

    def test_a_lost_step_is_launched_again_with_the_nodes_that_are_left(self):
        worker = self.worker('note start "$WORLD_SIZE"; gate go')
        again = ('n=$(scontrol show hostnames "$(scontrol show job $SLURM_JOB_ID | sed -n "s/^ *NodeList=//p")" | wc -l)\n'
                 f"{STEP} --overlap -N $n -n $n cxxrun {worker}; echo second $?")  # the lost step keeps its CPUs
        job = self.sbatch(f"{BEGIN}{STEP} cxxrun {worker}; echo first $?\n{again}", "-N3", "--no-kill")
        self.await_events(3, "start", 1)
        self.cluster.kill("node3")
        wait_until(
            lambda: len([e for e in self.events("start") if e[3] == "2"]) == 2, "two nodes go on", 90)
        self.open_gate("go")
        self.wait_job(job, "COMPLETED")
        self.assertIn("second 0", self.output(job))
        self.row("Rendezvous in the job script", "sbatch --no-kill, a node dies, the script runs srun --overlap -N REST cxxrun …",
                 "the next step goes on with the nodes that are left, its generation numbers and restart count too")


class Join(SlurmCase):
    def setUp(self):
        super().setUp()
        self.make_gate("more")
        self.program = self.worker('note start "$WORLD_SIZE" "$TORCHELASTIC_RUN_ID"; gate go')

    def check(self, job, *others):
        events = self.await_events(2, "start", 2)
        self.assertEqual({e[3:] for e in events}, {("2", f"{job}.0")})
        self.open_gate("go")
        for each in (job, *others):
            self.wait_job(each, "COMPLETED")

    def test_a_second_step_joins_the_first(self):
        one = f"{STEP} -N1 -n1 --exact"
        job = self.sbatch(f"{BEGIN}{one} cxxrun --nnodes 1:2 {self.program} & p=$!; : < more\n"
                          f"{one} cxxrun --join $SLURM_JOB_ID {self.program}; echo second $?; wait $p; echo first $?", "-N2")
        self.await_events(1, "start", 1)
        self.open_gate("more")
        self.check(job)
        for line in ("first 0", "second 0"):
            self.assertIn(line, self.output(job))
        self.row("--join", "srun cxxrun --join $SLURM_JOB_ID … as a second step", "it enters the running step; all form again")

    def test_a_second_job_joins_one_that_hosts_itself(self):
        job = self.sbatch(f"{STEP} cxxrun --nnodes 1:2 {self.program}", "-N1")
        self.await_events(1, "start", 1)
        wait_until(lambda: glob.glob(self.path(f".cxxrun/rendezvous/*-{job}.0")), "the step says where it is")
        other = self.sbatch(f"{STEP} cxxrun --join {job} {self.program}", "-N1")
        self.check(job, other)
        self.assertEqual(os.listdir(self.path(".cxxrun/rendezvous")), [])
        self.row("--join", "sbatch a second job with srun cxxrun --join JOBID …", "it enters the step of the first job")

    def test_a_second_job_joins_the_rendezvous_of_the_first(self):
        job = self.sbatch(f"{BEGIN}{STEP} cxxrun --nnodes 1:2 {self.program}", "-N1")
        self.await_events(1, "start", 1)
        other = self.sbatch(f"{STEP} cxxrun --join {job} {self.program}", "-N1")
        self.check(job, other)

    def test_a_second_step_joins_by_id_and_endpoint(self):
        one = f"{STEP} -N1 -n1 --exact"
        flags = "--nnodes 1:2 --rdzv-id mine --rdzv-endpoint node1:29455"
        job = self.sbatch(f"{one} -w node1 cxxrun {flags} --rdzv-conf last_call_timeout=1 {self.program} & p=$!; : < more\n"
                          f"{one} -w node2 cxxrun {flags} {self.program} & wait $p $!", "-N2", "-w", "node[1-2]")
        self.await_events(1, "start", 1)
        self.open_gate("more")
        events = self.await_events(2, "start", 2)
        self.assertEqual({e[3:] for e in events}, {("2", "mine")})
        self.open_gate("go")
        self.wait_job(job, "COMPLETED")
        self.row("--join", "--rdzv-id ID --rdzv-endpoint HOST:PORT in a second step", "the same")

    def test_a_job_that_is_not_there_is_named_with_where_was_looked(self):
        done = self.srun("-N1", "cxxrun", "--join", "4711", "--rdzv-conf", "join_timeout=1", self.program, code=113)
        self.assertIn("--join 4711: no such job can be joined (looked in ", done.err)
        self.row("--join", "--join of a job that is not there", "exit code 113 after `join_timeout` (30 s), with a line that says where was looked")


if __name__ == "__main__":
    slurm_case.main()
