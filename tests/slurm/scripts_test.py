"""The job scripts of examples/slurm, submitted as they are. Usage: scripts_test.py CXXRUN
Exit code 77: skipped, with the reason."""
import difflib
import os
import re
import signal

import slurm_case
from example_case import NO_TORCH, ExampleCase, has_torch, lines_of, script
from slurm_case import jobs


def setUpModule():
    slurm_case.use_cluster(nodes=4, gpus=4)


def changed_words(before, after):
    """(old words, new words) wherever two scripts differ."""
    old, new = before.split(), after.split()
    return [(old[i:j], new[k:n]) for tag, i, j, k, n in difflib.SequenceMatcher(None, old, new).get_opcodes()
            if tag != "equal"]


class TaskPerGpu(ExampleCase):
    def assert_trained_in_slurms_order(self, text, local_ranks):
        self.assert_trained(text, world=4, steps=3)
        places = {(line.rank, line.text) for line in lines_of(text)}
        self.assertEqual(places, {(rank, f" on node{1 + rank // 2}, local rank {local_ranks[rank % 2]}")
                                  for rank in range(4)})

    def test_ranks_are_the_schedulers_and_local_rank_is_the_one_visible_device(self):
        self.assert_trained_in_slurms_order(self.run_example("a_task_per_gpu", "after.sh"), (0, 0))
        self.row("scripts", "--ntasks-per-node=2 --gpus-per-task=1; srun cxxrun train.py",
                 "ranks are Slurm's, LOCAL_RANK is 0: the one GPU that the task sees")

    @jobs.long
    def test_where_all_tasks_see_all_devices_local_rank_counts_them(self):
        text = script("a_task_per_gpu", "after.sh").replace("--gpus-per-task=1", "--gpus-per-node=2")
        self.assert_trained_in_slurms_order(self.finish(self.submit("a_task_per_gpu", text)), (0, 1))
        self.row("scripts", "--ntasks-per-node=2 --gpus-per-node=2; srun cxxrun train.py",
                 "ranks are Slurm's, LOCAL_RANK is 0 and 1: both GPUs are visible to both tasks")


class InsteadOfTorchrun(ExampleCase):
    def rank_pid(self, rank):
        """The process of a rank, wherever it runs, as soon as it has written a snapshot."""
        def found():
            for pid in jobs.processes_with(self.marker):
                words = jobs.read(f"/proc/{pid}/environ").split("\0")
                if f"RANK={rank}" in words and "train.py" in jobs.read(f"/proc/{pid}/cmdline"):
                    return pid
            return None
        return jobs.wait_until(found, f"rank {rank} runs")

    def test_only_the_word_torchrun_is_changed(self):
        self.assertEqual(changed_words(script("b_torchrun", "before.sh"), script("b_torchrun", "after.sh")),
                         [(["torchrun"], ["cxxrun"])])

    def test_with_torchruns_flags_and_with_none_it_is_the_same_job(self):
        flags = self.run_example("b_torchrun", "after.sh")
        losses = self.assert_trained(flags, world=4, steps=20)
        self.assertTrue(all(re.match(r"[01]: ", line) for line in flags.splitlines() if "srun:" not in line), flags)
        os.unlink(self.path("snapshot.pt"))
        none = self.run_example("b_torchrun", "after_no_flags.sh")
        self.assertEqual(self.assert_trained(none, world=4, steps=20), losses)
        self.row("scripts", "srun -l cxxrun, with all flags of torchrun and with none", "the same job")

    def test_after_kill_9_of_a_rank_all_resume_from_the_snapshot(self):
        text = script("b_torchrun", "after.sh").replace("--save-every 2", "--save-every 2 --pause 0.2")
        job = self.submit("b_torchrun", text)
        jobs.wait_until(lambda: os.path.exists(self.path("snapshot.pt")), "the first snapshot", 180)
        os.kill(self.rank_pid(3), signal.SIGKILL)
        output = self.finish(job)
        resumed = set(re.findall(r"rank (\d) resumes after epoch (\d+)", output))
        self.assertEqual({rank for rank, _ in resumed}, set("0123"), output)
        self.assertEqual(len({epoch for _, epoch in resumed}), 1, output)
        last = [line for line in lines_of(output) if line.step == 20]
        self.assertEqual({(line.rank, line.text) for line in last},
                         {(rank, f" (local {rank % 2}, restart 1)") for rank in range(4)})
        self.assertEqual(len({line.loss for line in last}), 1, output)
        self.assertIn("rank 3 on node2: signal 9 (SIGKILL)", output)

    def test_the_endpoint_may_carry_a_port(self):
        text = script("b_torchrun", "after.sh").replace("$(hostname)", "$(hostname):29517")
        worker = self.worker('echo "rank $RANK of $WORLD_SIZE"')
        output = self.finish(self.submit("b_torchrun", re.sub(r"train\.py .*", worker, text)))
        self.assertEqual(set(re.findall(r"rank \d of 4", output)), {f"rank {rank} of 4" for rank in range(4)})


