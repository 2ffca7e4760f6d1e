"""What src/runtime/python/cxxrun/_lib.py says to ctypes is what cxxrun/c.h declares. Usage: ctypes_test.py LIBCXXRUN_C"""
import ctypes
import os
import pathlib
import re
import sys
import threading
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[4]
os.environ["CXXRUN_LIBRARY"] = sys.argv.pop()
sys.path.insert(0, str(ROOT / "src/runtime/python"))

from cxxrun import _lib

HEADER = re.sub(r"/\*.*?\*/", "", (ROOT / "include/cxxrun/c.h").read_text(), flags=re.DOTALL)
NUMBERS = {"int32_t": ctypes.c_int32, "uint64_t": ctypes.c_uint64, "int64_t": ctypes.c_int64, "size_t": ctypes.c_size_t,
           "float": ctypes.c_float}
STRUCTS = {"failure": _lib._Failure, "options": _lib._Options, "facts": _lib.Facts, "recovery": _lib._Recovery,
           "sampler": _lib._Sampler}


def type_of(parameter):
    """Of `const void* in`."""
    words = re.findall(r"\w+|\*", parameter.replace("const ", ""))
    kind, stars = words[0], words.count("*")
    if kind in ("void", "cxxrun_comm", "cxxrun_work"):
        return [None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)][stars]
    if kind == "char":
        return ctypes.c_char_p
    of = STRUCTS[kind[len("cxxrun_"):]] if kind.startswith("cxxrun_") else NUMBERS[kind]
    return ctypes.POINTER(of) if stars else of


class Ctypes(unittest.TestCase):
    def test_each_function_takes_what_the_header_says(self):
        declared = dict(re.findall(r"^int32_t cxxrun_(\w+)\(([^)]*)\);", HEADER, re.MULTILINE))
        self.assertGreater(len(declared), 20)
        for name, arguments in _lib._ARGUMENTS.items():
            self.assertEqual(arguments, [type_of(each) for each in declared[name].split(",")], name)

    def test_the_library_is_looked_for_where_the_package_is_installed_and_not_above(self):
        def places(package):
            with unittest.mock.patch.dict(os.environ, {"PATH": ""}), unittest.mock.patch.object(_lib, "__file__", package):
                del os.environ["CXXRUN_LIBRARY"]
                return list(_lib._places())
        installed = places("/tmp/v/lib/python3.11/site-packages/cxxrun/_lib.py")
        self.assertEqual(installed[:2], ["/tmp/v/lib/python3.11/site-packages/cxxrun/libcxxrun_c.so.0",
                                         "/tmp/v/lib/libcxxrun_c.so.0"])
        self.assertTrue(all(each.startswith("/tmp/v/lib") for each in installed), installed)
        self.assertEqual(len(places("/tmp/tree/src/runtime/python/cxxrun/_lib.py")), 1)

    def test_a_call_at_the_end_of_the_process_is_made_although_no_thread_can_be_started(self):
        """As in Python 3.12, in what atexit calls: Elastic.close()."""
        with unittest.mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("at interpreter shutdown")):
            self.assertEqual(_lib.Aside(lambda: 3).wait(), 3)

    def test_each_struct_has_the_fields_of_the_header(self):
        declared = dict(re.findall(r"typedef struct cxxrun_(\w+) \{(.*?)\}", HEADER, re.DOTALL))
        self.assertEqual(declared.keys(), STRUCTS.keys())
        for name, body in declared.items():
            fields = []
            for kind, names in re.findall(r"(\w+) ([^;]+);", body):
                for field in names.split(","):
                    field, length = re.fullmatch(r"\s*(\w+)(?:\[(\d+)\])?", field).groups()
                    fields.append((field, ctypes.c_char * int(length) if length else NUMBERS[kind]))
            self.assertEqual(list(STRUCTS[name]._fields_), fields, name)

    def test_each_number_is_the_headers(self):
        numbers = {}
        for body in re.findall(r"enum \w+ \{(.*?)\}", HEADER, re.DOTALL):
            value = -1
            for each in body.split(","):
                name, _, given = each.strip().partition("=")
                value = int(given) if given else value + 1
                numbers[name.strip()] = value
        short = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int32": "I32", "int64": "I64",
                 "uint8": "U8"}
        self.assertEqual(_lib.TYPES, {name: numbers["CXXRUN_" + short[name]] for name in short})
        self.assertEqual(_lib.OPS, {name: numbers["CXXRUN_" + name.upper()] for name in _lib.OPS})
        for name in ("OK", "PEER_FAILURE", "NOT_DONE", "USAGE", "CLOSED"):
            self.assertEqual(getattr(_lib, name), numbers["CXXRUN_" + name])
        self.assertEqual([numbers["CXXRUN_" + why.upper()] for why in _lib._WHY], list(range(len(_lib._WHY))))


if __name__ == "__main__":
    unittest.main()
