"""cxxrun._files: another user in the directories where the package reads and writes. Usage: files_test.py"""
import os
import pathlib
import shutil
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "src/runtime/python"))

from cxxrun import _files

VICTIM, ATTACKER = 1500, 65534


class Files(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cxxrun-files-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.path = os.path.join(self.dir, "state.pt")

    def mode(self, path):
        return stat.S_IMODE(os.lstat(path).st_mode)

    def as_user(self, user, act):
        """The exception's text, or what `act` returns, in a process of that user's."""
        inlet, outlet = os.pipe()
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            try:
                said = str(act())
            except Exception as error:  # or the child would go on with the tests
                said = f"{type(error).__name__}: {error}"
            os.write(outlet, said.encode())
            os._exit(0)
        os.close(outlet)
        os.waitpid(child, 0)
        with os.fdopen(inlet) as said:
            return said.read()

    def test_a_file_has_the_modes_of_the_umask_when_it_has_its_name(self):
        for mask, mode in ((0o022, 0o644), (0o000, 0o666), (0o002, 0o664), (0o077, 0o600)):
            before = os.umask(mask)
            try:
                _files.replace(self.path, b"state")
            finally:
                os.umask(before)
            self.assertEqual(self.mode(self.path), mode)
        self.assertEqual(os.listdir(self.dir), ["state.pt"])
        self.assertEqual(_files.read(self.path), b"state")

    def test_links_in_the_way_lead_nowhere(self):
        precious = os.path.join(self.dir, "precious")
        with open(precious, "w") as file:
            file.write("as it was")
        for make in (os.symlink, os.link):
            for name in (self.path, self.path + ".partial"):
                make(precious, name)
            _files.replace(self.path, b"state")
            self.assertFalse(os.path.islink(self.path))
            os.unlink(self.path)
            log = os.path.join(self.dir, "steps.jsonl")
            make(precious, log)
            with self.assertRaises(OSError):
                _files.append(log, "line\n")
            os.unlink(log)
        with open(precious) as file:
            self.assertEqual(file.read(), "as it was")

    def test_what_cannot_be_written_is_as_it_was(self):
        _files.replace(self.path, b"before")
        with self.assertRaises(TypeError):
            _files.replace(self.path, "no bytes")
        with self.assertRaises(FileNotFoundError):
            _files.replace(os.path.join(self.dir, "missing", "state.pt"), b"")
        self.assertEqual(_files.read(self.path), b"before")
        self.assertEqual(os.listdir(self.dir), ["state.pt"])

    def test_a_pipe_that_nobody_writes_holds_nobody_up(self):
        os.mkfifo(self.path)
        with self.assertRaises(PermissionError):
            _files.read(self.path)

    def test_lines_are_added(self):
        for line in ("one\n", "two\n"):
            _files.append(self.path, line)
        self.assertEqual(_files.read(self.path), b"one\ntwo\n")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be two users")
    def test_what_a_stranger_has_left_is_not_read(self):
        believed = {0o1777: False, 0o777: False, 0o2775: False, 0o755: True}
        for mode, is_read in believed.items():
            shutil.rmtree(self.dir)
            os.makedirs(self.dir)
            os.chmod(self.dir, 0o755)
            place = os.path.join(self.dir, "place")
            os.mkdir(place)
            path = os.path.join(place, "state.pt")
            with open(path, "w") as file:
                file.write("planted")
            for each in (place, path):
                os.chown(each, ATTACKER, VICTIM)
            os.chmod(place, mode)
            said = self.as_user(VICTIM, lambda: _files.read(path))
            self.assertEqual("planted" in said, is_read, (oct(mode), said))
            if not is_read:
                self.assertIn("belongs to uid 65534, who may have made it beforehand", said)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be two users")
    def test_what_a_stranger_has_left_in_directories_of_his_own_is_not_read(self):
        """Nobody else may write to the file's directory or the one above it, but a stranger has made both."""
        os.chmod(self.dir, 0o1777)
        path = os.path.join(self.dir, "user", "run", "state.pt")
        os.makedirs(os.path.dirname(path))
        with open(path, "w") as file:
            file.write("planted")
        for each in (path, os.path.dirname(path), os.path.join(self.dir, "user")):
            os.chown(each, ATTACKER, ATTACKER)
        said = self.as_user(VICTIM, lambda: _files.read(path))
        self.assertIn("belongs to uid 65534, who may have made it beforehand", said)
        os.chmod(self.dir, 0o755)  # then root has given him the directory
        self.assertIn("planted", self.as_user(VICTIM, lambda: _files.read(path)))

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be two users")
    def test_lines_are_not_added_to_a_file_of_a_strangers(self):
        with open(self.path, "w") as file:
            file.write("as it was")
        os.chown(self.path, ATTACKER, ATTACKER)
        os.chmod(self.path, 0o666)
        os.chmod(self.dir, 0o755)
        said = self.as_user(VICTIM, lambda: _files.append(self.path, "line\n"))
        self.assertIn("PermissionError: ", said)
        with open(self.path) as file:
            self.assertEqual(file.read(), "as it was")

    def writes(self, path):
        return [lambda: _files.append(path, "line\n", own=3), lambda: _files.replace(path, b"line\n", own=3)]

    def test_no_link_is_followed_in_the_directories_that_are_to_be_the_users_own(self):
        for name in ("run", "run/attempt_1", "run/attempt_1/0"):
            for write in range(2):
                logs = tempfile.mkdtemp(dir=self.dir)
                elsewhere = os.path.join(logs, "elsewhere")
                os.makedirs(os.path.join(elsewhere, "attempt_1/0/0"))
                os.makedirs(os.path.dirname(os.path.join(logs, name)), exist_ok=True)
                os.symlink(elsewhere, os.path.join(logs, name))
                place = os.path.join(logs, "run/attempt_1/0")
                os.makedirs(place, exist_ok=True)
                with self.assertRaises(OSError):
                    self.writes(os.path.join(place, "steps.jsonl"))[write]()
                self.assertEqual([files for _, _, files in os.walk(logs) if files], [])
        os.symlink(tempfile.mkdtemp(dir=self.dir), os.path.join(self.dir, "logs"))  # above them the user has chosen it
        place = os.path.join(self.dir, "logs/run/attempt_1/0")
        os.makedirs(place)
        for write in self.writes(os.path.join(place, "steps.jsonl")):
            write()
            self.assertEqual(_files.read(os.path.join(place, "steps.jsonl")), b"line\n")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be two users")
    def test_nor_is_anything_written_where_one_of_them_is_a_strangers(self):
        os.chmod(self.dir, 0o755)
        place = os.path.join(self.dir, "run/attempt_1/0")
        os.makedirs(place)
        around = [os.path.join(self.dir, "run"), os.path.join(self.dir, "run/attempt_1"), place]
        for each in around:
            os.chmod(each, 0o777)
        for stranger in [None, *around]:
            for each in around:
                os.chown(each, ATTACKER if each == stranger else VICTIM, VICTIM)
            for write in self.writes(os.path.join(place, "steps.jsonl")):
                said = self.as_user(VICTIM, write)
                self.assertEqual(said == "None", stranger is None, said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
