"""`cxxrun` without flags in every form in which Slurm starts tasks. Usage: forms_test.py CXXRUN

Every worker tells its place, and takes part in a sum over all ranks through the job's store (examples/01_local)."""
import os

import slurm_case
from releases import expected
from slurm_case import SlurmCase

GPU_FORMS = {  # what asks for GPUs on two nodes, and the workers there
    "--gpus-per-node=2": (2, 2),
    "--gres=gpu:2": (2, 2),
    "--gpus-per-task=2": (2, 2),
    "--gpus=4": (3, 1),  # Slurm spreads them as it likes
    "": (1, 1),  # no GPU: one worker
}


def setUpModule():
    slurm_case.use_cluster(nodes=4)


class FormCase(SlurmCase):
    def setUp(self):
        super().setUp()
        self.train = self.worker(
            'note place "$(hostname)" $LOCAL_RANK $LOCAL_WORLD_SIZE $WORLD_SIZE $MASTER_ADDR $MASTER_PORT'
            ' "${CUDA_VISIBLE_DEVICES:-none}" ${TASK:-none} ${SLURM_JOB_ID:-0}.${SLURM_STEP_ID:-0}\n'
            '[ ! -e "$DIR/hold" ] || : < "$DIR/hold"\n'  # not as a gate: worker() would make it
            f'exec {self.cluster.base}/bin/examples/ring --steps 2', "train")

    def places(self, step=None):
        """(host, LOCAL_RANK, LOCAL_WORLD_SIZE, WORLD_SIZE, address, port, GPUs) by rank."""
        told = sorted(e for e in self.events("place") if step in (None, e[-1], e[-1].split(".")[0]))
        self.assertEqual([e[1] for e in told], list(range(len(told))), told)
        return [(e[3], int(e[4]), int(e[5]), int(e[6]), *e[7:10]) for e in told]

    def forget(self):
        if os.path.exists(self.path("events")):
            os.remove(self.path("events"))

    def assert_job(self, output, *workers, on=None, step=None):
        """workers: how many on each node, in the order of ranks; on: the nodes' names. Returns what GPUs each sees."""
        places = self.places(step)
        hosts = on or sorted({place[0] for place in places})
        self.assertEqual(len(hosts), len(workers), f"{places}\n{output}")
        expected = [(host, local, count, sum(workers))
                    for host, count in zip(hosts, workers) for local in range(count)]
        self.assertEqual([place[:4] for place in places], expected, output)
        self.assertEqual(len({place[4:6] for place in places}), 1, "one MASTER_ADDR and MASTER_PORT")
        ranks = len(places)
        self.assertIn(f"step 2: sum over {ranks} ranks = {ranks * (ranks + 1) // 2}", output)
        return [place[6] for place in places]


