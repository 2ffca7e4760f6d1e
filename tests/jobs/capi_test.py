"""A C program on the runtime, with the real launcher. Usage: capi_test.py CXXRUN CAPI_CHECK"""
import os
import sys

import jobs
from jobs import JobCase

CHECK = os.path.abspath(sys.argv.pop(2))


class FromC(JobCase):
    def run_mode(self, mode, ranks, restarts=0):
        job = self.run_job("--standalone", "--nproc-per-node", str(ranks), "--max-restarts", str(restarts), "--no-python",
                           CHECK, mode, code=0)
        return job

    def test_each_function_and_what_it_refuses(self):
        for ranks in (2, 4):
            self.run_mode("calls", ranks)

    def test_calls_of_several_threads_are_carried_out_one_after_the_other(self):
        self.run_mode("threads", 3)

    def test_ranks_that_disagree_are_told_of_each_other(self):
        self.run_mode("disagree", 3)

    def test_a_forked_child_knows_none_of_its_parents_handles(self):
        self.run_mode("child", 2)

    def test_a_peer_dies_and_the_others_go_on_in_their_processes(self):
        job = self.run_mode("dies", 4, restarts=1)
        said = [line.split()[-4:] for line in job.stdout.splitlines()]
        self.assertEqual(sorted(words[1:] for words in said), [[str(rank), "after", "2"] for rank in range(4)])

    def test_between_nodes(self):
        agents = []
        for host in "ab":
            agents.append(self.start_node("--nproc-per-node", "2", "--no-python", CHECK, "calls",
                                          env={"CXXRUN_HOST_ID": host}))
            agents[0].says("waiting for nodes")
        self.assert_codes([0, 0], *agents)


if __name__ == "__main__":
    jobs.main()
