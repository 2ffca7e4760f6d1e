"""--warm: workers that are forked from a Python that has imported are what executed ones are. Usage: job_warm_test.py CXXRUN"""
import json
import os
import re
import signal
import sys

import jobs
from jobs import JobCase, children, read, wait_until

# Of these no Python has imported anything before the script runs.
CHEAP = "fractions,xml.dom.minidom"
EXECUTED = "workers are executed, as without --warm"

# All that a script can see of itself, before it has imported more than it needs to tell.
PORTRAIT = """
import sys
warm = "xml.dom.minidom" in sys.modules
main = sys.modules["__main__"]
names = {name: str(value).split(" at 0x")[0] for name, value in vars(main).items() if name not in ("warm", "main")}
import atexit, ctypes, json, os, resource, signal, threading
def status(name):
    with open("/proc/self/status") as file:
        return [line.split(":", 1)[1].strip() for line in file if line.startswith(name + ":")][0]
death = ctypes.c_int()
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
libc.prctl(2, ctypes.byref(death))
moving = ("MASTER_PORT", "CXXRUN_", "TORCHELASTIC_RUN_ID", "ERROR_FILE", "_MARKER", "DIR", "HOME", "WARM")
portrait = dict(
    argv=sys.argv, orig_argv=getattr(sys, "orig_argv", None), path=sys.path, names=names, file=__file__, executable=sys.executable,
    cmdline=open("/proc/self/cmdline").read().rstrip("\\0"), cwd=os.getcwd(), flags=str(sys.flags), encoding=sys.stdout.encoding,
    environ={n: v for n, v in os.environ.items() if not any(part in n for part in moving)}, more=sorted(os.environ),
    of_libc=str(libc.getenv(b"RANK")), leads=os.getsid(0) == os.getpid() == os.getpgrp(),
    of_agent=os.getppid() == int(open("/proc/%d/stat" % os.getpid()).read().rpartition(")")[2].split()[1]), death=death.value,
    signals=[status(name) for name in ("SigBlk", "SigIgn", "SigCgt", "ShdPnd", "SigPnd")],
    fds={fd: os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in range(3)}, open=sorted(os.listdir("/proc/self/fd")),
    cloexec=[os.get_inheritable(fd) for fd in range(3)],
    streams=[(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(), s.fileno())
             for s in (sys.stdin, sys.stdout, sys.stderr)], originals=sys.stdin is sys.__stdin__, end=sys.stdin.read(),
    limits=[resource.getrlimit(n) for n in range(16)], umask=os.umask(0o22), nice=os.nice(0), cpus=sorted(os.sched_getaffinity(0)),
    threads=[str(t) for t in (threading.current_thread().name, threading.active_count())],
    tasks=len(os.listdir("/proc/self/task")), oom=open("/proc/self/oom_score_adj").read(), root=os.readlink("/proc/self/root"))
atexit.register(lambda: print("at the end", flush=True))
"""

# A module that knows what a worker has opened and imported since its fork; not by number, as descriptors that it is given.
WATCH = """opened = []
sys.addaudithook(lambda what, a: opened.append(a[0]) if what in ("open", "import", "ctypes.dlopen") and isinstance(a[0], str) else None)
os.register_at_fork(after_in_child=opened.clear)
"""

TELL = """
import multiprocessing
def child(queue):
    queue.put([__name__, os.environ["RANK"], os.getppid()])
if __name__ == "__main__":
    portrait["started"] = {}
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        name, rank, parent = queue.get()
        process.join()
        portrait["started"][method] = name, rank, method == "forkserver" or parent == os.getpid(), process.exitcode
    multiprocessing.forkserver._forkserver._stop()  # or it might say its last word too late
    with open(os.environ["DIR"] + "/" + os.environ["TELL"] + os.environ["RANK"], "w") as file:
        json.dump([warm, portrait], file)
"""

