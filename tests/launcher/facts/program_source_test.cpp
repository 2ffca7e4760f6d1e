#include "launcher/facts/program_source.hpp"

#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"

using cxxrun::split;
using cxxrun::launcher::runs_what_it_reads;

TEST_CASE(
    "program_source: an interpreter without a program, or with - or /dev/stdin for it, reads standard input, and pdb "
    "does",
    "[unit]") {
  for (char const* const command : {"python3",
                                    "python3 -",
                                    "/opt/venv/bin/python3.11 -u -",
                                    "python -W ignore - --epochs 3",
                                    "python3 -Wignore -B",
                                    "python3 -u /dev/stdin",
                                    "pypy3",
                                    "bash",
                                    "bash -e",
                                    "/bin/sh",
                                    "sh -s 1 2",
                                    "bash -es",
                                    "bash --rcfile x",
                                    "bash -o pipefail",
                                    "bash --",
                                    "bash -- -",
                                    "zsh -",
                                    "dash +x",
                                    "perl",
                                    "perl -w -",
                                    "ruby",
                                    "bash /dev/fd/0",
                                    "python3 -X dev /proc/self/fd/0",
                                    "python3 -u -m pdb train.py",
                                    "python3 -mpdb train.py",
                                    "python3 -um ipdb x.py"}) {
    CAPTURE(command);
    CHECK(runs_what_it_reads(split(command, ' ')));
  }
}

TEST_CASE("program_source: a file, a command, a module or another program is read from elsewhere", "[unit]") {
  for (char const* const command : {"python3 train.py",
                                    "python3 -u train.py -",
                                    "python3 -c pass",
                                    "python3 -uc pass -",
                                    "python3 -m torch.bench -",
                                    "python3 -X dev train.py",
                                    "python3 -m pdb -c continue train.py",
                                    "python3 -m",
                                    "python3 --version",
                                    "python3 -V",
                                    "bash -c true",
                                    "bash -ec true",
                                    "bash job.sh -s",
                                    "bash --norc job.sh",
                                    "bash -o pipefail job.sh",
                                    "bash -- job.sh",
                                    "sh ./-",
                                    "perl -e 1",
                                    "perl -we 1",
                                    "perl -MPOSIX x.pl",
                                    "ruby -e 1",
                                    "cat -",
                                    "./train -",
                                    "hostname",
                                    "env python3 x",
                                    "pythonic"}) {
    CAPTURE(command);
    CHECK_FALSE(runs_what_it_reads(split(command, ' ')));
  }
  CHECK_FALSE(runs_what_it_reads({}));
}
