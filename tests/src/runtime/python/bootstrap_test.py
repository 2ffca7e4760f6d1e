"""What --watch puts into a Python worker: src/runtime/python/cxxrun/bootstrap. Without torch, and without a launcher."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from package_test import PACKAGE, Agent
from cxxrun import _page

BOOTSTRAP = str(PACKAGE / "cxxrun/bootstrap")
NOBODY = "@cxxrun-test-nobody"

# As much of torch.distributed as is looked at; `{version}` is that of torch.
TORCH = {
    "torch/__init__.py": "__version__ = '{version}'\nimport torch.distributed\n",
    "torch/distributed/__init__.py": "from torch.distributed.distributed_c10d import *\n",
    "torch/distributed/distributed_c10d.py": """
import os
class ProcessGroup:
    number = None
    def __init__(self, rank, size): self._at = rank, size
    def rank(self): return self._at[0]
    def size(self): return self._at[1]
    def send(self): pass
    def _set_sequence_number_for_group(self): self.number = 1804289383
    def _get_sequence_number_for_group(self):
        if self.number is None: raise RuntimeError("Sequence number is not set")
        return self.number
class GroupMember: WORLD = None
_pg_map, _pg_names, _pg_group_ranks = {}, {}, {}
def is_initialized(): return GroupMember.WORLD is not None
def _update_default_pg(group): GroupMember.WORLD = group
def init_process_group(rank=int(os.environ["RANK"]), size=int(os.environ["WORLD_SIZE"])):
    group = ProcessGroup(rank, size)
    if not __import__("torch").__version__.startswith("1."): group.number = 0
    _update_default_pg(group)
    if group.number is None: group._set_sequence_number_for_group()
""",
}
TRAIN = """
import time, torch, torch.distributed as dist
{wrap}
dist.init_process_group({arguments})
dist.distributed_c10d.GroupMember.WORLD.number += 3
time.sleep({pause})
"""
# As much of torch.optim, and of what torch.compile() says.
OPTIM = {
    "torch/compiler.py": "COMPILES = False\ndef is_compiling(): return COMPILES\n",
    "torch/optim/__init__.py": "from torch.optim.optimizer import Optimizer\n",
    "torch/optim/optimizer.py": """
class Optimizer:
    seen = 0
    def _optimizer_step_code(self): self.seen += 1
    def step(self): self._optimizer_step_code()