ENDINGS = {
    "code": "sys.exit(3)",
    "text": "sys.exit('with a word')",
    "none": "sys.exit()",
    "at_once": "print('unheard', end=''); os._exit(4)",
    "exception": "def f():\n    raise ValueError('of f')\nf()",
    "syntax": "x = = 1",
    "interrupt": "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "fault": "import ctypes\nctypes.string_at(0)",
    "abort": "os.abort()",
    "terminated": "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(9)",
    "thread": "import threading\nthreading.Thread(target=lambda: (time.sleep(0), print('last words'))).start()",
    "recursion": "def f():\n    f()\nf()",
}
# Those that -m has a way of its own for; what a script has made of the hook is called with what it raised.
MODULE_ENDINGS = {name: ENDINGS[name] for name in ("code", "text", "exception", "syntax", "interrupt", "terminated", "thread")}
MODULE_ENDINGS["hook"] = "sys.excepthook = lambda kind, error, trace: print(error, trace.tb_frame.f_code.co_filename)\n1 / 0"


class Warm(JobCase):
    def script(self, body, name="worker.py"):
        return self.python_worker(body, name)[1]

    def module(self, body, name="trouble"):
        self.make_file(name + ".py", "import os, sys\nDIR = os.environ['DIR']\n" + body + "\n")
        return name

    def begin(self, script, *options, warm=CHEAP, env=None, arguments=(), **more):
        """Workers of Debian's Python, warm or not."""
        options = ["--standalone", "--max-restarts", "0", *([f"--warm={warm}"] if warm else []), *options]
        env = {"PYTHON_EXEC": "/usr/bin/python3", "PYTHONPATH": self.dir, **(env or {})}
        return self.start(*options, script, *arguments, env=env, **more)

    def run_warm(self, *arguments, code=None, **more):
        return self.ended(self.begin(*arguments, **more), code)

    def zygotes(self, job):
        return [pid for pid in children(job.agent_pid()) if "cxxrun: warm" in read(f"/proc/{pid}/cmdline")]

    def zygote(self, job):
        return wait_until(lambda: self.zygotes(job), "there is a warm Python")[0]

    def assert_executed(self, job, why):
        self.assertRegex(job.stderr, re.escape("warning: --warm: ") + why + ".*" + EXECUTED)
        self.assertEqual(len(re.findall("--warm", job.stderr)), 2, job.stderr)  # one line


