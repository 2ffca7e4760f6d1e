"""Another user on the same node and the files of a job, where a directory is open to its group or to everybody.
Usage: attacks_files_test.py CXXRUN TRAIN"""
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import attack_jobs
import jobs
from attack_jobs import ATTACKER, NO_LINE, VICTIM, Attack, as_user
from jobs import read
from train_jobs import FINAL

TRAIN = CTL = ""


def setUpModule():
    global TRAIN, CTL
    TRAIN, CTL = attack_jobs.share_programs(TRAIN, jobs.CXXRUN + "ctl")


class Files(Attack):
    AREA = "files"

    def train(self, directory, steps, uid=VICTIM):
        """The figures at the end, and what was said besides."""
        job = self.start("--standalone", "--nproc-per-node", "2", TRAIN, "--steps", str(steps), "--batch", "2",
                         "--save-every", "5", "--checkpoint-dir", directory, **as_user(uid))
        self.assert_codes([0], job)
        return FINAL.findall(job.stdout), job

    def test_checkpoint_planted(self):
        own = self.path("own")
        figures, _ = self.train(own, 12)
        planted, shared = tempfile.mkdtemp(prefix="cxxrun-planted-"), self.shared("shared")
        self.addCleanup(shutil.rmtree, planted)
        os.chown(planted, ATTACKER, ATTACKER)
        os.chmod(planted, 0o755)
        others, _ = self.train(planted, 30, ATTACKER)
        self.train(shared, 6)
        self.assertNotEqual(figures, others)
        for path in glob.glob(planted + "/step_*"):
                self.as_other("import shutil; shutil.copyfile(sys.argv[1], sys.argv[2])", path,
                              os.path.join(shared, os.path.basename(path)))
        found, job = self.train(shared, 12)
        self.assertEqual(found, figures)
        self.row("puts checkpoints of later steps into a directory that everybody may write to",
                 "they are passed over; the figures are those of an undisturbed run",
                 next(line for line in job.stdout.splitlines() if f"belongs to uid {ATTACKER}" in line))

    def test_link_in_a_checkpoint_directory(self):
        shared = self.shared("shared", 0o2770)  # the kernel follows no stranger's link where everybody may write
        precious = self.precious()
        self.as_other("os.symlink(sys.argv[1], sys.argv[2])", precious, shared + "/lock", extra_groups=[VICTIM])
        job = self.start("--standalone", "--max-restarts", "0", TRAIN, "--steps", "2", "--batch", "2", "--checkpoint-dir",
                         shared)
        self.assertEqual(job.wait(), 1, job.stderr)
        self.assertEqual(read(precious), "as it was")
        self.row("puts a link in the place of the lock of a checkpoint directory that its group may write to",
                 "the job ends by name, and the file that the link leads to is as it was",
                 self.line([job], "shared/lock is a symbolic link"), code=1,
                 who=f"uid {ATTACKER}, of the group")

    def test_directory_made_beforehand(self):
        planted = tempfile.mkdtemp(prefix="cxxrun-planted-")
        self.addCleanup(shutil.rmtree, planted)
        os.chown(planted, ATTACKER, ATTACKER)
        os.chmod(planted, 0o777)
        self.train(planted, 6, ATTACKER)
        job = self.start("--standalone", "--max-restarts", "0", TRAIN, "--steps", "6", "--batch", "2", "--checkpoint-dir",
                         planted)
        self.assertEqual(job.wait(), 1, job.stderr)
        line = self.line([job], "made it beforehand").replace(planted, "DIR/ckpt")
        self.row("makes the checkpoint directory of the job in /tmp, beforehand, and fills it", "the job ends by name", line,
                 code=1)

    # Locks whatever it can open of what writers lock in a checkpoint directory, for as long as it lives.
    LOCK = """
import fcntl
held = {}
print("ready", flush=True)
while True:
    for name in ["lock", "lock.tmp", *(f"step_{step:020d}.ckpt.tmp0" for step in range(41))]:
        try:
            if name not in held:
                file = open(sys.argv[1] + "/" + name)
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                held[name] = file
        except OSError: pass
"""

    def test_locks_of_a_checkpoint_directory(self):
        own, attacked = self.path("own"), self.shared("attacked", 0o755)
        figures, _ = self.train(own, 40)
        self.start_ready(self.LOCK, attacked)
        found, job = self.train(attacked, 40)
        self.assertEqual(found, figures)
        self.assertNotIn("generation 2", job.stderr)
        self.row("locks what it can open in a checkpoint directory that others may read", "that is nothing; no save waits",
                 NO_LINE)

    def precious(self):
        """A file of the victim's that nobody else can write to."""
        path = self.shared("home", 0o755) + "/precious"
        self.make_file(path, "as it was")
        os.chown(path, VICTIM, VICTIM)
        return path

    def test_directory_of_the_fence_taken(self):
        """Two nodes, and the one that coordinates is lost: the other has half of the votes, and the fence decides."""
        fence = self.shared("fence")
        self.as_other("for name in ('job', 'job-', 'job-0000000000000000'): os.mkdir(sys.argv[1] + '/' + name, 0o777)", fence)
        options = ("--nnodes", "1:2", "--rdzv-id", "job", "--fence", fence, "--heartbeat-timeout", "1", "--rdzv-conf",
                   "last_call_timeout=1")
        agents = [self.start_node(*options, self.program) for _ in range(2)]
        self.await_events(2, "start", 1)
        host = next(agent for agent in agents if "generation 1 runs" in agent.stderr)
        os.kill(host.agent_pid(), signal.SIGKILL)
        host.process.kill()
        left = next(agent for agent in agents if agent is not host)
        self.await_events(1, "start", 2)
        self.release(left)
        self.row("takes the directories in --fence that a run could use, where everybody may write",
                 "the run uses another one; the node that is left goes on when the first is lost", NO_LINE)

    def test_fence_that_cannot_hold(self):
        own = self.shared("own", 0o2775)
        strangers = tempfile.mkdtemp(prefix="cxxrun-fence-")
        self.addCleanup(shutil.rmtree, strangers)
        os.chown(strangers, ATTACKER, ATTACKER)
        os.chmod(strangers, 0o1777)
        for place, why in ((own, "others may rename what is in it"), (strangers, f"belongs to uid {ATTACKER}")):
            job = self.start("--nnodes", "1:2", "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--fence", place,
                             self.worker("note started"))
            self.assertEqual(job.wait(), 100, job.stderr)
            line = self.line([job], why).replace(strangers, "DIR/fence").replace(own, "DIR/fence")
            self.row(f"may rename the run's directory in that of --fence: {why}", "the job is refused at the start", line,
                     code=100, who=f"uid {ATTACKER}")
        self.assertEqual(self.events("started"), [])

    def test_link_in_a_log_directory(self):
        logs, precious = self.shared("logs", 0o2770), self.precious()
        program = self.worker('note start; gate "go$CXXRUN_GENERATION"; echo forged; [ $CXXRUN_GENERATION = 2 ]')
        self.make_gate("go1")
        self.make_gate("go2")
        job = self.start("--standalone", "--log-dir", logs, "--redirects", "3", program, umask=0o002)
        self.await_events(1, "start", 1)
        [attempt] = glob.glob(logs + "/*/attempt_1")
        self.as_other("os.umask(0)\nplace = sys.argv[1]\nos.makedirs(place + '/0')\n"
                      "os.symlink(sys.argv[2], place + '/0/stdout.log')\nos.symlink(sys.argv[2], place + '/0/stderr.log')",
                      attempt[:-1] + "2", precious, extra_groups=[VICTIM])
        self.open_gate("go1")
        self.await_events(1, "start", 2)
        self.open_gate("go2")
        self.assert_codes([0], job)
        self.assertEqual(read(precious), "as it was")
        self.row("puts links into a log directory that its group may write to", "no output goes through them",
                 self.line([job], "attempt_2"), who=f"uid {ATTACKER}, of the group")

    def test_words_of_a_worker_forged(self):
        """In its directory, where the group may write: what it has raised, and what cxxrunctl shows of its output."""
        logs = self.shared("logs", 0o2770)
        job = self.start_node("--max-restarts", "0", "--rdzv-id", self.marker, "--log-dir", logs, "--redirects", "3",
                              self.worker("echo own words; note start; gate go; exit 3"), nnodes="1", umask=0o002)
        self.await_events(1, "start", 1)
        [place] = glob.glob(logs + "/*/attempt_1/0")
        jobs.wait_until(lambda: "own words" in self.shown_output(), "the output is in the file")
        self.as_other("place = sys.argv[1]\nos.unlink(place + '/stdout.log')\n"
                      "with open(place + '/stdout.log', 'w') as file: file.write('forged words')\n"
                      "words = {'message': 'forged words', 'extraInfo': {'timestamp': '1'}}\n"
                      "with open(place + '/error.json', 'w') as file: json.dump({'message': words}, file)",
                      place, extra_groups=[VICTIM])
        self.assertNotIn("words", self.shown_output())
        self.open_gate("go")
        self.assert_codes([3], job)
        self.assertIn("exit code 3", job.stderr)
        self.assertNotIn("forged", job.stderr)
        self.row("puts files in the place of a worker's error.json and stdout.log, where its group may write",
                 "they are not shown", NO_LINE, code=3, who=f"uid {ATTACKER}, of the group")

    def shown_output(self):
        done = subprocess.run([CTL, "logs", "0", self.marker], env=self.environment(), capture_output=True, text=True,
                              timeout=jobs.GUARD, **as_user(VICTIM))
        return done.stdout + done.stderr

    # Puts a link to sys.argv[2] at NAME in each directory that appears in sys.argv[1], at once, again and again; what is
    # in the way goes. Ends with the test.
    LINK = """
logs, precious, name = sys.argv[1:4]
print("ready", flush=True)
while True:
    for run in os.listdir(logs):
        link = os.path.join(logs, run, name)
        try:
            if not os.path.islink(link):
                if os.path.lexists(link): os.unlink(link)
                os.symlink(precious, link)
        except OSError: pass
"""
    # Moves each directory of the victim's that appears in sys.argv[1] away, and has one of its own there, with such a link.
    EXCHANGE = """
logs, precious, name = sys.argv[1:4]
os.umask(0)
print("ready", flush=True)
while True:
    for run in os.listdir(logs):
        path = os.path.join(logs, run)
        try:
            if run.startswith("away-") or os.stat(path).st_uid == os.getuid(): continue
            os.rename(path, os.path.join(logs, "away-" + run))
            os.mkdir(path)
            os.symlink(precious, os.path.join(path, name))
        except OSError: pass
"""

    def attacked_logs(self, body, mode, name):
        """A job whose workers run until the attacker has had his way in its log directory."""
        logs, precious = self.shared("logs", mode), self.precious()
        self.start_ready(body, logs, precious, name, extra_groups=[VICTIM])
        job = self.start("--standalone", "--log-dir", logs, self.worker("note start; gate go"), umask=0o002)
        self.await_events(1, "start", 1)
        jobs.wait_until(lambda: any(map(os.path.islink, glob.glob(f"{logs}/*/{name}"))), "the link is there")
        self.release(job)
        self.assertEqual(read(precious), "as it was")
        return logs, job

    def test_link_in_the_place_of_the_record(self):
        logs, _ = self.attacked_logs(self.LINK, 0o2770, "verdict.json")
        self.row("puts links in the place of verdict.json into a log directory that its group may write to",
                 "they are replaced; the file that they lead to is as it was", NO_LINE, who=f"uid {ATTACKER}, of the group")

    def test_directory_of_the_record_exchanged(self):
        logs, _ = self.attacked_logs(self.EXCHANGE, 0o777, "verdict.json")
        self.row("has another directory in the place of that of a run, with a link in the place of verdict.json",
                 "nothing goes through it; the file that it leads to is as it was", NO_LINE)

    def test_link_in_the_place_of_the_history_of_requeues(self):
        logs, precious = self.shared("logs", 0o2770), self.precious()
        bin_dir = self.shared("bin", 0o755)
        self.make_file(bin_dir + "/scontrol",
                       "#!/bin/sh\n[ $1 != show ] || echo JobId=7 JobState=COMPLETING Reason=TimeLimit Requeue=1 Restarts=0 "
                       "BatchFlag=1 Command=x\n", 0o755)
        self.as_other("for name in ('', '.new'): os.symlink(sys.argv[1], sys.argv[2] + name)", precious,
                      logs + "/requeue-lab-7", extra_groups=[VICTIM])
        job = self.start("--standalone", "--requeue", "--log-dir", logs, self.worker("note up; gate never"),
                         env={"PATH": bin_dir + ":/usr/bin:/bin", "HOME": self.dir, "SLURM_JOB_ID": "7",
                              "SLURM_CLUSTER_NAME": "lab"})
        self.await_events(1, "up")
        os.kill(job.pid, signal.SIGTERM)
        self.assertEqual(job.wait(), 143, job.stderr)
        self.assertEqual(read(precious), "as it was")
        self.assertEqual(read(logs + "/requeue-lab-7"), "run 0 stopped progress\n")
        self.row("puts links in the place of the history of requeues", "they are replaced", NO_LINE, code=143,
                 who=f"uid {ATTACKER}, of the group")


if __name__ == "__main__":
    TRAIN = os.path.abspath(sys.argv.pop(2))
    jobs.main()
