"""What people have and what they type instead, compared, and restarts of scripts that bind a port of their own.
Usage: scripts_slow_test.py CXXRUN. Exit code 77: skipped, with the reason."""
import os
import re

import slurm_case
from example_case import HERE, NO_TORCH, ExampleCase, has_torch, script

APPTAINER = (os.path.join(HERE, "fake_apptainer"), "apptainer")
TORCHRUN = (os.path.join(HERE, "debian_torchrun"), "torchrun")


def setUpModule():
    slurm_case.use_cluster(nodes=4, gpus=4)


class Before(ExampleCase):
    def setUp(self):
        super().setUp()
        self.make_file("image.sif")

    def assert_same(self, example, before, after, steps=3, programs=()):
        """Both train the same ranks to the same losses."""
        losses = []
        for name in (before, after):
            output = self.run_example(example, name, programs=programs)
            losses.append(self.assert_trained(output, world=4, steps=steps))
            if os.path.exists(self.path("snapshot.pt")):
                os.unlink(self.path("snapshot.pt"))
        self.assertEqual(*losses)

    def test_one_task_per_gpu(self):
        self.assert_same("a_task_per_gpu", "before.sh", "after.sh")

    def test_torchrun(self):
        self.assert_same("b_torchrun", "before.sh", "after.sh", steps=20, programs=[TORCHRUN])

    def test_a_program_that_reads_the_schedulers_variables(self):
        self.assert_same("c_scheduler_variables", "before.sh", "after.sh")

    def test_master_address_exported_in_bash(self):
        self.assert_same("d_master_addr", "before.sh", "after.sh")

    def test_master_address_set_inside_python(self):
        self.assert_same("d_master_addr", "before_sets_env.sh", "after_sets_env.sh")

    def test_job_and_node_script_with_a_container(self):
        self.assert_same("e_container", "before.sh", "after.sh", programs=[APPTAINER])


class RestartAtAPortOfTheScripts(ExampleCase):
    """A rank fails in generation 1 after all have met; generation 2 meets at the same port."""
    FAIL_ONCE = 'if os.environ["RANK"] == "3" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":\n        os._exit(9)\n    '

    def assert_restarts(self, name):
        text = script("d_master_addr", name).replace("train_sets_env.py", "fails_once.py")
        program = script("d_master_addr", "train_sets_env.py").replace("dist.destroy", self.FAIL_ONCE + "dist.destroy")
        self.make_file("fails_once.py", program)
        output = self.finish(self.submit("d_master_addr", text))
        self.assertIn("rank 3 on node2: exit code 9", output)
        self.assertIn("restart 1 of 3", output)
        for rank in range(4):
            self.assertEqual(len(re.findall(rf"rank {rank} of 4 at node1:23456: step 3 ", output)), 2, output)

    def test_served_by_rank_0(self):
        self.assert_restarts("after_sets_env.sh")

    def test_served_by_cxxrun(self):
        self.assert_restarts("after_sets_env_port.sh")


if __name__ == "__main__":
    slurm_case.main(None if has_torch() else NO_TORCH)
