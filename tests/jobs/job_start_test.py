"""Programs that cannot be started, as a dry run and as the job say it. Usage: job_start_test.py CXXRUN"""
import os
import subprocess
import sys
import unittest

import jobs

BINFMT = "/proc/sys/fs/binfmt_misc"
OTHER_FORMATS = os.path.isdir(BINFMT) and bool(set(os.listdir(BINFMT)) - {"register", "status"})
IS_IT_THERE = "; is the path right, and its file system mounted on this node?"


class Start(jobs.JobCase):
    def run_ok(self, *arguments, **more):
        return self.run_job(*arguments, **more, code=0)

    def script_with(self, name, first_line, mode=0o755, then="echo ran"):
        return self.make_file(name, first_line + "\n" + then + "\n", mode)

    def not_started(self, code, why, *command, place="'", **more):
        """By the dry run and by the job: in one line, once, with place and remedy. `why`, `place`: in both."""
        place += " (working directory %s)" % os.getcwd()
        dry = self.run_job("--dry-run", "--standalone", *command, **more)
        self.assertEqual((dry.code, len(dry.stderr.splitlines())), (code, 1), dry.stderr)
        self.assertIn(why, dry.stderr)
        self.assertIn(place, dry.stderr)
        job = self.run_job("--standalone", *command, **more, code=code)
        self.assertIn(why, job.stderr)
        self.assertIn(place, job.stderr)
        self.assertNotIn("restart 1", job.stderr)

    def test_a_program_that_is_not_there(self):
        nothing = self.path("nothing")
        self.not_started(127, "cannot start '%s': No such file or directory%s" % (nothing, IS_IT_THERE), nothing)
        self.not_started(127, "no such program in PATH; for a file in the working directory write './no'", "no")

    def test_a_program_that_may_not_be_executed(self):
        plain = self.script_with("plain", "#!/bin/sh", 0o644)
        self.not_started(126, "cannot start '%s': not an executable file; try 'chmod +x'" % plain, plain)
        self.not_started(126, "cannot start '%s': it is a directory; name the program in it" % self.dir, self.dir)
        self.not_started(126, "cannot start 'plain': not an executable file", "plain", place="'%s'" % plain,
                         env={"PATH": self.dir + ":" + os.environ["PATH"]})

    @unittest.skipUnless(os.getuid() == 0, "only root may mount, and become somebody else")
    def test_a_program_on_a_file_system_that_executes_nothing_or_in_a_closed_directory(self):
        self.script_with("program", "#!/bin/sh")
        mounted = ("mount --bind $0 $0 && mount -o remount,bind,noexec $0 && "
                   "exec setpriv --reuid 65534 --clear-groups $@")
        for closed, why in ((0o755, "its file system is mounted noexec; copy it to another"),
                            (0o700, "a directory above it may not be entered; try 'chmod +x' on that")):
            os.chmod(self.dir, closed)
            done = subprocess.run(["unshare", "--mount", "sh", "-c", mounted, self.dir, jobs.CXXRUN, "--dry-run",
                                   "--standalone", self.path("program")], capture_output=True, text=True, timeout=60,
                                  env=self.environment())
            self.assertEqual(done.returncode, 126, done)
            self.assertIn(why, done.stderr)

    def test_a_script_whose_interpreter_is_not_there(self):
        gone = self.script_with("gone", "#!/nowhere/python3")
        self.not_started(127, "names the interpreter '/nowhere/python3', which does not exist; change that line", gone)
        self.not_started(127, "cannot start '%s': its first line names the interpreter '/nowhere/python3'" % gone,
                         self.script_with("nested", "#!" + gone))
        self.not_started(127, "names the interpreter 'nosuchpython', which is not in PATH; change that line",
                         self.script_with("asked", "#!/usr/bin/env -S nosuchpython -u"))
        self.not_started(127, "its lines end as on Windows: sed -i", self.script_with("windows", "#!/bin/sh\r"))
        self.not_started(127, "its lines end as on Windows: sed -i",
                         self.script_with("by_env", "#!/usr/bin/env bash\r"))
        self.not_started(127, "the interpreter 'sh -u', which is not in PATH; write 'env -S' for several words",
                         self.script_with("words", "#!/usr/bin/env sh -u"))
        self.not_started(127, "the interpreter 'sh', which does not exist", self.script_with("no_path", "#!sh"))

    def test_a_script_whose_interpreter_may_not_be_executed(self):
        self.not_started(126, "names the interpreter '%s', which may not be executed; change that line" % self.dir,
                         self.script_with("folder", "#!" + self.dir))

    def test_what_the_kernel_or_env_would_run_is_run(self):
        self.script_with("bin/plain", "true")  # env leaves it to a shell
        self.script_with("old/tool", "#!/nowhere/python3")
        self.script_with("new/tool", "#!/bin/sh")
        os.symlink("/bin/sh", self.path("here"))
        self.make_file("else/train.py", "print('ran')\n")
        self.script_with("wrap/python3", "#!/bin/sh", then="cd else && exec /usr/bin/python3 \"$@\"")
        path = ":".join(self.path(each) for each in ("bin", "old", "new")) + ":/usr/bin:/bin"
        for command in ([self.script_with("1", "#!/usr/bin/env plain")], [self.script_with("2", "#!/usr/bin/env tool")],
                        [self.script_with("3", "#!/usr/bin/env -S A=\"b c\" sh")], [self.script_with("4", "#!here")],
                        [self.script_with("5", "#!/usr/bin/env -S \"PATH=%s\" plain" % path)],
                        ["wrap/python3", "train.py"]):
            with self.subTest(command):
                for dry in ([], ["--dry-run"]):
                    self.run_ok("--standalone", *dry, *command, cwd=self.dir, env={"PATH": path})

    def test_a_program_is_told_the_name_that_was_typed(self):
        self.script_with("program", "#!/bin/sh", then="test \"$0\" = ./program")
        self.run_ok("--standalone", "--max-restarts", "0", "./program", cwd=self.dir)

    @unittest.skipIf(OTHER_FORMATS, "this machine runs files of other formats: binfmt_misc")
    def test_a_file_that_is_no_program(self):
        why = "not an executable format for this processor; a script must begin with '#!' and its interpreter"
        self.not_started(126, why, self.script_with("text", "no program"))
        self.not_started(126, why, self.script_with("bare", "#!"))
        with open(jobs.CXXRUN, "rb") as program, open(self.script_with("other", ""), "wb") as other:
            begin = bytearray(program.read(4096))
            begin[18:20] = b"\x08\x00"  # a MIPS
            other.write(begin)
        self.not_started(126, why, self.path("other"))

    def test_a_script_that_python_cannot_read(self):
        why = "cannot read the script 'nothing.py': No such file or directory" + IS_IT_THERE
        for command in (["nothing.py"], ["/usr/bin/python3", "-u", "nothing.py"]):
            self.not_started(127, why, *command, place="'%s'" % os.path.abspath("nothing.py"))
        os.mkdir(self.path("folder.py"))
        self.not_started(126, "folder.py': it is a directory without a __main__.py", self.path("folder.py"))
        with open(self.path("folder.py/__main__.py"), "w"):
            self.run_ok("--standalone", self.path("folder.py"))
        subprocess.run(["/usr/bin/python3", "-m", "compileall", "-q", "-b", self.path("folder.py")], check=True)
        os.remove(self.path("folder.py/__main__.py"))
        self.run_ok("--standalone", self.path("folder.py"), env={"PYTHON_EXEC": "/usr/bin/python3"})

    def test_a_python_that_is_not_there(self):
        script = self.path("script.py")
        with open(script, "w"):
            remedy = "; load the module or environment with Python, or name one in PYTHON_EXEC"
        self.not_started(127, "cannot start 'python3', which runs '%s': no such program in PATH%s" % (script, remedy),
                         script, env={"PATH": "/nowhere"})
        self.not_started(127, "cannot start 'python3', which runs 'train': no such program in PATH" + remedy,
                         "-m", "train", env={"PATH": "/nowhere"})
        self.not_started(127, "cannot start '/no/python', which runs '%s': no such file%s" % (script, remedy), script,
                         env={"PYTHON_EXEC": "/no/python"})
        self.not_started(126, "cannot start '/', which runs '%s': it may not be executed%s" % (script, remedy), script,
                         env={"PYTHON_EXEC": "/"})

    def test_a_dry_run_names_the_file_and_its_interpreter(self):
        dry = self.run_ok("--dry-run", "--standalone", self.script_with("shell", "#!/usr/bin/env sh"))
        self.assertRegex(dry.stdout, r"(?m)^executes +%s, run by /\S*/sh$" % self.path("shell"))
        dry = self.run_ok("--dry-run", "--standalone", "./shell", cwd=self.dir)
        self.assertRegex(dry.stdout, r"(?m)^executes +%s, run by" % os.path.realpath(self.path("shell")))
        dry = self.run_ok("--dry-run", "--standalone", "sh")
        self.assertRegex(dry.stdout, r"(?m)^executes +/\S*/sh$")

    def test_a_dry_run_finds_a_log_directory_that_cannot_be_made(self):
        self.make_file("file")
        job = self.run_job("--dry-run", "--standalone", "--log-dir", self.path("file/logs"), "true", code=111)
        self.assertIn("a part of this path is not a directory", job.stderr)


if __name__ == "__main__":
    sys.exit(jobs.main())
