"""Every option of torchrun's own parser, of the release that is installed, given to cxxrun.
Usage: torchrun_options_test.py CXXRUN OPTION_TABLE_DUMP. Exit code 77: skipped, with the reason."""
import argparse
import os
import re
import subprocess
import sys
import unittest

import jobs
import torchrun_table

try:
    import torch
    import torch.distributed.run as torchrun
except ImportError as missing:
    jobs.skip(f"{missing} (Debian: python3-torch)")

DUMP = ""
NEWEST = torch.__version__ >= "2"
GUIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/use/torchrun.md")
# A value for those without a default that could be given; their parser has no words for these either.
SAMPLES = {"--rdzv-endpoint": ["localhost:0", "localhost"], "--rdzv-conf": ["timeout=5"], "--log-dir": ["logs"],
           "--log-line-prefix-template": ["[${role_name}${local_rank}]:"], "--local-ranks-filter": ["0", "0,1"],
           "--duplicate-stdout-filters": ["apple,orange"], "--duplicate-stderr-filters": ["apple,orange"],
           "--master-port": ["29500"], "--local-addr": ["localhost"], "--logs-specs": ["default"],
           "--shutdown-timeout": ["30"], "--nproc-per-node": ["auto", "cpu"], "--rdzv-backend": ["c10d"],
           "--event-log-handler": ["console"], "--redirects": ["1", "2", "3", "0:1,1:2"], "--tee": ["1", "2", "3", "0:3"],
           "--signals-to-handle": ["SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2"]}
# Words of their parser that cxxrun refuses; here the row says so.
REFUSED = {("--print-completion", "tcsh")}
ENDS = ("--help", "--print-completion")  # these print, and are not shown in a dry run


def long_names(action):
    return [name for name in action.option_strings if name.startswith("--")]


def name_of(action):
    return next(name for name in long_names(action) if "_" not in name or len(long_names(action)) == 1).replace("_", "-")


def values_of(action):
    """What torchrun itself takes; None for a flag."""
    if action.nargs == 0:
        return [None]
    default = [] if action.default in (None, "", [], argparse.SUPPRESS) else [str(action.default)]
    return list(dict.fromkeys(default + [str(word) for word in action.choices or []] + SAMPLES.get(name_of(action), [])))


def guide():
    """{option: what docs/use/torchrun.md says of it}"""
    said = {}
    with open(GUIDE) as f:
        table = re.search(r"\n\| flag \|[^\n]*\n\|[-|]*\n(.*?)\n\n", f.read(), re.S)[1]
    for row in table.split("\n"):
        flags, text = re.fullmatch(r"\| (.*?) (?<!\\)\| (.*) \|", row).groups()
        text = re.sub(r"\]\((\w+\.md)", r"](../use/\1", text)
        said.update(dict.fromkeys(re.findall(r"--[a-z][a-z-]*", flags), text))
    return said


class Options(jobs.JobCase):
    def setUp(self):
        super().setUp()
        self.actions = [action for action in torchrun.get_args_parser()._actions if action.option_strings]
        self.assertGreater(len(self.actions), 20)
        rows = [row.split("\t") for row in subprocess.check_output([DUMP], text=True).splitlines()]
        self.ours = {row[3]: row[6] == "ours" for row in rows if row[0] == "cxxrun"}

    def given(self, name, value):
        """What cxxrun would start: its exit code and output."""
        words = [name] if value is None else [f"{name}={value}"]
        done = subprocess.run([jobs.CXXRUN, "--dry-run", *words, "--", "/bin/true"], env=self.environment(),
                              cwd=self.dir, capture_output=True, text=True, timeout=jobs.GUARD)
        return done.returncode, re.sub(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])", "RANDOM", done.stdout), done.stderr

    def test_each_is_known_in_each_spelling_with_the_values_that_torchrun_knows(self):
        for action in self.actions:
            for value in values_of(action):
                results = {name: self.given(name, value) for name in action.option_strings
                           if value is not None or name != "-h"}
                with self.subTest(action.option_strings, value=value):
                    self.assertEqual(len({str(result) for result in results.values()}), 1, results)
                    code, out, err = next(iter(results.values()))
                    self.assertEqual(code, 100 if (name_of(action), value) in REFUSED else 0, err)

    @unittest.skipUnless(NEWEST, "an older release has fewer options, so that more is an abbreviation")
    def test_each_abbreviation_of_torchrun_means_the_same(self):
        every = {name: name_of(action) for action in self.actions for name in long_names(action)}
        for action in self.actions:
            value = (values_of(action) + ["x"])[0]
            meant = self.given(name_of(action), value)
            for name in long_names(action):
                for start in (name[:length] for length in range(3, len(name))):
                    if {full for known, full in every.items() if known.startswith(start)} == {name_of(action)}:
                        with self.subTest(start, means=name):
                            self.assertEqual(self.given(start, value), meant)

    def test_what_only_cxxrun_has_is_marked_as_such(self):
        theirs = {name_of(action) for action in self.actions}
        self.assertEqual({name for name in theirs if self.ours[name]}, set())
        if NEWEST:
            self.assertEqual({name for name, ours in self.ours.items() if not ours}, theirs)

    def test_each_is_explained(self):
        said = guide()
        said["--help"] = "same"
        rows = []
        for action in self.actions:
            words = ["`" + str(value).replace("|", "\\|") + "`" for value in values_of(action) if value is not None]
            rows.append({"area": f"options of torchrun {torch.__version__.split('+')[0]}",
                         "there": "`" + " ".join(name for name in action.option_strings if "_" not in name) + "`",
                         "values": ", ".join(words), "here": said.get(name_of(action), "")})
        self.assertEqual([row for row in rows if not row["here"]], [])
        if NEWEST:
            self.assertEqual(torchrun_table.record(rows), [], "run tests/jobs/torchrun_table.py")


if __name__ == "__main__":
    DUMP = os.path.abspath(sys.argv.pop(2))
    jobs.main()
