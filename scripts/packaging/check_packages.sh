# shellcheck shell=bash
# What the packages say and hold. For scripts/release.

# wants WHAT TEXT WANTED
wants() { [ "$2" = "$3" ] || fail "$1 is '$2', not '$3'"; }

# foreign_requires RPM: what the package asks for beside libc up to $ceiling
foreign_requires() {
  rpm -qp --requires "$1" | awk -v ceiling="$ceiling" '
    /^(rpmlib|rtld)\(/ { next }
    !/^(lib(c|m|dl|pthread)|ld-linux-[a-z0-9-]*)\.so\.[0-9]+\((GLIBC_[0-9.]+)?\)\(64bit\)$/ { print; next }
    match($0, /GLIBC_[0-9.]+/) {
      split(substr($0, RSTART + 6, RLENGTH - 6), its, "."); split(ceiling, most, ".")
      if (its[1] > most[1] || its[1] == most[1] && its[2] + 0 > most[2] + 0) print
    }' | xargs
}

check_requires() { wants "what the .rpm requires beside libc" "$(foreign_requires "$1")" ""; }  # RPM

check_packages() {  # DIR
  local work prefix file
  work=$(mktemp -d)
  (cd "$1" && sha256sum --quiet -c SHA256SUMS) || fail "SHA256SUMS is of other files"
  wants "Depends of the .deb" "$(dpkg-deb -f "$1"/cxxrun_*.deb Depends)" "libc6 (>= $ceiling)"
  check_requires "$1"/cxxrun-[0-9]*.rpm
  for file in "$1"/*.deb; do true_size_of "$file" "$work"; done
  check_plugin "$1" "$work"
  check_library "$1" "$work"
  python3 -m zipfile -e "$1"/*.whl "$work/wheel"
  tar -xzf "$1"/cxxrun-*.tar.gz -C "$work"
  prefix=$(echo "$work"/cxxrun-*)
  for file in "$prefix/bin/cxxrun" "$prefix/bin/cxxrunctl" "$prefix/lib/libcxxrun_c.so.0"; do
    check_libc "$file"
    wants "the symbols of ${file##*/}" "$(nm "$file" 2>/dev/null)" ""
    hidden "$file"
  done
  same_files "$1" "$prefix" "$work"
  scripts/check_docs.py --links "$prefix/share/doc/cxxrun" >&2 || fail "a link in the tarball leads nowhere"
  check_bill "$1"/*.cdx.json
  wants "notices of what is linked" "$(grep -c '^lib\(cli11\|fmt\|sodium\|spdlog\)-dev\|^nlohmann' "$prefix/share/doc/cxxrun/NOTICES")" 5
  check_versions "$1" "$prefix" "$work/wheel"
  rm -rf "$work"
  echo "$1: packages that need libc alone, all of version $version"
}

# true_size_of DEB WORK: a link takes nothing, and is not counted once more as what it leads to
true_size_of() {
  local said taken
  said=$(dpkg-deb -f "$1" Installed-Size)
  rm -rf "$2/deb"
  dpkg-deb -x "$1" "$2/deb"
  taken=$(find "$2/deb" -type f -printf '%s\n' | awk '{ bytes += $1; files++ } END { print int(bytes / 1024), int(bytes / 1024) + files }')
  [ "$said" -ge "${taken% *}" ] && [ "$said" -le "${taken#* }" ] || fail "${1##*/} says that it takes $said KiB, not ${taken% *}"
}

# same_files DIR PREFIX WORK: every package has the programs that are there alone, and the tarball's libcxxrun_c
same_files() {
  mkdir "$3/deb_files" "$3/rpm_files"
  dpkg-deb -x "$1"/cxxrun_*.deb "$3/deb_files"
  rpm2archive - <"$1"/cxxrun-[0-9]*.rpm | tar -xz -C "$3/rpm_files"
  for program in cxxrun cxxrunctl; do
    for file in "$2/bin/$program" "$3"/wheel/*/scripts/$program "$3"/{deb,rpm}_files/usr/bin/$program; do
      cmp "$file" "$1/$program" || fail "a package has another program"
    done
  done
  for file in "$3"/wheel/cxxrun/libcxxrun_c.so.0 "$3"/deb_files/usr/lib/*/libcxxrun_c.so.0 "$3"/rpm_files/usr/lib64/libcxxrun_c.so.0; do
    cmp "$file" "$2/lib/libcxxrun_c.so.0" || fail "a package has another libcxxrun_c"
  done
  [ ! -e "$3/cuda" ] || cmp "$3/wheel/cxxrun/libcxxrun_cuda.so" "$3/cuda/usr/lib/cxxrun/libcxxrun_cuda.so" ||
    fail "the wheel has another plugin than cxxrun-cuda"
}