class OneTaskPerNode(FormCase):
    """--ntasks-per-node=1 and what amounts to it: a worker per visible GPU."""

    def check(self, form, workers, output):
        gpus = self.assert_job(output, *workers)
        visible = [seen for seen in gpus if seen != "none"]
        self.assertEqual(len(visible), sum(workers) if form else 0)
        self.assertEqual({len(seen.split(",")) for seen in visible}, set(workers) if form else set())

    def tell(self, typed, workers):
        each = {(2, 2): "2 workers on each node", (1, 1): "1 worker on each node",
                (3, 1): "3 workers and 1 worker, because Slurm gives 3 GPUs and 1"}[workers]
        self.row("zero flags, one task per node", " ".join(typed.split()).replace(" ;", ";"), each)

    def test_srun(self):
        for form, workers in GPU_FORMS.items():
            with self.subTest(form=form):
                self.forget()
                done = self.srun("-N2", "--ntasks-per-node=1", *form.split(), "cxxrun", self.train, code=0)
                self.check(form, workers, done.out)
                self.tell(f"srun -N2 --ntasks-per-node=1 {form} cxxrun ./train", workers)

    def test_sbatch(self):
        for form, workers in GPU_FORMS.items():
            with self.subTest(form=form):
                self.forget()
                job = self.sbatch(f"srun cxxrun {self.train}", "-N2", "--ntasks-per-node=1", *form.split(),
                                  state="COMPLETED")
                self.check(form, workers, self.output(job))
                self.tell(f"sbatch -N2 --ntasks-per-node=1 {form}; in it: srun cxxrun ./train", workers)

    def test_salloc(self):
        for form, workers in GPU_FORMS.items():
            with self.subTest(form=form):
                self.forget()
                done = self.salloc("-N2", "--ntasks-per-node=1", *form.split(), "srun", "cxxrun", self.train, code=0)
                self.check(form, workers, done.out)
                self.tell(f"salloc -N2 --ntasks-per-node=1 {form}; in it: srun cxxrun ./train", workers)

    def test_a_single_node(self):
        done = self.srun("--gpus-per-node=4", "cxxrun", self.train, code=0)
        self.assert_job(done.out, 4)
        self.row("zero flags, one task per node", "srun --gpus-per-node=4 cxxrun ./train", "4 workers on one node")

    def test_a_step_on_a_subset_of_the_nodes(self):
        done = self.salloc("-N4", "srun", "-N2", "-n2", "-w", "node2,node4", "cxxrun", "--nproc-per-node", "2",
                           self.train, code=0)
        self.assert_job(done.out, 2, 2, on=["node2", "node4"])
        self.row("steps", "salloc -N4; in it: srun -N2 -n2 -w node2,node4 cxxrun --nproc-per-node 2 ./train",
                 "a job of those two nodes, 2 workers on each")

    def test_an_unprivileged_user(self):
        done = self.srun("-N2", "--gpus-per-node=2", "cxxrun", self.train, user="nobody", code=0)
        self.assert_job(done.out, 2, 2)
        self.row("zero flags, one task per node", "srun -N2 --gpus-per-node=2 cxxrun ./train, as an ordinary user",
                 "2 workers on each node")

    def test_no_command_of_slurm_is_needed_on_the_nodes(self):
        os.mkdir(self.path("tools"))
        for tool in ("sh", "hostname"):
            os.symlink(f"/usr/bin/{tool}", self.path(f"tools/{tool}"))
        env = {"PATH": f"{self.cluster.base}/bin:{self.path('tools')}"}
        done = self.login("/usr/bin/srun", "-N2", "--gpus-per-node=2", "cxxrun", self.train, env=env, code=0)
        self.assert_job(done.out, 2, 2)
        self.row("zero flags, one task per node",
                 "srun -N2 --gpus-per-node=2 cxxrun ./train, without Slurm's commands in PATH",
                 "2 workers on each node: nothing but the variables of the step is used")

    def test_a_failure_on_any_node_is_the_exit_code(self):
        self.srun("-N2", "cxxrun", "sh", "-c", "[ $RANK = 0 ] || exit 7; sleep 100", code=7)
        self.row("steps", "srun -N2 cxxrun ./train, where rank 1 exits with 7", "exit code 7, everything stopped")


