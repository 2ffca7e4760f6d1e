"""What libcxxrun_c.so shows and needs is what its header says. Usage: symbols_test.py LIBCXXRUN_C CAPI_CHECK"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[4]
HEADER = ROOT / "include/cxxrun/c.h"
CHECK = sys.argv.pop()
LIBRARY = sys.argv.pop()
# Of the C library, which a program has anyway; the last two are separate files before glibc 2.34.
SYSTEM = r"(libc|libm|ld-linux-[\w-]+|libpthread|libdl|librt)\.so\.\d+"


def said(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=True, **more).stdout


def symbols(file, *options):
    return {line.split()[-1].split("@")[0] for line in said("nm", "-D", *options, file).splitlines()}


def declared():
    code = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    return set(re.findall(r"^(?:int32_t|const char\*) (cxxrun_\w+)\(", code, re.MULTILINE))


class Symbols(unittest.TestCase):
    def test_the_library_shows_what_the_header_declares_and_nothing_else(self):
        self.assertEqual(symbols(LIBRARY, "--defined-only"), declared())

    def test_the_c_program_of_the_tests_calls_all_of_it(self):
        self.assertEqual({name for name in symbols(CHECK, "--undefined-only") if name.startswith("cxxrun_")}, declared())

    def test_it_needs_the_c_library_and_no_c_plus_plus_one(self):
        section = said("readelf", "-d", LIBRARY)
        if "asan" in section or "tsan" in section:
            self.skipTest("a sanitizer brings libraries of its own")
        needed = re.findall(r"NEEDED.*\[(.+)\]", section)
        self.assertEqual([name for name in needed if not re.fullmatch(SYSTEM, name)], [])
        self.assertIn("libcxxrun_c.so.0]", section)

    def test_the_header_is_c99_and_c_plus_plus(self):
        for command in (["gcc", "-std=c99", "-x", "c"], ["gcc", "-std=c11", "-x", "c"], ["g++", "-std=c++11", "-x", "c++"]):
            said(*command, "-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-fsyntax-only", "-", input=f'#include "{HEADER}"\n')


if __name__ == "__main__":
    unittest.main()