class SchedulerVariables(ExampleCase):
    def places(self, text):
        return {(line.rank, line.text) for line in lines_of(text)}

    @jobs.long
    def test_four_nodes_of_one_task(self):
        text = self.run_example("c_scheduler_variables", "after.sh")
        self.assert_trained(text, world=4, steps=3)
        self.assertEqual(self.places(text), {(rank, f" on node{rank + 1}, local 0") for rank in range(4)})

    def test_several_workers_of_a_node_each_find_their_own_task_in_slurms_variables(self):
        text = self.run_example("c_scheduler_variables", "after_two_per_node.sh")
        self.assert_trained(text, world=4, steps=3)
        self.assertEqual(self.places(text),
                         {(rank, f" on node{1 + rank // 2}, local {rank % 2}") for rank in range(4)})
        self.row("scripts", "srun cxxrun --slurm-env=all train.py, two workers per node",
                 "SLURM_PROCID, SLURM_LOCALID and SLURM_NTASKS are those of the worker")


class MasterAddress(ExampleCase):
    def test_exported_in_bash_cxxruns_own_address_wins(self):
        text = self.run_example("d_master_addr", "after.sh")
        self.assert_trained(text, world=4, steps=3)
        self.assertEqual(len({line.text for line in lines_of(text)}), 1)
        self.row("scripts", "export MASTER_ADDR=… MASTER_PORT=…; srun cxxrun train.py", "the workers get cxxrun's own address and port")

    def assert_meets_where_the_script_says(self, text):
        output = self.finish(self.submit("d_master_addr", text))
        self.assert_trained(output, world=4, steps=3)
        self.assertEqual({line.text for line in lines_of(output)}, {" at node1:23456"})

    @jobs.long
    def test_set_inside_python_rank_0_of_the_script_may_serve_the_store(self):
        self.assert_meets_where_the_script_says(script("d_master_addr", "after_sets_env.sh"))
        self.row("scripts", "MASTER_ADDR set inside Python; srun cxxrun --agent-store=off train.py", "the script's rank 0 serves the store")

    @jobs.long
    def test_set_inside_python_torchs_own_switch_is_as_good(self):
        text = script("d_master_addr", "after_sets_env.sh").replace(" --agent-store=off", "")
        self.assert_meets_where_the_script_says(
            text.replace("srun", "export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1\nsrun"))

    def test_set_inside_python_cxxrun_may_serve_the_store_at_that_port(self):
        self.assert_meets_where_the_script_says(script("d_master_addr", "after_sets_env_port.sh"))
        self.row("scripts", "MASTER_ADDR set inside Python; srun cxxrun --master-port=PORT train.py",
                 "cxxrun serves the store there")


if __name__ == "__main__":
    slurm_case.main(None if has_torch() else NO_TORCH)
