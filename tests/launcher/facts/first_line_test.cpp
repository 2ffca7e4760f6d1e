#include "launcher/facts/first_line.hpp"

#include "tests/support/catch.hpp"

using cxxrun::launcher::FirstLine;
using cxxrun::launcher::is_executable_format;
using cxxrun::launcher::read_first_line;

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
