# shellcheck shell=bash
# How what is shipped is compiled and linked. For scripts/release.

release_flags="-O2 -DNDEBUG -ffunction-sections -fdata-sections"

# configure LIBDIR [OPTION]: build/portable, for packages that have libraries in LIBDIR; with another one nothing is compiled
# anew
configure() {
  # shellcheck disable=SC2086
  cmake ${2:-} -S . -B build/portable -G Ninja -DCMAKE_BUILD_TYPE=Release -DCXXRUN_TESTS=OFF -DCXXRUN_SYSROOT="$(realpath "$sysroot")" \
    -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR="$1" -DCMAKE_CXX_FLAGS_RELEASE="$release_flags" \
    -DCMAKE_C_FLAGS_RELEASE="$release_flags" >>build/portable.log
}

make_file() {  # DIR
  mkdir -p build "$1"
  git describe --always --dirty >build/portable.commit 2>/dev/null || echo "of no repository" >build/portable.commit
  : >build/portable.log
  sysroot=$(scripts/debian_root path sysroot11)
  scripts/debian_root unpack sysroot11 bullseye libc6 libc6-dev linux-libc-dev libcrypt-dev
  configure lib --fresh  # what it found before may have another name now
  cmake --build build/portable >>build/portable.log || { tail -30 build/portable.log; fail "the build failed"; }
  strip -o "$1/cxxrun" build/portable/bin/cxxrun
  strip -o "$1/cxxrunctl" build/portable/bin/cxxrunctl
  ln -sf cxxrun "$1/cxxrun-rendezvous"
  ln -sf cxxrun "$1/cxxrun-store"
}
