#include "launcher/facts/interpreter.hpp"

#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"

using cxxrun::split;
using cxxrun::launcher::FirstLine;
using cxxrun::launcher::is_executable_format;
using cxxrun::launcher::read_first_line;
using cxxrun::launcher::runs_what_it_reads;

TEST_CASE("first_line: names the interpreter of a script", "[unit]") {
  CHECK(read_first_line("#!/bin/sh\necho") == FirstLine{"/bin/sh", ""});
  CHECK(read_first_line("#! /opt/python/bin/python3 -u\n") == FirstLine{"/opt/python/bin/python3", ""});
  CHECK(read_first_line("#!/bin/sh") == FirstLine{"/bin/sh", ""});
  CHECK(read_first_line("#!/opt/my/env.sh x\n") == FirstLine{"/opt/my/env.sh", ""});
}

TEST_CASE("first_line: names what env is to look for", "[unit]") {
  CHECK(read_first_line("#!/usr/bin/env python3\n") == FirstLine{"/usr/bin/env", "python3"});
  CHECK(read_first_line("#!/usr/bin/env -S\tA=1 python3 -u\n") == FirstLine{"/usr/bin/env", "python3"});
  CHECK(read_first_line("#!/usr/bin/env  python3 -u \n") == FirstLine{"/usr/bin/env", "python3 -u"});
  for (auto const* words : {"-i python3", "-S -u A python3", "-S PATH=/b python3", "-Spython3 -u", "-S 'my python'",
                            "-S A=\"b c\" python3", "-S \"PATH=/b\" python3", "A=1 python3", "-S", "-S A=1"}) {
    CHECK(read_first_line(std::string("#!/usr/bin/env ") + words) == FirstLine{"/usr/bin/env", ""});
  }
  CHECK(read_first_line("#!/usr/bin/env\n") == FirstLine{"/usr/bin/env", ""});
}

TEST_CASE("first_line: what is no script has no interpreter", "[unit]") {
  CHECK(read_first_line("\x7f"
                        "ELF") == FirstLine{});
  CHECK(read_first_line("") == FirstLine{});
  CHECK(read_first_line("#!\n/bin/sh\n") == FirstLine{});
  CHECK(read_first_line("# !/bin/sh\n") == FirstLine{});
}

TEST_CASE("first_line: a script, and a program for this processor, can be executed", "[unit]") {
  auto const elf_for = [](char machine) {
    return "\x7f"
           "ELF" +
           std::string(14, '\0') + std::string{machine, '\0'};
  };
  CHECK(is_executable_format("#!/bin/sh\n", 62));
  CHECK(is_executable_format(elf_for(62), 62));
  CHECK(is_executable_format(elf_for(3), 62));  // of 32 bits
  CHECK_FALSE(is_executable_format(elf_for(3), 183));
  CHECK_FALSE(is_executable_format(elf_for(62), 183));
  CHECK_FALSE(is_executable_format("#!\n", 62));
  CHECK_FALSE(is_executable_format("echo\n", 62));
  CHECK_FALSE(is_executable_format("", 62));
}

TEST_CASE("first_line: a line that ends with a carriage return names a file of that name", "[unit]") {
  CHECK(read_first_line("#!/bin/sh\r\n").interpreter == "/bin/sh\r");
}

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