class Sight(Warm):
    def test_a_script_sees_of_itself_what_an_executed_one_does(self):
        self.assert_same_sight(self.script(PORTRAIT + TELL))

    def test_a_module_sees_of_itself_what_an_executed_one_does(self):
        os.mkdir(self.path("package"))
        self.script("imported = True", "package/__init__.py")
        self.script(PORTRAIT + TELL, "package/worker.py")
        self.assert_same_sight("package.worker", "-m")

    def assert_same_sight(self, script, *options):
        told = {}
        for name, warm in (("warm", CHEAP), ("executed", None)):
            job = self.run_warm(script, "--nproc-per-node", "2", "--cpu-bind", "share", *options, warm=warm, env={"TELL": name},
                                arguments=["--lr", "a b", "${local_rank}", ""], code=0)
            for rank in (0, 1):
                was, told[name, rank] = json.loads(read(self.path(f"{name}{rank}")))
                self.assertEqual(was, bool(warm))
                told[name, rank]["environ"]["TELL"] = str(job.stdout.count("at the end"))
        for what in told["executed", 0]:
            for rank in (0, 1):
                with self.subTest(what, rank=rank):
                    self.assertEqual(told["warm", rank][what], told["executed", rank][what])

    def test_modules_that_the_script_imports_itself_come_from_beside_it(self):
        os.mkdir(self.path("sub"))
        self.script("who = 'beside'", "sub/neighbour.py")
        job = self.run_warm(self.script("import neighbour\nprint(neighbour.who)", "sub/worker.py"))
        self.assertIn("beside", job.stdout, job.stderr)

    def test_a_module_that_goes_elsewhere_goes_alone(self):
        job = self.run_warm(self.script("note('in', os.getcwd())"), warm=self.module("os.chdir('/')"))
        self.assertEqual(self.events("in")[0][3], os.getcwd(), job.stderr)

    def test_two_draw_different_random_numbers(self):
        body = "import multiprocessing, random, tempfile, uuid, secrets\nnote('drew', random.random(), tempfile.mktemp(), " \
               "uuid.uuid4(), secrets.token_hex(4), bytes(multiprocessing.current_process().authkey).hex())"
        self.run_warm(self.script(body), "--nproc-per-node", "2", warm="random,tempfile,uuid,secrets,multiprocessing",
                      code=0)
        one, two = self.events("drew")
        self.assertFalse(set(one[3:]) & set(two[3:]))

    def test_twenty_thousand_callbacks_of_ctypes_work(self):
        body = "import ctypes\nkind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)\n" \
               "made = [kind(lambda x, n=n: x + n) for n in range(20000)]\nnote('sum', sum(f(1) for f in made))"
        self.run_warm(self.script(body), warm="ctypes", code=0)
        self.assertEqual(self.events("sum")[0][3], "200010000")

    def test_each_reads_and_writes_what_it_is_given(self):
        self.make_file("words", "said\n")
        body = "note('read', sys.stdin.seekable(), sys.stdin.readline().strip() or '-')\nprint('out', RANK)\nprint('err', RANK, file=sys.stderr)"
        with open(self.path("words")) as words:
            job = self.run_warm(self.script(body), "--nproc-per-node", "2", "--stdin", "rank0", stdin=words)
        self.assertEqual(sorted(event[1:] for event in self.events("read")), [(0, "read", "True", "said"), (1, "read", "True", "-")])
        for rank in "01":
            self.assertRegex(job.stdout, rf"\[\S+:{rank}\] out {rank}")
            self.assertRegex(job.stderr, rf"\[\S+:{rank}\] err {rank}")

    def test_what_a_module_prints_is_on_the_console_once(self):
        name = self.module("import ctypes\nprint('of Python')\nprint('of stderr', end=' ', file=sys.stderr)\n"
                           "ctypes.CDLL(None).printf(b'of C\\n')")
        script = self.script("import ctypes, gc\nctypes.CDLL(None).fflush(None)\nassert gc.get_freeze_count()")
        job = self.run_warm("/usr/bin/python3", "--nproc-per-node", "2", "--no-python", warm=name, arguments=[script],
                            env={"PYTHONUNBUFFERED": ""}, code=0)  # no -u, either
        for words in ("of Python", "of stderr", "of C"):
            self.assertEqual((job.stdout + job.stderr).count(words), 1, job.stdout + job.stderr)

    def test_no_file_is_opened_between_the_fork_and_the_first_line(self):
        name = self.module(WATCH)
        script = self.script("")
        self.make_file(script,
                       f"import {name}\nopened = {name}.opened[:]\nimport os\nopen(os.environ['DIR'] + '/opened', 'w').write(repr(opened))")
        self.run_warm(script, warm=name, code=0)
        self.assertEqual([path for path in eval(read(self.path("opened"))) if not path.startswith("/proc/self/")], [])

    def test_the_package_cxxrun_is_installed_in_each_worker_where_it_can_be_imported(self):
        self.module("def install():\n    with open(DIR + '/events', 'a') as f:\n        f.write('1 %s installed %d\\n' % "
                    "(os.environ['RANK'], os.getpid()))\n    raise ValueError('afterwards')", "cxxrun")
        job = self.run_warm(self.script("note('start', os.getpid())"), "--nproc-per-node", "2", "--watch", "off",
                            code=0)
        self.assertEqual([event[1::2] for event in sorted(self.events("installed"))],
                         [event[1::2] for event in sorted(self.events("start"))])
        self.assertIn("cxxrun.install() has failed: ValueError('afterwards')", job.stderr)

    def test_an_end_is_the_end_of_an_executed_one(self):
        running = {}
        for name, body in ENDINGS.items():
            script = self.script(body, name + ".py")
            running[name] = [self.begin(script, warm=warm) for warm in (CHEAP, None)]
        running["relative"] = [self.begin(os.path.relpath(self.path("exception.py")), warm=warm) for warm in (CHEAP, None)]
        running["gone"] = [self.begin(self.path("gone.py"), warm=warm) for warm in (CHEAP, None)]
        self.assert_same_ends(running)

    def test_an_end_of_a_module_is_the_end_of_an_executed_one(self):
        running = {}
        for name, body in MODULE_ENDINGS.items():
            self.script(body, f"ends_{name}.py")
        for name in (*MODULE_ENDINGS, "gone", "package.gone"):
            running[name] = [self.begin("ends_" + name, "-m", warm=warm) for warm in (CHEAP, None)]
        self.assert_same_ends(running)

    def assert_same_ends(self, running):
        for name, pair in running.items():
            with self.subTest(name):
                codes = [job.wait() for job in pair]
                self.assertEqual(codes[0], codes[1], pair[0].stderr)
                self.assertEqual(*(self.without_bottom(job) for job in pair))

    def without_bottom(self, job):
        """What the worker has written. faulthandler and the limit of recursion see what called the script."""
        lines = [re.sub("0x[0-9a-f]+|[0-9]+ more", "N", line) for line in (job.stdout + job.stderr).splitlines() if ":0] " in line]
        below = re.compile(r'"cxxrun --warm"|"<string>", line 1 in|  Binary file |<truncated rest of calls>')
        return [line for line in lines if not below.search(line)]


