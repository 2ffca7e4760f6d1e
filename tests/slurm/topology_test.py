"""Who is who in every form of step: ranks, devices, SLURM_* of workers, refusals. Usage: topology_test.py CXXRUN"""
import slurm_case
from releases import expected
from slurm_case import SlurmCase

USAGE = 100

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "CUDA_VISIBLE_DEVICES",
         "CXXRUN_RUN_ID", "CXXRUN_HOST", "MASTER_ADDR", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS",
         "SLURM_NNODES", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_GTIDS", "SLURM_STEP_NUM_TASKS",
         "SLURM_STEP_NODELIST", "SLURM_CPUS_PER_TASK", "SLURM_ARRAY_TASK_ID")


def setUpModule():
    slurm_case.use_cluster(nodes=4)


class Topology(SlurmCase):
    def teller(self):
        """A worker that tells its variables, one event each: NAME=VALUE…"""
        return self.worker("note told " + " ".join(f"{name}=${{{name}-unset}}" for name in NAMES))

    def told(self):
        """What the workers found, by run id and rank."""
        found = [dict(word.split("=", 1) for word in event[3:]) for event in self.events("told")]
        return sorted(found, key=lambda worker: (worker["CXXRUN_RUN_ID"], int(worker["RANK"])))

    def workers(self, *arguments, **more):
        """Runs `srun …` to its good end and returns what its workers found, by rank."""
        done = self.srun(*arguments, **more, code=0)
        self.said = done.err
        return self.told()

    def column(self, workers, *names):
        rows = [tuple(worker[name] for name in names) for worker in workers]
        return [row[0] for row in rows] if len(names) == 1 else rows

    def refused(self, *arguments, line):
        done = self.srun(*arguments, code=USAGE)
        said = {text for text in done.err.splitlines() if text.startswith("cxxrun")}
        self.assertEqual(len(said), 1, done)
        self.assertIn(line, said.pop())
        self.assertEqual(self.events(), [])


