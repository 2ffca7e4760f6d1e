# shellcheck shell=bash
# How what is shipped is compiled and linked. For scripts/release.

release_flags="-O2 -DNDEBUG -ffunction-sections -fdata-sections"

# compile LIBDIR TARGET …: in build/portable, for packages that have libraries in LIBDIR
compile() {
  local sysroot
  mkdir -p build
  sysroot=$(scripts/debian_root path sysroot11)
  scripts/debian_root unpack sysroot11 bullseye libc6 libc6-dev linux-libc-dev libcrypt-dev
  cmake -S . -B build/portable -G Ninja -DCMAKE_BUILD_TYPE=Release -DCXXRUN_TESTS=OFF -DCXXRUN_SYSROOT="$(realpath "$sysroot")" \
    -DCMAKE_INSTALL_LIBDIR="$1" -DCMAKE_CXX_FLAGS_RELEASE="$release_flags" >build/portable.log
  cmake --build build/portable --target "${@:2}" >>build/portable.log || { tail -30 build/portable.log; fail "the build failed"; }
}

make_file() {  # DIR
  compile lib cxxrun_program
  mkdir -p "$1"
  strip -o "$1/cxxrun" build/portable/bin/cxxrun
  ln -sf cxxrun "$1/cxxrun-rendezvous"
  ln -sf cxxrun "$1/cxxrun-store"
}