""",
}
UPDATE = """
import time, torch, torch.compiler, torch.distributed as dist
from torch.optim import Optimizer
early, other = Optimizer(), Optimizer()
dist.init_process_group()
del early
first = Optimizer()
for _ in range(5): first.step(), other.step()
torch.compiler.COMPILES = True
first.step()
torch.compiler.COMPILES = False
print(first.seen, other.seen)
del first
for _ in range(2): other.step()
"""
# As plug-ins of vendors do when they are imported: the script's name is theirs, and the module's own stays.
WRAP = "def wrapped(*all, its=dist.init_process_group): its(*all)\ndist.init_process_group = wrapped\n"


class BootstrapTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def torch(self, version="2.14.0"):
        for name, text in TORCH.items():
            self.write(name, text.replace("{version}", version))

    def run_python(self, code, *options, python=sys.executable, agent=NOBODY, **variables):
        """(what it writes, its complaints)"""
        done = subprocess.run([python, *options, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True,
                              universal_newlines=True, cwd=self.folder,
                              env={"PYTHONPATH": f"{BOOTSTRAP}:{self.folder}", "CXXRUN_AGENT": agent, "RANK": "1",
                                   "LOCAL_RANK": "1", "WORLD_SIZE": "2", "CXXRUN_GENERATION": "1", **variables})
        return done.stdout, done.stderr

    def shown(self, wrap="", arguments="", version="2.14.0", before="", **how):
        """What the agent sees of a script: generation and collectives; None: it has not called."""
        self.torch(version)
        agent = Agent()
        try:
            code = before + TRAIN.format(wrap=wrap, arguments=arguments, pause=0.6)
            said = self.run_python(code, agent=agent.name, **how)
            self.assertEqual(said, ("", ""))
            generation = agent.word(_page.GENERATION)
            return (generation, agent.word(_page.ENTERED)) if generation else None
        finally:
            agent.close()

    def test_collectives_of_a_script_without_a_line_of_ours_are_shown(self):
        for version in ("2.14.0", "1.13.1"):
            with self.subTest(version=version):
                self.assertEqual(self.shown(version=version), (1, 3))

    def test_steps_of_the_first_optimizer_that_makes_one_are_counted(self):
        self.torch()
        for name, text in OPTIM.items():
            self.write(name, text)
        self.write("torch/__init__.py", "__version__ = '2.14.0'\nimport torch.distributed, torch.compiler, torch.optim\n")
        agent = Agent()
        self.addCleanup(agent.close)
        self.assertEqual(self.run_python(UPDATE, agent=agent.name), ("6 5\n", ""))
        self.assertEqual((agent.word(_page.UPDATES), agent.word(_page.STEP), agent.word(_page.FIRST_STEP)), (7, 0, 0))
        self.assertGreater(agent.word(_page.UPDATED), 0)

    def test_it_does_not_matter_who_has_wrapped_init_process_group(self):
        for version in ("2.14.0", "1.13.1"):
            for before in ("", f"import torch.distributed as dist\n{WRAP}import cxxrun\ncxxrun.install()\n"):
                with self.subTest(version=version, before=before):
                    self.assertEqual(self.shown(WRAP, version=version, before=before), (1, 3))

    def test_a_group_of_other_ranks_than_the_launchers_is_not_shown(self):
        for arguments in ("0, 2", "1, 3", "0, 1"):
            with self.subTest(arguments=arguments):
                self.assertIsNone(self.shown(arguments=arguments))

    def test_a_script_may_clear_its_environment_and_path_and_import_torch_elsewhere(self):
        for before in ("import os, sys\ndel os.environ['PYTHONPATH']\nsys.path[:] = [it for it in sys.path if 'cxxrun' not in it]\n",
                       "import threading\nit = threading.Thread(target=__import__, args=['torch.distributed'])\nit.start()\n"
                       "it.join()\n",
                       "import importlib.util, sys\nspec = importlib.util.find_spec('torch')\n"
                       "spec.loader = importlib.util.LazyLoader(spec.loader)\n"
                       "torch = sys.modules['torch'] = importlib.util.module_from_spec(spec)\n"
                       "spec.loader.exec_module(torch)\n"):
            with self.subTest(before=before):
                self.assertEqual(self.shown(before=before), (1, 3))

    def test_a_virtual_environment_has_it_too(self):
        venv = os.path.join(self.folder, "venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        self.assertEqual(self.shown(python=os.path.join(venv, "bin/python")), (1, 3))

    def test_a_helper_that_imports_torch_alone_shows_nothing_and_says_nothing(self):
        self.torch()
        started = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import torch'], check=True)\n"
        self.assertEqual(self.run_python(started, RANK="0"), ("", ""))
        self.write("makes.py", "def group():\n    import torch.distributed as dist\n    dist.init_process_group()\n")
        spawned = ("import multiprocessing, makes\nit = multiprocessing.get_context('spawn').Process(target=makes.group)\n"
                   "it.start()\nit.join()\nprint(it.exitcode)")
        self.assertEqual(self.run_python(spawned, RANK="0"), ("0\n", ""))

    def test_nothing_of_the_package_is_imported_before_torch_is(self):
        code = "import sys; print([each for each in sys.modules if each.startswith('cxxrun')], sys.path.count(%r))"
        self.assertEqual(self.run_python(code % BOOTSTRAP), ("[] 0\n", ""))

    def imports(self):
        """The file as the launcher names it. Its directories must be the user's own."""
        place = os.path.join(self.folder, "run/attempt_1/0")
        os.makedirs(place)
        return os.path.join(place, "imports")

    def test_with_warm_the_launcher_is_told_of_installed_modules_and_not_of_the_scripts_own(self):
        self.write("site-packages/slow/__init__.py", "import time, slow.inner\ntime.sleep(0.03)\n")
        self.write("site-packages/slow/inner.py", "import time\ntime.sleep(0.03)\n")
        self.write("mine.py", "import time, slow\ntime.sleep(0.03)\n")
        told = self.imports()
        self.assertEqual(self.run_python("import mine, os\nprint('CXXRUN_IMPORTS' in os.environ)", CXXRUN_IMPORTS=told,
                                         PYTHONPATH=f"{BOOTSTRAP}:{self.folder}:{self.folder}/site-packages"), ("False\n", ""))
        with open(told) as file:
            lines = file.read()
        self.assertRegex(lines, r"\A(.*\n)*\d\.\d{3} slow\.inner slow\n\d\.\d{3} slow -\n\Z")
        self.assertNotIn("mine", lines)

    def test_with_warm_tracebacks_of_imports_are_as_without(self):
        self.write("wrong.py", "def f(): raise ValueError('wrong')\nf()\n")
        self.write("lacks.py", "import nothing_of_that_name\n")
        code = "import traceback\nfor name in ('wrong', 'lacks'):\n    try:\n        __import__(name)\n    except Exception:\n        traceback.print_exc()"
        told = self.imports()
        self.assertEqual(self.run_python(code, CXXRUN_IMPORTS=told), self.run_python(code))

    def test_the_users_own_sitecustomize_runs_and_keeps_its_name(self):
        self.write("sitecustomize.py", "import sys\nprint('mine', __file__)\nmark = 7\n")
        own = os.path.join(self.folder, "sitecustomize.py")
        self.assertEqual(self.run_python("import sitecustomize; print(sitecustomize.mark)"), (f"mine {own}\n7\n", ""))

    def test_an_error_in_the_users_sitecustomize_is_told_as_without_ours(self):
        for text in ("import nothing_of_that_name\n", "raise ValueError('wrong')\n"):
            self.write("sitecustomize.py", text)
            without = self.run_python("print(1)", PYTHONPATH=self.folder)
            self.assertIn("Error in sitecustomize", without[1])
            self.assertEqual(self.run_python("print(1)"), without)

    def test_a_package_of_that_name_that_is_not_ours_harms_nobody(self):
        self.torch()
        self.write("cxxrun.py", "print('theirs')\n")
        self.assertEqual(self.run_python(TRAIN.format(wrap="", arguments="", pause=0)), ("theirs\n", ""))

    def test_a_python_that_ignores_it_runs_the_script_all_the_same(self):
        for options in (["-I"], ["-S"], ["-E"], ["-s"], ["-O"]):
            with self.subTest(options=options):
                self.assertEqual(self.run_python("print(1)", *options), ("1\n", ""))
        self.assertEqual(self.run_python("print(1)", PYTHONSAFEPATH="1"), ("1\n", ""))

    def test_the_stacks_come_although_nothing_is_imported(self):
        code = ("import os, signal\nos.kill(os.getpid(), signal.SIGRTMIN + 13)\n"
                "name = next(each for each in map('/proc/self/fd/{}'.format, os.listdir('/proc/self/fd'))\n"
                "            if os.path.exists(each) and 'cxxrun-stacks-' in os.readlink(each))\n"
                "print(open(name).read())\n%s\nprint(len([each for each in os.listdir('/proc/self/fd')\n"
                "     if 'cxxrun-stacks' in os.readlink('/proc/self/fd/' + each)]))")
        for more in ("", "import sys; sys.path.append(%r); import cxxrun; cxxrun.install()" % str(PACKAGE)):
            said = self.run_python(code.replace("in os.readlink('/proc/self/fd/' + each)]))",
                                                "in os.path.realpath('/proc/self/fd/' + each)]))") % more)
            self.assertIn('File "<string>", line 2 in <module>', said[0])
            self.assertTrue(said[0].endswith("\n1\n"), said)

    def test_without_a_launcher_it_only_steps_aside(self):
        code = "import sys; print(any('sitecustomize' in type(its).__module__ for its in sys.meta_path))"
        self.assertEqual(self.run_python(code, agent=""), ("False\n", ""))

    def test_other_pythons_that_are_here_run_it(self):
        code = "import sys; sys.stdout.write('%s' % (('_cxxrun_bootstrap' in sys.modules) == (sys.version_info >= (3, 8))))"
        for python in ("python2", "pypy3", *(f"python3.{minor}" for minor in range(6, 15))):
            path = shutil.which(python)
            if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
                with self.subTest(python=python):
                    self.assertEqual(self.run_python(code, python=path, PATH=os.environ["PATH"]), ("True", ""))


if __name__ == "__main__":
    unittest.main()