class SeveralTasks(Topology):
    def test_each_task_of_a_node_is_a_worker_with_slurms_numbers(self):
        workers = self.workers("-N2", "--ntasks-per-node=4", "cxxrun", self.teller())
        self.assertEqual(self.column(workers, "RANK", "LOCAL_RANK", "GROUP_RANK", "CXXRUN_HOST"),
                         [(str(r), str(r % 4), str(r // 4), f"node{r // 4 + 1}") for r in range(8)])
        for worker in workers:
            self.assertEqual((worker["RANK"], worker["LOCAL_RANK"], worker["GROUP_RANK"]),
                             (worker["SLURM_PROCID"], worker["SLURM_LOCALID"], worker["SLURM_NODEID"]))
        self.assertEqual(set(self.column(workers, "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE")), {("8", "4", "2")})
        self.row("zero flags", "srun -N2 --ntasks-per-node=4 cxxrun ./train",
                 "8 workers; RANK, LOCAL_RANK and GROUP_RANK are SLURM_PROCID, SLURM_LOCALID and SLURM_NODEID")

    def test_a_task_with_a_gpu_of_its_own_is_local_rank_0(self):
        workers = self.workers("-N2", "--ntasks-per-node=4", "--gpus-per-task=1", "cxxrun", self.teller())
        self.assertEqual(self.column(workers, "LOCAL_RANK", "LOCAL_WORLD_SIZE"), [("0", "1")] * 8)
        self.assertEqual(self.column(workers, "CUDA_VISIBLE_DEVICES"), 2 * expected("one GPU of each of four tasks"))
        self.assertEqual(self.said.count("each task sees GPUs of its own"), 1, self.said)
        self.row("zero flags", "srun -N2 --ntasks-per-node=4 --gpus-per-task=1 cxxrun ./train",
                 "8 workers with one visible GPU each: LOCAL_RANK 0, LOCAL_WORLD_SIZE 1, and one line that says so")

    def test_tasks_that_see_all_gpus_of_the_node_count_them_by_local_rank(self):
        workers = self.workers("-N1", "-n4", "--gpus-per-node=4", "cxxrun", self.teller())
        self.assertEqual(self.column(workers, "LOCAL_RANK", "CUDA_VISIBLE_DEVICES"),
                         [(str(r), "0,1,2,3") for r in range(4)])
        self.assertEqual(set(self.column(workers, "MASTER_ADDR")), {"127.0.0.1"})
        self.row("zero flags", "srun -N1 -n4 --gpus-per-node=4 cxxrun ./train",
                 "4 workers that see 4 GPUs each: LOCAL_RANK 0 to 3; nothing listens beyond 127.0.0.1")

    def test_more_tasks_than_gpus_spread_over_them_by_local_rank(self):
        workers = self.workers("-N1", "-n4", "--gpus-per-node=2", "cxxrun", self.teller())
        self.assertEqual(self.column(workers, "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES"),
                         [(str(r), "4", "0,1") for r in range(4)])
        self.assertEqual(self.said.count("4 tasks share 2 GPUs: a worker's GPU is LOCAL_RANK modulo 2"), 1, self.said)
        self.row("zero flags", "srun -N1 -n4 --gpus-per-node=2 cxxrun ./train",
                 "4 workers that see 2 GPUs: LOCAL_RANK 0 to 3, and one line that says 4 tasks share 2 GPUs")

    def test_a_script_before_cxxrun_may_choose_the_gpu_of_a_task(self):
        workers = self.workers("-N1", "-n4", "--gpus-per-node=4", "sh", "-c",
                               f"CUDA_VISIBLE_DEVICES=$SLURM_LOCALID exec cxxrun {self.teller()}")
        self.assertEqual(self.column(workers, "LOCAL_RANK", "CUDA_VISIBLE_DEVICES"), [("0", str(r)) for r in range(4)])

    def test_uneven_tasks(self):
        workers = self.workers("-N3", "-n5", "cxxrun", self.teller())
        self.assertEqual(self.column(workers, "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
                         [("0", "0", "3", "0"), ("1", "1", "3", "0"), ("2", "2", "3", "0"), ("3", "0", "1", "1"),
                          ("4", "0", "1", "2")])
        self.row("zero flags", "srun -N3 -n5 cxxrun ./train", "5 workers, 3 on the first node, LOCAL_WORLD_SIZE by node")

    def test_process_0_may_be_on_any_node(self):
        self.make_file("hosts", "node2\nnode1\nnode1\nnode3\n")
        workers = self.workers("-n4", "-m", "arbitrary", "cxxrun", self.teller(), env={"SLURM_HOSTFILE": self.path("hosts")})
        self.assertEqual(self.column(workers, "CXXRUN_HOST"), ["node2", "node1", "node1", "node3"])
        self.assertEqual(self.column(workers, "RANK"), self.column(workers, "SLURM_PROCID"))
        self.row("zero flags", "srun -n4 -m arbitrary cxxrun ./train",
                 "ranks as in SLURM_HOSTFILE; the rendezvous is on the first node of SLURM_STEP_NODELIST")

    def test_files_of_the_tasks_of_a_node_are_apart(self):
        self.srun("-N2", "--ntasks-per-node=2", "cxxrun", "--log-dir", self.path("logs"), "-r", "3", "sh", "-c",
                  "echo $RANK", code=0)
        found = self.login("sh", "-c", "cd logs; cat */attempt_1/*/stdout.log; ls */verdict.json")
        self.assertEqual(sorted(found.out.split()[:4]), ["0", "1", "2", "3"], found)
        self.assertTrue(found.out.split()[4].endswith("_node1_task0/verdict.json"), found)
        self.assertEqual(len(found.out.split()), 5, found)

    def test_contradictions_are_refused(self):
        self.refused("-N2", "--ntasks-per-node=2", "cxxrun", "--nproc-per-node", "2", self.teller(),
                     line="use srun --ntasks-per-node=1, or drop --nproc-per-node")
        self.refused("-N2", "--ntasks-per-node=2", "cxxrun", "--nnodes", "1:2", self.teller(),
                     line="use srun --ntasks-per-node=1")
        self.row("contradictions", "srun --ntasks-per-node=2 cxxrun --nproc-per-node 2 ./train",
                 "refused: use srun --ntasks-per-node=1, or drop --nproc-per-node")
        self.row("contradictions", "srun --ntasks-per-node=2 cxxrun --nnodes 1:2 ./train",
                 "refused: use srun --ntasks-per-node=1")

    def test_a_failure_of_one_task_restarts_all_of_them(self):
        program = self.worker('note up; [ "$CXXRUN_GENERATION$RANK" != 11 ] || exit 7')
        self.srun("-N2", "--ntasks-per-node=2", "cxxrun", program, code=0)
        self.assertEqual(sorted(r for _, r, *_ in self.events("up", generation=2)), [0, 1, 2, 3])


class OneTaskPerNode(Topology):
    def test_gpus_in_every_form_are_workers(self):
        for number, request in enumerate(("--gpus-per-node=4", "--gres=gpu:4", "--gpus-per-task=4", "--gpus=8",
                                          "--gpus-per-node=4 --gpu-bind=none")):
            with self.subTest(request):
                before = len(self.events("told"))
                done = self.srun("-N2", "--ntasks-per-node=1", *request.split(), "cxxrun", self.teller(), code=0)
                self.assertEqual(len(self.events("told")) - before, 8, done)
                self.row("zero flags", f"srun -N2 --ntasks-per-node=1 {request} cxxrun ./train", "4 workers per node")

    def test_nodes_with_different_numbers_of_gpus(self):
        workers = self.workers("-N2", "--ntasks-per-node=1", "--gpus=3", "cxxrun", "--slurm-env=all", self.teller())
        self.assertEqual(self.column(workers, "CXXRUN_HOST", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_TASKS_PER_NODE",
                                     "SLURM_NTASKS_PER_NODE"),
                         [("node1", "0", "2", "2,1", "unset"), ("node1", "1", "2", "2,1", "unset"),
                          ("node2", "0", "1", "2,1", "unset")])
        self.row("zero flags", "srun -N2 --ntasks-per-node=1 --gpus=3 cxxrun ./train", "2 workers and 1")

    def test_a_program_that_reads_slurm_alone_finds_its_own_numbers(self):
        workers = self.workers("-N2", "--ntasks-per-node=1", "-c4", "cxxrun", "--slurm-env=all", "--nproc-per-node", "2",
                               self.teller())
        for worker in workers:
            self.assertEqual((worker["RANK"], worker["LOCAL_RANK"], worker["GROUP_RANK"], worker["WORLD_SIZE"]),
                             (worker["SLURM_PROCID"], worker["SLURM_LOCALID"], worker["SLURM_NODEID"],
                              worker["SLURM_NTASKS"]))
        self.assertEqual(self.column(workers, "SLURM_GTIDS"), ["0,1", "0,1", "2,3", "2,3"])
        self.assertEqual(set(self.column(workers, "SLURM_NNODES", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE",
                                         "SLURM_STEP_NODELIST", "SLURM_CPUS_PER_TASK")),
                         {("2", "2(x2)", "2", "node[1-2]", "2")})
        self.row("SLURM_* of workers", "srun -N2 --ntasks-per-node=1 cxxrun --slurm-env=all --nproc-per-node 2 ./train",
                 "SLURM_PROCID 0 to 3, SLURM_LOCALID 0 and 1, SLURM_NTASKS 4; the originals are CXXRUN_SLURM_*")

    def test_the_variables_are_those_of_a_real_step_with_as_many_tasks(self):
        names = [name for name in NAMES if name.startswith("SLURM_")]
        real = self.srun("-N2", "-w", "node[1-2]", "--ntasks-per-node=2", "sh", "-c",
                         "echo $SLURM_PROCID " + " ".join(f"{n}=${{{n}-unset}}" for n in names), code=0)
        expected = [line.split()[1:] for line in sorted(real.out.splitlines())]
        workers = self.workers("-N2", "-w", "node[1-2]", "--ntasks-per-node=1", "cxxrun", "--slurm-env=all",
                               "--nproc-per-node", "2", self.teller())
        self.assertEqual([[f"{name}={worker[name]}" for name in names] for worker in workers], expected)

    def test_what_a_worker_starts_by_srun_and_sbatch_is_what_a_plain_task_starts(self):
        """srun and sbatch take SLURM_NTASKS and others for options; the scripts of both are told all that differs."""
        tell = self.script("echo $1 $SLURM_NTASKS $SLURM_NPROCS $SLURM_NNODES ${SLURM_NTASKS_PER_NODE-unset} "
                           "${SLURM_CPUS_PER_TASK-unset} $SLURM_TASKS_PER_NODE $SLURM_STEP_NUM_TASKS >>$2")
        evaluation = self.script(f"srun {tell} batch $1")
        starts = (f"srun --overlap {tell} overlap $FOUND && srun --overlap -n1 {tell} one $FOUND && "
                  f"sbatch --wait -N1 -c2 --overcommit {evaluation} $FOUND")
        found = {}
        for name, launcher in (("plain", ()), ("worker", ("cxxrun", "--nproc-per-node=2"))):
            file = self.path(name)
            self.srun("-N1", "-c2", "--ntasks-per-node=1", *launcher, "bash", "-c",
                      f"[ ${{RANK-0}} != 0 ] || {{ {starts}; }}", env={"FOUND": file}, code=0)
            with open(file) as lines:
                found[name] = sorted(lines)
        self.assertEqual(found["worker"], found["plain"])
        self.assertEqual([line.split()[0] for line in found["worker"]], ["batch", "one", "overlap"])
        self.row("SLURM_* of workers", "srun -N1 cxxrun --nproc-per-node=2 ./train; in a worker: srun --overlap hostname, "
                 "sbatch eval.sh", "what a plain task of srun's would start: one of each")

    def test_mpi_is_set_up_by_srun_where_a_task_has_one_worker(self):
        """By hand what MPI_Init of MPICH says to mpi/pmi2, with a barrier of both ranks."""
        program = self.python_worker("""
if "PMI_FD" not in os.environ:
    note("alone")
else:
    manager = os.fdopen(os.dup(int(os.environ["PMI_FD"])), "r+b", buffering=0)
    for line in ("init pmi_version=1 pmi_subversion=1", "barrier_in", "finalize"):
        manager.write(b"cmd=%s\\n" % line.encode())
        answer = manager.readline().split()
    note(os.environ["PMI_RANK"], os.environ["PMI_SIZE"], answer[0].decode())
""")
        for arguments, workers, told in (
                (("-N2", "-n2"), (), [[str(rank), str(rank), "2", "cmd=finalize_ack"] for rank in range(2)]),
                (("-N1", "-n2"), (), [[str(rank), str(rank), "2", "cmd=finalize_ack"] for rank in range(2)]),
                (("-N1", "-n1"), ("--nproc-per-node=2",), [[str(rank), "alone"] for rank in range(2)])):
            before = len(self.events())
            self.srun(*arguments, "--mpi=pmi2", "cxxrun", *workers, *program, code=0)
            self.assertEqual(sorted([str(event[1]), *event[2:]] for event in self.events()[before:]), told)
        self.row("MPI", "srun --mpi=pmi2 cxxrun ./mpi_program, one worker per task", "the ranks of one MPI job, as by srun alone")
        self.row("MPI", "srun --mpi=pmi2 cxxrun --nproc-per-node=2 ./mpi_program", "each worker is an MPI program of its own")

    def test_a_batch_script_that_a_worker_has_submitted_is_in_no_step(self):
        """sbatch hands the variables of the worker's step on to it."""
        body = self.script("cxxrun --nproc-per-node=2 " + self.teller())
        self.srun("-N1", "-w", "node1", "--ntasks-per-node=1", "env", "DIR=" + self.dir, "cxxrun",
                  "--nproc-per-node=2", "sh", "-c", f"[ $RANK != 0 ] || sbatch --wait -w node2 -o {self.path('out')} {body}",
                  code=0)
        self.assertEqual(self.column(self.told(), "RANK", "WORLD_SIZE", "CXXRUN_HOST", "SLURM_STEP_NODELIST"),
                         [("0", "2", "node2", "unset"), ("1", "2", "node2", "unset")])
        self.row("SLURM_* of workers", "sbatch job.sh in a worker; in it: cxxrun ./train, without srun",
                 "a job on the node of the script; the variables of the worker's step, which sbatch hands on, are not its own")

    def test_a_step_on_some_nodes_of_the_job(self):
        self.salloc("-N4", "srun", "-N2", "-n2", "-w", "node2,node4", "cxxrun", "--nproc-per-node", "2",
                    self.teller(), code=0)
        self.assertEqual(self.column(self.told(), "CXXRUN_HOST", "SLURM_STEP_NODELIST", "SLURM_NODEID"),
                         [("node2", "node[2,4]", "0")] * 2 + [("node4", "node[2,4]", "1")] * 2)
        self.row("zero flags", "salloc -N4; srun -N2 -n2 -w node2,node4 cxxrun ./train",
                 "a job of those two nodes, met at node2")

    def test_the_tasks_of_an_array_are_jobs_of_their_own(self):
        job = self.sbatch(f"srun cxxrun --nproc-per-node 2 {self.teller()}", "-N2", "--ntasks-per-node=1", "--array=0-1")
        self.await_events(8, "told")
        self.wait_job(job)
        runs = {}
        for worker in self.told():
            runs.setdefault(worker["CXXRUN_RUN_ID"], set()).add((worker["RANK"], worker["SLURM_ARRAY_TASK_ID"]))
        self.assertEqual(sorted(map(sorted, runs.values())),
                         [[(str(r), task) for r in range(4)] for task in ("0", "1")])
        self.row("zero flags", "sbatch --array=0-1; srun cxxrun ./train", "two jobs that never meet")

    def test_two_steps_and_two_jobs_share_nodes(self):
        body = (f"for i in 1 2; do srun --overlap -N2 -n2 cxxrun --nproc-per-node 2 {self.teller()} & done; wait")
        jobs = [self.sbatch(body, "-N2", "--ntasks-per-node=1", "-w", "node1,node2") for _ in range(2)]
        self.assertEqual([self.wait_job(job) for job in jobs], ["COMPLETED"] * 2, self.output(jobs[0]))
        runs = {}
        for worker in self.told():
            runs.setdefault(worker["CXXRUN_RUN_ID"], []).append(worker["RANK"])
        self.assertEqual(runs, {f"{job}.{step}": ["0", "1", "2", "3"] for job in jobs for step in (0, 1)},
                         [self.output(job) for job in jobs])
        self.row("zero flags", "two jobs of two steps each on the same two nodes", "four jobs that never meet")

    def test_the_batch_host_without_a_port_is_a_good_endpoint(self):
        job = self.sbatch("RDV_ADDR=$(hostname)\n"
                          "srun -l cxxrun --nproc_per_node=$SLURM_GPUS_PER_NODE --nnodes=$SLURM_JOB_NUM_NODES "
                          f"--rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=$RDV_ADDR {self.teller()}",
                          "-N2", "--ntasks-per-node=1", "--gpus-per-node=2", state="COMPLETED")
        self.assertEqual(self.column(self.told(), "RANK", "CXXRUN_RUN_ID"), [(str(r), job) for r in range(4)])
        self.row("torchrun's flags", "srun cxxrun --nproc_per_node=$SLURM_GPUS_PER_NODE --rdzv_endpoint=$(hostname) ...",
                 "the same 4 workers as without flags")

    def test_heterogeneous_jobs_are_refused_and_their_parts_can_be_used(self):
        self.refused("-N1", "cxxrun", self.teller(), ":", "-N1", "cxxrun", self.teller(), line="heterogeneous Slurm job")
        self.sbatch("srun --het-group=1 env -u SLURM_HET_SIZE -u SLURM_PACK_SIZE cxxrun --nproc-per-node 2 "
                    + self.teller(), "-N1", "-n1", ":", "-N2", "-n2", state="COMPLETED")
        self.assertEqual(self.column(self.told(), "RANK"), ["0", "1", "2", "3"])
        self.row("contradictions", "srun cxxrun ./train : cxxrun ./train", "refused: heterogeneous jobs are not supported")


if __name__ == "__main__":
    slurm_case.main()
