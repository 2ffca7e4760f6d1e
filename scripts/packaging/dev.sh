# shellcheck shell=bash
# The packages of who links the library: what they ask for, and a program that is built with them. For scripts/release.

# newest_libc ARCHIVE: the newest version that a symbol of it has in this machine's glibc, with whose headers it is compiled
newest_libc() {
  local library
  join <(nm -u --quiet "$1" | awk '$1 == "U" { print $2 }' | sort -u) \
    <(for library in libc.so.6 libm.so.6; do nm -D --defined-only "$(gcc -print-file-name="$library")"; done |
      sed -n 's/^.* \(.*\)@@GLIBC_\([0-9.]*\)$/\1 \2/p' | sort -u) | cut -d' ' -f2 | sort -V | tail -1
}

check_archive() {  # ARCHIVE GLIBC: it can be linked where that is
  local newest
  newest=$(newest_libc "$1")
  [ -n "$newest" ] || fail "${1##*/} asks no libc for anything: is it a library?"
  [ "$(printf '%s\n' "$newest" "$2" | sort -V | tail -1)" = "$2" ] || fail "${1##*/} needs glibc $newest, and says $2"
}

# check_library DIR WORK: the packages and docs/use/install.md name one glibc, which is enough
check_library() {
  local glibc page=docs/use/install.md
  glibc=$(dpkg-deb -f "$1"/cxxrun-dev_*.deb Depends | grep -o 'libc6-dev (>= [0-9.]*' | grep -o '[0-9.]*$')
  wants "what the .rpm of the library requires" \
    "$(rpm -qp --requires "$1"/cxxrun-devel-*.rpm | grep -v '^rpmlib(' | xargs)" "cxxrun = $version glibc-devel >= $glibc"
  wants "the glibc in $page" "$(grep '^| .cxxrun-dev., ' $page | grep -o 'glibc [0-9.]*')" "glibc $glibc"
  dpkg-deb -x "$1"/cxxrun-dev_*.deb "$2/dev"
  check_archive "$2"/dev/usr/lib/*/libcxxrun.a "$glibc"
}

# build_with_dev DIR: what links the library by the packages alone, .deb and .rpm; the plugin's lies where the program looks
build_with_dev() {
  if ! made compilers12; then
    echo "not tested: cxxrun-dev (tests/install/compilers make fetches the root)"
    return
  fi
  work=$(mktemp -d)
  build_with "/usr/lib/$(gcc -print-multiarch)" "$1"/*.deb
  build_with /usr/lib64 "$1"/*.rpm
  rm -rf "$work"
}

# build_with LIBRARIES PACKAGE …: all of one kind, which have their libraries there
build_with() {
  local copy packages="${*##*/}"
  copy=$(fresh compilers12)
  case $2 in
    *.deb) dpkg --root="$copy" -i "${@:2}" ;;
    *) rpm --force-debian --root "$copy" --dbpath /var/lib/rpm --nodeps -i "${@:2}" ;;  # what they need is no .rpm here
  esac >"$work/said" 2>&1 || { cat "$work/said"; fail "not installed: ${packages#* }"; }
  rm -rf "${work:?}/dev"
  # The root has one libstdc++ to load, that of the newest compiler, and each compiler's own to link.
  in_root "$copy" sh -euc 'for compiler in g++-11 g++-12; do
      cmake -S tests/install/find_package -B "$1/dev/$compiler" -G Ninja -DCMAKE_CXX_COMPILER=$compiler \
        -DCMAKE_EXE_LINKER_FLAGS=-static-libstdc++ -Dcxxrun_DIR="$2/cmake/cxxrun"
      cmake --build "$1/dev/$compiler"
      [ "$("$1/dev/$compiler/consumer")" = "rank 0 of 1: sum 1" ]
    done' sh "$work" "$1" >"$work/said" 2>&1 || { cat "$work/said"; fail "no program is built with ${packages#* }"; }
  echo "compilers12: g++ 11 and 12 build a program, which runs, with ${packages#* }"
  rm -rf "$copy"
}
