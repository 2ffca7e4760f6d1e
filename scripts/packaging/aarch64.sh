# shellcheck shell=bash
# The file for every machine with 64-bit ARM, by Debian's cross compiler, and jobs with it under qemu. For scripts/release.

# compile_for_arm SYSROOT: in build/aarch64. Headers alone are the machine's; what is compiled, or differs, is Debian 12's for
# arm64.
compile_for_arm() {
  local libraries
  mkdir -p build
  scripts/debian_root unpack sysroot11-arm64 bullseye/arm64 libc6 libc6-dev linux-libc-dev libcrypt-dev
  scripts/debian_root unpack libraries12-arm64 bookworm/arm64 libsodium-dev libhwloc-dev \
    libboost1.81-dev libboost-{atomic,filesystem,system}1.81-dev
  libraries=$(realpath "$(scripts/debian_root path libraries12-arm64)")/usr
  cmake -S . -B build/aarch64 -G Ninja -DCMAKE_BUILD_TYPE=Release -DCXXRUN_TESTS=OFF -DCXXRUN_WITH_CUDA=OFF \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
    -DCMAKE_CXX_FLAGS="-isystem $libraries/include/aarch64-linux-gnu" -DCMAKE_CXX_FLAGS_RELEASE="$release_flags" \
    -DBoost_DIR="$libraries/lib/aarch64-linux-gnu/cmake/Boost-1.81.0" \
    -DCXXRUN_SODIUM="$libraries/lib/aarch64-linux-gnu/libsodium.a" -DCXXRUN_SYSROOT="$1" >build/aarch64.log
  cmake --build build/aarch64 --target cxxrun_program >>build/aarch64.log || { tail -30 build/aarch64.log; fail "the build failed"; }
}

# refuses WHAT TEXT: a job whose worker is the file WHAT does not start, and its report says TEXT
refuses() {
  if "$work/bin/cxxrun" --standalone --max-restarts 0 --no-python "$work/$1" >"$work/said" 2>&1 || ! grep -q "$2" "$work/said"; then
    cat "$work/said"
    fail "aarch64: a program that cannot be executed does not tell why: $1"
  fi
}

# run_for_arm FILE SYSROOT: the workers are programs of this machine; qemu hands an exec on to the kernel
run_for_arm() {
  work=$(mktemp -d)
  mkdir "$work/bin"
  printf '#!/bin/sh\nexec qemu-aarch64 -L "%s" -0 "${0##*/}" "%s" "$@"\n' "$2" "$(realpath "$1")" >"$work/bin/cxxrun"
  printf '#!/no/such/interpreter\n' >"$work/lost"
  echo 'no program' >"$work/text"
  chmod +x "$work/bin/cxxrun" "$work/lost" "$work/text"
  for name in rendezvous store; do ln -s cxxrun "$work/bin/cxxrun-$name"; done
  two_nodes "$work"
  port=$((port + 1))
  sh "$work/job" "$work/bin" "$port" || fail "aarch64: no job runs"
  refuses lost "names the interpreter '/no/such/interpreter'"
  refuses text 'not an executable format for this processor'
  echo "aarch64: a job of two nodes runs under qemu, and a program that cannot be executed tells why"
  rm -rf "$work"
}

release_for_arm() {
  local file=build/aarch64/release/cxxrun sysroot tool
  for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
    command -v $tool >/dev/null || { echo "not tested: aarch64 (packages g++-aarch64-linux-gnu and qemu-user)"; return 0; }
  done
  sysroot=$(realpath -m "$(scripts/debian_root path sysroot11-arm64)")
  compile_for_arm "$sysroot"
  mkdir -p "${file%/*}"
  aarch64-linux-gnu-strip -o "$file" build/aarch64/bin/cxxrun
  check_file "$file"
  run_for_arm "$file" "$sysroot"
}
