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
            except OSError as error:
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
