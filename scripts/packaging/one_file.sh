# shellcheck shell=bash
# How the file for every machine is compiled and linked. For scripts/release.

make_file() {  # DIR
  local sysroot
  sysroot=$(scripts/debian_root path sysroot11)
  scripts/debian_root unpack sysroot11 bullseye libc6 libc6-dev linux-libc-dev libcrypt-dev
  cmake -S . -B build/portable -G Ninja -DCMAKE_BUILD_TYPE=Release -DCXXRUN_TESTS=OFF -DCXXRUN_SYSROOT="$(realpath "$sysroot")" \
    -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG -ffunction-sections -fdata-sections" >build/portable.log
  cmake --build build/portable --target cxxrun_program >>build/portable.log || { tail -30 build/portable.log; fail "the build failed"; }
  mkdir -p "$1"
  strip -o "$1/cxxrun" build/portable/bin/cxxrun
  ln -sf cxxrun "$1/cxxrun-rendezvous"
  ln -sf cxxrun "$1/cxxrun-store"
  (cd "$1" && sha256sum cxxrun >SHA256SUMS)
}