class Generations(Warm):
    def test_every_generation_has_warm_workers_of_one_import(self):
        name = self.module("with open(DIR + '/imports', 'a') as f:\n    f.write('x')")
        body = f"note('start', '{name}' in sys.modules, os.getppid())\n" \
               "if GENERATION != '3':\n    gate(GENERATION)\n    sys.exit(1)"
        self.make_gate("1")
        self.make_gate("2")
        job = self.begin(self.script(body), "--nproc-per-node", "3", "--max-restarts", "2", "--restart-delay", "0", warm=name)
        agent = job.agent_pid()
        for generation in (1, 2):
            self.await_events(3, "start", generation)
            self.open_gate(str(generation))
        self.assertEqual(job.wait(), 0, job.stderr)
        self.assertEqual(sorted(event[:2] for event in self.events("start")), [(g, r) for g in (1, 2, 3) for r in (0, 1, 2)])
        self.assertEqual({event[3:] for event in self.events("start")}, {("True", str(agent))})
        self.assertEqual(read(self.path("imports")), "x")

    def test_one_whose_import_has_not_ended_is_waited_for(self):
        self.make_gate("import")
        name = self.module("open(DIR + '/import').close()")
        job = self.begin(self.script("note('start')"), warm=name)
        self.zygote(job)
        self.assertEqual(self.events("start"), [])
        self.open_gate("import")
        self.assert_codes([0], job)

    def test_a_stop_while_it_imports_ends_the_job_at_once(self):
        self.make_gate("import")
        name = self.module("open(DIR + '/import').close()")
        job = self.begin(self.script("note('start')"), "--log-level", "debug", warm=name)
        self.zygote(job)
        job.process.send_signal(signal.SIGTERM)
        self.assert_codes([143], job)
        self.assertEqual(self.events("start"), [])

    def test_one_that_dies_is_said_and_workers_are_executed(self):
        body = "note('start', 'fractions' in sys.modules)\nif GENERATION == '1':\n    gate('die')\n    sys.exit(1)"
        job = self.begin(self.script(body), "--nproc-per-node", "2", "--max-restarts", "1", "--restart-delay", "0")
        self.await_events(2, "start", 1)
        os.kill(self.zygote(job), signal.SIGKILL)
        job.says("the Python that workers are forked from has ended (")
        self.open_gate("die")
        self.assert_codes([0], job)
        self.assert_executed(job, "the Python that workers are forked from has ended")
        self.assertEqual([event[::3] for event in sorted(self.events("start"))],
                         [(1, "True"), (1, "True"), (2, "False"), (2, "False")])

    def in_forked(self, body, forks=2):
        """A module that has a process do something first that is forked: the one in the middle, or that of the worker."""
        return self.module(f"forks = []\ndef after():\n    forks.append(1)\n    if len(forks) == {forks}:\n        {body}"
                           "\nos.register_at_fork(after_in_child=after)")

    def test_one_that_dies_before_it_is_adopted_is_executed(self):
        for forks in (1, 2):
            with self.subTest(forks=forks):
                name = self.in_forked("os.kill(os.getpid(), 9)", forks)
                job = self.run_warm(self.script(f"note('start', '{name}' in sys.modules)"), "--nproc-per-node", "2", warm=name,
                                    code=0)
                self.assertEqual([event[3] for event in self.events("start")], ["False", "False"])
                self.assertIn("local rank 1 could not be forked, or was killed at once: it is executed", job.stderr)
                os.remove(self.path("events"))

    def test_one_that_is_not_adopted_yet_is_waited_for(self):
        """The one in the middle stays until the worker has looked for its parent several times, or is dead."""
        name = self.module("forks = []\nos.register_at_fork(after_in_child=lambda: forks.append(1), after_in_parent=lambda: stay())\n"
                           "def stay():\n    while forks:\n"
                           "        pid = open('/proc/self/task/%d/children' % os.getpid()).read().split()[0]\n"
                           "        text = open('/proc/%s/status' % pid).read()\n"
                           "        if int(text.split('\\nvoluntary_ctxt_switches:')[1].split()[0]) > 9 or 'State:\\tZ' in text:\n"
                           "            break")
        job = self.run_warm(self.script(f"note('start', '{name}' in sys.modules)"), warm=name, code=0)
        self.assertEqual(self.events("start")[0][3], "True", job.stderr)

    def test_a_stop_between_the_fork_and_the_adoption_leaves_nobody(self):
        self.make_gate("stuck")
        name = self.in_forked("open(DIR + '/forked', 'w').close(); open(DIR + '/stuck').close()")
        job = self.begin(self.script("note('start')"), warm=name)
        wait_until(lambda: os.path.exists(self.path("forked")), "it is forked")
        job.process.send_signal(signal.SIGTERM)
        self.assert_codes([143], job)
        self.assertEqual(self.events("start"), [])

    def test_a_sweep_of_what_is_forked_and_not_adopted_leaves_the_warm_python_alone(self):
        self.make_gate("stuck")
        name = self.in_forked("try:\n            open(DIR + '/forked', 'x').close()\n            open(DIR + '/stuck').close()\n"
                              "        except FileExistsError:\n            pass")
        body = f"note('start', '{name}' in sys.modules)\nif GENERATION == '1':\n    gate('fail')\n    sys.exit(1)"
        job = self.begin(self.script(body), "--nproc-per-node", "2", "--max-restarts", "1", "--restart-delay", "0", warm=name)
        wait_until(lambda: os.path.exists(self.path("forked")), "one is forked")
        self.await_events(1, "start", 1)
        self.open_gate("fail")
        self.assert_codes([0], job)
        self.assertEqual([event[3] for event in self.events("start", 2)], ["True", "True"])
        self.assertNotIn("has ended", job.stderr)

    def test_a_node_that_still_imports_is_not_to_blame_for_a_failure_elsewhere(self):
        self.make_gate("import")
        name = self.module("if os.environ['NODE'] == 'B':\n    open(DIR + '/import').close()")
        script = self.script("note('start', os.environ['NODE'])\nif GENERATION == '1':\n    sys.exit(1)")
        options = ["--max-restarts", "1", "--restart-delay", "0", "--warm=" + name]
        more = {"PYTHONPATH": self.dir, "PYTHON_EXEC": "/usr/bin/python3"}
        first = self.start_node(*options, script, nnodes="1:2", env={**more, "NODE": "A"})
        first.says("waiting for more")
        second = self.start_node(*options, script, nnodes="1:2", env={**more, "NODE": "B"})
        first.says("exit code 1")
        self.open_gate("import")
        self.assert_codes([0, 0], first, second)
        self.assertEqual(sorted(event[::3] for event in self.events("start")), [(1, "A"), (2, "A"), (2, "B")])

    def test_a_health_check_leaves_the_warm_python_alone(self):
        body = "note('start', 'fractions' in sys.modules)\nif GENERATION == '1':\n    sys.exit(1)"
        job = self.run_warm(self.script(body), "--nproc-per-node", "2", "--max-restarts", "1", "--restart-delay", "0", "--health-check",
                            'echo "$CXXRUN_GENERATION 0 check" >> "$DIR/events"', code=0)
        self.assertEqual(len(self.events("check")), 2)
        self.assertEqual([event[3] for event in self.events("start", 2)], ["True", "True"], job.stderr)

    def test_nodes_that_were_frozen_fork_the_next_generation(self):
        """Two followers whose coordinator falls silent; their workers are killed as they are."""
        script = self.script("note('start', 'fractions' in sys.modules, os.environ['WORLD_SIZE'])\ngate('go')")
        nodes = []
        for index in range(3):
            nodes.append(self.start_node("--node-rank", str(index), "--heartbeat-timeout", "2", "--warm=" + CHEAP, script, nnodes="1:3",
                                         env={"PYTHON_EXEC": "/usr/bin/python3"}))
            if index == 0:
                nodes[0].says("waiting for more")

        def started(world):
            events = [event for event in self.events("start") if event[4] == world]
            return events if len(events) == int(world) else None
        wait_until(lambda: started("3"), "three workers")
        silent = nodes[0].agent_pid()
        os.kill(silent, signal.SIGSTOP)
        self.addCleanup(lambda: os.path.exists(f"/proc/{silent}") and os.kill(silent, signal.SIGCONT))
        self.assertEqual({event[3] for event in wait_until(lambda: started("2"), "two workers")}, {"True"})
        self.release(*nodes[1:])
        self.assertNotIn("--warm: ", nodes[1].stderr + nodes[2].stderr)
        os.kill(silent, signal.SIGCONT)
        nodes[0].wait()

    def test_what_trainers_import_later_of_torch_is_imported_with_it_and_torch_alone_where_that_fails(self):
        os.mkdir(self.path("torch"))
        self.module("", "torch/__init__")
        for later, has in (("", "True"), ("raise ValueError", "False"), ("import sys\nsys.exit('no word')", "False")):
            with self.subTest(later):
                self.module(later, "torch/_dynamo")
                job = self.run_warm(self.script("note('start', 'torch' in sys.modules, 'torch._dynamo' in sys.modules)"), warm="torch",
                                    code=0)
                self.assertEqual([event[3:5] for event in self.events("start")], [("True", has)])
                self.assertNotIn("--warm", job.stderr)
                os.remove(self.path("events"))

    def installed(self, **modules):
        """The environment of a script that finds them, and the package cxxrun."""
        os.mkdir(self.path("site-packages"))
        for name, body in modules.items():
            self.module(body, "site-packages/" + name)
        package = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "runtime", "python")
        return {"PYTHONPATH": ":".join((self.dir, self.path("site-packages"), package))}

    def test_with_auto_workers_are_forked_from_a_python_that_has_imported_what_the_first_ones_did(self):
        env = self.installed(slow="import time\ntime.sleep(0.1)",
                             threaded="import threading, time\ntime.sleep(0.1)\n"
                                      "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()")
        job = self.run_warm(self.script("note('start', 'slow' in sys.modules, 'threaded' in sys.modules)\nimport slow, threaded\n"
                                        "sys.exit(GENERATION != '3')"),
                            "--max-restarts", "2", "--restart-delay", "0", warm="auto", env=env, code=0)
        self.assertIn("importing threaded has started threads (1), which a fork does not copy", job.stderr)
        self.assertIn("--warm=auto: the next warm Python leaves out threaded", job.stderr)
        self.assertEqual([event[3:5] for event in self.events("start")],
                         [("False", "False"), ("False", "False"), ("True", "False")])

    def test_what_the_workers_import_and_warm_does_not_is_said_when_it_takes_long(self):
        env = self.installed(slow="import time\ntime.sleep(1.1)")
        job = self.run_warm(self.script("import slow"), env=env)
        self.assertRegex(job.stderr, r"the workers imported 1\.\d s of modules that --warm did not: slow 1\.\d s; name them")

    def test_nothing_is_left_when_the_agent_is_killed(self):
        job = self.begin(self.script("note('start')\ngate('never')"), "--nproc-per-node", "2")
        self.await_events(2, "start")
        os.kill(job.agent_pid(), signal.SIGKILL)
        self.assertEqual(job.wait(), 137, job.stderr)  # tearDown looks for the rest


if __name__ == "__main__":
    sys.exit(jobs.main())