# hidden FILE: what stands in for a newer libc's functions is for the file alone
hidden() {
  local shown
  shown=$(nm -D --defined-only "$1" | awk '{ print $NF }' |
    grep -xE '__libc_single_threaded|close_range|arc4random|pthread_cond_clockwait|_dl_find_object' | xargs || true)
  [ -z "$shown" ] || fail "$1 offers others $shown"
}

# check_bill BILL: CycloneDX, with a version and a licence for each of what is linked, the sysroot's libc too
check_bill() {
  python3 - "$1" <<'BILL' || fail "${1##*/} is not complete"
import json, sys
bill = json.load(open(sys.argv[1]))
assert bill["bomFormat"] == "CycloneDX" and bill["specVersion"], bill
linked = [part["name"] for part in bill["components"] if part["scope"] == "required"]
for part in bill["components"]:
    if not part["version"] or not part["licenses"]:
        sys.exit(f"{part['name']} lacks its version or its licence")
for wanted in ("boost", "cli11", "fmt", "json", "sodium", "spdlog", "libgcc", "libstdc++", "libc6-dev"):
    if not any(wanted in name for name in linked):
        sys.exit(f"no component of what is linked is {wanted}")
BILL
}

# check_plugin DIR WORK: the cuda packages have the plugin where the library looks for it; it needs what
# they and docs/use/install.md say
check_plugin() {
  local place=/usr/lib/cxxrun libraries library
  compgen -G "$1/cxxrun-cuda*" >/dev/null || { echo "not made: cxxrun-cuda, for there is no CUDA toolkit here"; return; }
  [ ! -e build/portable/build.ninja ] || grep -qF "CXXRUN_PLUGIN_DIR=\\\"$place\\\"" build/portable/build.ninja ||
    fail "the library does not look into $place"
  dpkg-deb -c "$1"/cxxrun-cuda_*.deb | grep -q " \.$place/libcxxrun_cuda\.so$" || fail "no plugin in $place of the .deb"
  rpm -qlp "$1"/cxxrun-cuda-*.rpm | grep -qx "$place/libcxxrun_cuda.so" || fail "no plugin in $place of the .rpm"
  libraries=$(grep '^| .cxxrun-cuda. ' docs/use/install.md | grep -o 'lib[a-z]*\.so\.[0-9]*' | sort | xargs)
  dpkg-deb -x "$1"/cxxrun-cuda_*.deb "$2/cuda"
  check_libc "$2/cuda$place/libcxxrun_cuda.so" "$libraries"
  wants "the symbols of the plugin" "$(nm "$2/cuda$place/libcxxrun_cuda.so" 2>/dev/null)" ""
  for library in $libraries; do
    dpkg-deb -f "$1"/cxxrun-cuda_*.deb Description | grep -qF "$library" || fail "the .deb leaves out $library"
    rpm -qp --qf '%{DESCRIPTION}' "$1"/cxxrun-cuda-*.rpm | grep -qF "$library" || fail "the .rpm leaves out $library"
  done
}

check_versions() {  # DIR PREFIX WHEEL
  local file
  for file in "$1"/cxxrun[-_]*[0-9]*; do
    [[ $file =~ [-_]${version}[-._] ]] || fail "${file##*/} names another version than $version"
  done
  for file in "$1"/*.deb; do wants "Version of ${file##*/}" "$(dpkg-deb -f "$file" Version)" "$version"; done
  for file in "$1"/*.rpm; do wants "version of ${file##*/}" "$(rpm -qp --qf '%{VERSION}' "$file")" "$version"; done
  wants "the program's version" "$("$2/bin/cxxrun" --version | cut -d' ' -f2)" "$version"
  wants "the wheel's version" "$(sed -n 's/^Version: //p' "$3"/*.dist-info/METADATA)" "$version"
  wants "the module file's version" "$(basename "$2"/share/modulefiles/cxxrun/*)" "$version"
}
