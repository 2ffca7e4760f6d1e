"""A squatter on the rendezvous port, which answers like a coordinator to agents that ask for no proof.
Usage: impostors_test.py CXXRUN"""
import os
import socket

import jobs
from attacker import HISTORY, RUN, VERSION, Caller
from stranger_jobs import FORGED, Strangers


class Impostor(Strangers):
    def generation(self, **changes):
        decree = {"after": 0, "number": 1, "size": 1, "coordinator": 0, "restarts": 0, "failures": 0, "alike": 0,
                  "look": 0, "history": HISTORY, "faults": [], "members": 1, "tie": "none"}
        return {"type": "generation", "sent": 1, "generation": {
            "number": 1, "restarts": 0, "max_restarts": 0, "group_rank": 0, "group_size": 1, "rank_base": 0,
            "local_size": 1, "world_size": 1, "role_base": 0, "role_size": 1, "master_addr": "127.0.0.1",
            "master_port": 1, "store_port": 1, "successors": [], "decree": decree, "coordinator": "", "survives": False,
            "hosts": "", "local_sizes": "", **changes}}

    def offered(self, **changes):
        """What an agent with one worker says of such a generation, and what it leaves in its log directory."""
        with socket.create_server(("127.0.0.1", self.port)) as door:
            agent = self.start_node("--rdzv-id", RUN, "--node-rank", "1", *self.AUTH, "--log-dir",
                                    self.path("l"),
                                    self.program)
            with Caller(None, door.accept()[0]) as caller:
                caller.hear()
                caller.send({"hello": "cxxrun", "version": VERSION, "coordinator": "c", "answer": "accepted",
                             "run_id": RUN, "refused": ""})
                caller.hear()
                caller.send(self.generation(**changes))
                answer = caller.hear()
        self.assertEqual(agent.wait(), 113)
        return answer, agent.stderr, [name for _, names, _ in os.walk(self.path("l")) for name in names]

    def answered(self, *messages, **reply):
        """What an agent says to whom such a coordinator says this."""
        with socket.create_server(("127.0.0.1", self.port)) as door:
            agent = self.start_node("--rdzv-id", RUN, "--node-rank", "1", *self.AUTH, "--max-restarts", "0", self.program)
            with Caller(None, door.accept()[0]) as caller:
                caller.hear()
                caller.send({"hello": "cxxrun", "version": VERSION, "coordinator": "c", "answer": "accepted", "run_id": RUN,
                             "refused": "", **reply})
                caller.hear()
                caller.send(*messages)
                while caller.hear():
                    pass
        agent.process.terminate()  # one that was dropped would join again
        self.assertNotEqual(agent.wait(), 0)
        return agent.stderr

    def test_whose_texts_are_escapes_and_newlines(self):
        texts = [self.answered(answer="other_version", refused=FORGED, coordinator=FORGED)]
        for last in ({"type": "finished", "exit_code": 1, "line": FORGED}, {"type": "refused", "exit_code": 1, "why": FORGED},
                     {"type": "dropped", "generation": 1, "why": FORGED}, {"type": FORGED},
                     self.generation(master_addr=FORGED, hosts=FORGED, local_sizes=FORGED, coordinator=FORGED, group_rank=9)):
            texts.append(self.answered({"type": "stop", "generation": 1, "kind": "failure", "why": FORGED}, last))
        for said in texts:
            self.assertEqual([line for line in said.splitlines() if line.startswith("FORGED")], [], said)
            self.assertNotRegex(said, "[\x1b\x9b]")
        self.assertIn("FORGED", "".join(texts))

    def test_that_gives_more_workers_than_any_node_has(self):
        answer, said, _ = self.offered(local_size=2**32 - 1, world_size=2**32 - 1, role_size=2**32 - 1)
        self.assertIsNone(answer)
        self.assertIn("message from the coordinator not understood: message lacks local_size", said)

    def test_that_gives_more_workers_than_the_node_has(self):
        answer, said, made = self.offered(local_size=4096, world_size=4096, role_size=4096)
        self.assertIsNone(answer)
        self.assertIn("it assigns 4096 workers to this node, which has 1", said)
        self.assertNotIn("attempt_1", made)


if __name__ == "__main__":
    jobs.main()