class SeveralTasksPerNode(FormCase):
    """One worker per task: RANK is SLURM_PROCID, LOCAL_RANK is valid for the devices that the task sees."""

    def assert_tasks(self, output, *tasks, own):
        """own: each task sees devices of its own, so it is alone as far as LOCAL_RANK goes."""
        places = self.places()
        hosts = sorted({place[0] for place in places})
        local = [(host, number, count) for host, count in zip(hosts, tasks) for number in range(count)]
        expected = [(host, 0, 1) if own else (host, number, count) for host, number, count in local]
        self.assertEqual([place[:3] for place in places], expected, output)
        self.assertEqual({place[3:6] for place in places}, {(sum(tasks), *places[0][4:6])})
        told = {event[1]: event[-2] for event in self.events("place")}
        self.assertEqual(told, {rank: f"{rank}:{number}" for rank, (_, number, _) in enumerate(local)})
        self.assertIn(f"step 2: sum over {sum(tasks)} ranks = {sum(tasks) * (sum(tasks) + 1) // 2}", output)
        return [place[6] for place in places]

    def task(self):
        """What a task runs: cxxrun, whose worker can tell which task (not which worker) it belongs to."""
        return ["sh", "-c", f"TASK=$SLURM_PROCID:$SLURM_LOCALID exec cxxrun {self.train}"]

    def test_each_task_sees_all_gpus_of_the_node(self):
        done = self.srun("-N2", "--ntasks-per-node=2", "--gpus-per-node=2", *self.task(), code=0)
        self.assertEqual(set(self.assert_tasks(done.out, 2, 2, own=False)), {"0,1"})
        self.row("zero flags, one task per GPU", "srun -N2 --ntasks-per-node=2 --gpus-per-node=2 cxxrun ./train",
                 "1 worker per task, RANK=SLURM_PROCID, LOCAL_RANK=SLURM_LOCALID, LOCAL_WORLD_SIZE=2")

    def test_each_task_sees_a_gpu_of_its_own(self):
        done = self.srun("-N2", "--ntasks-per-node=4", "--gpus-per-task=1", *self.task(), code=0)
        gpus = self.assert_tasks(done.out, 4, 4, own=True)
        self.assertEqual(sorted(gpus), sorted(2 * expected("one GPU of each of four tasks")))
        self.assertEqual(done.err.count("LOCAL_RANK is 0"), 1, done)
        self.row("zero flags, one task per GPU", "srun -N2 --ntasks-per-node=4 --gpus-per-task=1 cxxrun ./train",
                 "1 worker per task, RANK=SLURM_PROCID, LOCAL_RANK=0 and LOCAL_WORLD_SIZE=1, as each sees one GPU; "
                 "one line says so")

    def test_in_a_batch_job(self):
        job = self.sbatch(f"srun cxxrun {self.train}", "-N2", "--ntasks-per-node=2", "--gpus-per-node=2",
                          state="COMPLETED")
        self.assert_job(self.output(job), 2, 2)
        self.row("zero flags, one task per GPU", "sbatch -N2 --ntasks-per-node=2 --gpus-per-node=2; in it: "
                 "srun cxxrun ./train", "1 worker per task, LOCAL_RANK=SLURM_LOCALID")

    def test_in_a_batch_job_with_a_gpu_per_task(self):
        self.sbatch(f"srun cxxrun {self.train}", "-N2", "--ntasks-per-node=2", "--gpus-per-task=1", state="COMPLETED")
        self.assertEqual([place[1:4] for place in self.places()], [(0, 1, 4)] * 4)
        self.row("zero flags, one task per GPU", "sbatch -N2 --ntasks-per-node=2 --gpus-per-task=1; in it: "
                 "srun cxxrun ./train", "1 worker per task, LOCAL_RANK=0")

    def test_uneven_tasks(self):
        done = self.srun("-N3", "-n5", *self.task(), code=0)
        self.assert_tasks(done.out, 3, 1, 1, own=False)
        self.row("zero flags, one task per GPU", "srun -N3 -n5 cxxrun ./train (tasks: 3, 1, 1)",
                 "5 workers, LOCAL_WORLD_SIZE 3, 1 and 1")

    def test_more_workers_per_task_are_refused(self):
        done = self.srun("-N2", "--ntasks-per-node=2", "cxxrun", "--nproc-per-node", "2", self.train, code=100)
        self.assertIn("use srun --ntasks-per-node=1", done.err)
        self.row("refused", "srun -N2 --ntasks-per-node=2 cxxrun --nproc-per-node 2 ./train",
                 "exit 100: use srun --ntasks-per-node=1, or drop --nproc-per-node")


