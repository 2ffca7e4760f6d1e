"""What the other attacks_*_test.py try one after another, another user tries at once and without a pause, while a job of two
agents trains and saves. Its figures are those of an undisturbed job. Labelled slow.
Usage: attacks_at_once_test.py CXXRUN TRAIN"""
import glob
import json
import resource
import sys
import textwrap

import attack_jobs
import attacks_files_test
import attacks_flood_test
import attacks_local_test
import attacks_test
import jobs
from attack_jobs import KEYLESS, UNPROVEN, VICTIM, Attack, SocketAttack, as_user
from jobs import processes_with, read
from train_jobs import FINAL

TRAIN = ""
STEPS = 300
CALLS = 2000  # of each flooder

# Each port is called with everything of attacks_test.py, and with bytes that are no message.
SAY = """
if first: everything = json.loads(sys.argv[1])
for words in everything:
    sys.argv[1] = json.dumps(words)
    try:
""" + textwrap.indent(attacks_test.SAY, 8 * " ") + """
    except OSError: pass
for port in map(int, sys.argv[2:]):
    try:
        with Caller(port) as call: call.send(struct.pack(">I", 5000) + os.urandom(4000))
    except OSError: pass
"""

# Links where files of the job's may come to lie, which lead to a file of the victim's.
PLANT = """
for folder in sys.argv[2:]:
    for name in ("lock", "lock.tmp", "verdict.json", "events.jsonl", "attempt_1", f"step_{40:020d}.ckpt"):
        try: os.symlink(sys.argv[1], folder + "/" + name)
        except OSError: pass
"""


def setUpModule():
    global TRAIN
    [TRAIN] = attack_jobs.share_programs(TRAIN)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))


class AtOnce(Attack):
    AREA = "all at once"

    def repeat(self, body, *arguments):
        """Runs `body` in a loop; returns once it has run for the first time."""
        loop = "say, print, first = print, lambda *_, **__: None, True\nwhile True:\n" + textwrap.indent(body, "    ") + """
    if first: say("done", flush=True)
    first = False
"""
        return self.start_ready(loop, *arguments)

    def figures(self, *agents):
        self.assert_codes([0] * len(agents), *agents)
        return FINAL.findall("".join(agent.stdout for agent in agents))

    def words(self, directory):
        return [TRAIN, "--steps", str(STEPS), "--batch", "2", "--save-every", "5", "--checkpoint-dir", directory]

    def test_a_job_trains_to_the_same_bits_while_everything_is_tried(self):
        undisturbed = self.figures(self.start("--standalone", "--nproc-per-node", "2", *self.words(self.path("own"))))
        attacked = self.shared("attacked", 0o755)
        logs = self.shared("logs")
        worker = self.worker('note at $CXXRUN_AGENT $CXXRUN_SEGMENT; gate go; exec "$@"', "trains")
        agents = self.start_two("--log-dir", logs, worker, *self.words(attacked))
        names = [name for event in self.await_events(2, "at", 1) for name in event[3:]]
        ports = self.ports(agents)
        precious = self.path("precious")
        self.as_other("open(sys.argv[1], 'w').write('as it was')", precious, **as_user(VICTIM))
        self.start_ready(attacks_flood_test.Floods.CROWD, self.port, CALLS)
        self.start_ready(attacks_flood_test.Election.CALL, "127.0.0.1", self.port, CALLS)
        self.start_ready(attacks_files_test.Files.LOCK, attacked)
        self.repeat(SAY, json.dumps([words for _, words in attacks_test.WORDS]), *ports)
        self.repeat(SocketAttack.CALL, 0, *names)
        self.repeat(attacks_local_test.Processes.LOOK, *processes_with(self.marker))
        self.repeat(PLANT, precious, attacked, logs, *glob.glob(logs + "/*"))
        self.open_gate("go")
        self.assertEqual(self.figures(*agents), undisturbed)
        self.assertNotIn("generation 2", self.said(agents))
        self.assertEqual(read(precious), "as it was")
        self.line(agents, UNPROVEN)
        self.line(agents, KEYLESS)
        self.row(f"floods the coordinator's port on {2 * CALLS} connections, says everything above at every port, calls the "
                 "sockets of workers, reads and kills processes, locks and links files: all at once, without a pause",
                 "the job trains to the figures of an undisturbed one, in one generation", self.line(agents, "one of many"))


if __name__ == "__main__":
    TRAIN = sys.argv.pop(2)
    jobs.main()
