#!/usr/bin/env python3
"""Says what others have written of what a build made: reads the headers that its objects were compiled with and the archives
that were linked, and asks dpkg whose they are. Fails on a package that CONTENTS does not know. The start-up code, which a
compiler links without being told, is of the build's sysroot, whose own list of packages says its version.

  sbom.py BUILD_DIR bill VERSION    prints a bill of materials, CycloneDX 1.5 in JSON; SOURCE_DATE_EPOCH is its date
  sbom.py BUILD_DIR notices         prints the licences of what is contained
"""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

CONTAINED, LOADED, DECLARED = "required", "optional", "excluded"
HOW = {CONTAINED: "in the file", LOADED: "its header alone; loaded at run time where it is there",
       DECLARED: "declarations of what the machine has"}
CONTENTS = {  # package, without the compiler's number: licence by SPDX, and whether it is in what is shipped
    "libboost1.81-dev": ("BSL-1.0", CONTAINED),
    "libboost-atomic1.81-dev": ("BSL-1.0", CONTAINED),
    "libboost-filesystem1.81-dev": ("BSL-1.0", CONTAINED),
    "libcli11-dev": ("BSD-3-Clause", CONTAINED),
    "libfmt-dev": ("MIT", CONTAINED),
    "libgcc-dev": ("GPL-3.0-or-later WITH GCC-exception-3.1", CONTAINED),
    "libsodium-dev": ("ISC", CONTAINED),
    "libspdlog-dev": ("MIT", CONTAINED),
    "libstdc++-dev": ("GPL-3.0-or-later WITH GCC-exception-3.1", CONTAINED),
    "nlohmann-json3-dev": ("MIT", CONTAINED),
    "libhwloc-dev": ("BSD-3-Clause", LOADED),
    "libmunge-dev": ("LGPL-3.0-or-later", LOADED),
    "libc6-dev": ("LGPL-2.1-or-later", DECLARED),
    "linux-libc-dev": ("GPL-2.0-only WITH Linux-syscall-note", DECLARED),
}
START = ("LGPL-2.1-or-later WITH GCC-exception-2.0-note", CONTAINED)  # of libc: _start, stat, atexit
SILENT = ("BSL-1.0", "GPL-3.0-or-later WITH GCC-exception-3.1", START[0])  # ask for no notice beside a compiled program
OURS = ("src/", "rendezvous/", "launcher/")
NVIDIA = re.compile(r"/(cuda|nccl)[^/]*/|/usr/local/")  # the plugin's, which contains nothing of them


def quote(text):
    return urllib.parse.quote(text, safe="")


def output(*command):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout


def used(build):
    """Files from outside the tree that objects and links were made of."""
    files, ours = set(), False
    for line in output("ninja", "-C", build, "-t", "deps").splitlines():
        if not line.startswith(" "):
            ours = line.startswith(OURS)
        elif ours and line.strip().startswith("/usr/"):
            files.add(line.strip())
    inputs = output("ninja", "-C", build, "-t", "inputs", "bin/cxxrun")
    files.update(line for line in inputs.splitlines() if line.startswith("/usr/") and line.endswith(".a"))
    return sorted(os.path.realpath(name) for name in files if not NVIDIA.search(name))


def known(package):
    name = re.sub(r"-\d+-dev$", "-dev", package)
    if name not in CONTENTS:
        sys.exit(f"sbom: {package} is used, and CONTENTS in {__file__} does not say its licence")
    return CONTENTS[name]


def start(build):
    """What is linked of the sysroot."""
    sysroot = re.search(r"^CXXRUN_SYSROOT:\w+=(.+)$", pathlib.Path(build, "CMakeCache.txt").read_text(), re.MULTILINE)
    if not sysroot:
        sys.exit(f"sbom: {build} has no CXXRUN_SYSROOT, and so nobody says whose start-up code is linked")
    listed = pathlib.Path(sysroot[1], "var/lib/dpkg/status").read_text().split("\n\n")
    its = next(each for each in listed if each.startswith("Package: libc6-dev\n"))
    version, machine = (re.search(f"^{field}: (.*)$", its, re.MULTILINE)[1] for field in ("Version", "Architecture"))
    return "libc6-dev", version, machine, *START


def packages(build):
    """Package, version, architecture, licence and scope. The compiler's own libraries are linked without being named."""
    names = {line.split(": ")[0].split(":")[0] for line in output("dpkg", "-S", *used(build)).splitlines()}
    listed = output("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}\n", *sorted(names))
    return [(*line.split(), *known(line.split()[0])) for line in listed.splitlines()] + [start(build)]


def bill(build, release):
    when = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    parts = []
    for package, version, machine, licence, scope in packages(build):
        parts.append({
            "type": "library", "name": package, "version": version, "scope": scope,
            "licenses": [{"expression": licence}] if " " in licence else [{"license": {"id": licence}}],
            "purl": f"pkg:deb/debian/{quote(package)}@{quote(version)}?arch={machine}",
            "properties": [{"name": "cxxrun:how", "value": HOW[scope]}]})
    subject = {"type": "application", "name": "cxxrun", "version": release, "licenses": [{"license": {"id": "Apache-2.0"}}]}
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": subject}, "components": parts}


def notices(build):
    """What has to go with a copy: one text for all packages that share it."""
    texts = {}
    for package, _, _, licence, scope in packages(build):
        if scope == CONTAINED and licence not in SILENT:
            text = pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text(errors="replace")
            texts.setdefault(text, []).append(package)
    rule = "=" * 100
    yield "cxxrun, under the Apache License 2.0, contains parts of these Debian packages, whose licences ask for a notice.\n"
    for text, names in texts.items():
        yield f"\n{rule}\n{', '.join(names)}\n{rule}\n\n{text}"


if __name__ == "__main__":
    if sys.argv[2:3] == ["bill"]:
        print(json.dumps(bill(sys.argv[1], sys.argv[3]), indent=2))
    elif sys.argv[2:3] == ["notices"]:
        print("".join(notices(sys.argv[1])), end="")
    else:
        sys.exit(__doc__)