class SideBySide(FormCase):
    def held(self):
        self.make_gate("hold")
        return self.train

    def test_two_steps_on_the_same_nodes_at_once(self):
        # The job's -c2 would make each step take all CPUs of the job, where srun takes it over (since 23.11).
        step = f"srun --exact -N2 -n2 -c1 --gpus-per-node=2 cxxrun {self.held()}"
        job = self.sbatch(f"{step} & first=$!\n{step} & second=$!\nwait $first && wait $second", "-N2", "-n2", "-c2",
                          "--gpus-per-node=4", env={"SLURM_CPUS_PER_TASK": None})
        self.await_events(8, "place")
        self.open_gate("hold")
        self.wait_job(job, "COMPLETED")
        gpus = [self.assert_job(self.output(job), 2, 2, step=f"{job}.{n}") for n in (0, 1)]
        self.assertEqual({frozenset(of) for of in gpus}, {frozenset({seen}) for seen in expected("two GPUs of each of two steps")})
        self.row("side by side", "twice in one job: srun --exact -N2 -n2 --gpus-per-node=2 "
                 "cxxrun ./train &", "two jobs of 4 workers that do not meet, each with its own GPUs")

    def test_two_jobs_on_the_same_nodes_at_once(self):
        runs = [self.start_srun("-N2", "-w", "node1,node2", "--gpus-per-node=2", "cxxrun", self.held_once())
                for _ in range(2)]
        self.await_events(8, "place")
        self.open_gate("hold")
        self.assertEqual([run.wait() for run in runs], [0, 0], runs[0].err + runs[1].err)
        steps = sorted({e[-1] for e in self.events("place")})
        for step in steps:
            self.assert_job(runs[0].out, 2, 2, step=step)
        self.assertEqual(len(steps), 2)
        self.row("side by side", "twice at once, on the same nodes: srun -N2 --gpus-per-node=2 cxxrun ./train",
                 "two jobs of 4 workers that do not meet, each with its own GPUs")

    def held_once(self):
        return self.train if os.path.exists(self.path("hold")) else self.held()

    def test_the_tasks_of_a_job_array(self):
        array = self.sbatch(f"srun cxxrun {self.held()}", "--array=0-1", "-N2", "--gpus-per-node=2")
        self.await_events(8, "place")
        self.open_gate("hold")
        ids = sorted({e[-1] for e in self.events("place")})
        for index in (0, 1):
            self.wait_job(f"{array}_{index}", "COMPLETED")
            self.assertIn("step 2: sum over 4 ranks = 10", self.output(f"{array}_{index}"))
        self.assertEqual(len(ids), 2)
        for step in ids:
            self.assert_job(self.output(f"{array}_0"), 2, 2, step=step)
        self.row("side by side", "sbatch --array=0-1 -N2 --gpus-per-node=2; in it: srun cxxrun ./train",
                 "two jobs of 4 workers, one per task of the array")


class UnlikeNodes(FormCase):
    cluster_options = {"gpus": [4, 2]}

    def test_each_node_starts_as_many_workers_as_it_has_gpus(self):
        done = self.srun("-N2", "-n2", "--gpus=6", "cxxrun", self.train, code=0)
        self.assert_job(done.out, 4, 2)
        self.row("zero flags, one task per node", "srun -N2 --gpus=6 cxxrun ./train, on nodes with 4 and 2 GPUs",
                 "4 workers on the one, 2 on the other, WORLD_SIZE 6")


class UnderCgroup(FormCase):
    """The same where Slurm tracks processes by cgroup, as most sites do."""
    cluster_options = {"nodes": 2, "proctrack": "cgroup"}

    def test_one_task_per_node(self):
        done = self.srun("-N2", "--gpus-per-node=2", "cxxrun", self.train, code=0)
        self.assert_job(done.out, 2, 2)

    def test_one_task_per_gpu(self):
        done = self.srun("-N2", "--ntasks-per-node=2", "--gpus-per-node=2", "cxxrun", self.train, code=0)
        self.assert_job(done.out, 2, 2)


class Heterogeneous(FormCase):
    def assert_refused(self, code, text):
        self.assertEqual(code, 100, text)
        lines = [line for line in text.splitlines() if "heterogeneous" in line]
        self.assertTrue(lines, text)
        self.assertTrue(all("not supported; submit a job without ':' or hetjob" in line for line in lines), text)
        self.assertEqual(self.events(), [])

    def test_srun_of_two_components_is_refused(self):
        done = self.srun("-N1", "cxxrun", self.train, ":", "-N1", "cxxrun", self.train)
        self.assert_refused(done.code, done.err)
        self.row("refused", "srun -N1 cxxrun ./train : -N1 cxxrun ./train", "exit 100: heterogeneous Slurm job")

    def test_a_step_of_a_heterogeneous_batch_job_is_refused(self):
        job = self.sbatch(f"#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N1\nsrun --het-group=0,1 cxxrun {self.train}",
                          state="FAILED")
        self.assert_refused(int(self.job(job)["ExitCode"].split(":")[0]), self.output(job))
        self.row("refused", "#SBATCH hetjob; in it: srun --het-group=0,1 cxxrun ./train",
                 "exit 100: heterogeneous Slurm job")


if __name__ == "__main__":
    slurm_case.main()
