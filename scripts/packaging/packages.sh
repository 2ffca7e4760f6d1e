# shellcheck shell=bash
# The packages, of what one_file.sh compiles. For scripts/release. Whatever holds a time has that of the last
# change, and whatever holds names has them sorted.
version=$(sed -n 's/^#define CXXRUN_VERSION_[A-Z]* //p' include/cxxrun/version.hpp | paste -sd.)
machine=$(uname -m)
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}"
export SOURCE_DATE_EPOCH

# by_cpack GENERATOR LIBDIR DIR
by_cpack() {
  local out=build/portable/packages
  configure "$2"
  rm -rf "$out"
  cpack --config build/portable/CPackConfig.cmake -G "$1" -B "$out" >>build/portable.log 2>&1 ||
    fail "cpack made no $1: build/portable.log"
  mv "$out"/*."${1,,}" "$3"
}

# true_size DEB: makes it again with the size that it says it needs: CPack counts a file once more for each link to it
true_size() {
  local tree size
  tree=$(mktemp -d)
  dpkg-deb --raw-extract "$1" "$tree"
  chmod 755 "$tree"
  size=$(find "$tree" -path "$tree/DEBIAN" -prune -o -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
  sed -i "s/^Installed-Size: .*/Installed-Size: $size/" "$tree/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$tree" "$1" >>build/portable.log
  rm -rf "$tree"
}

# make_tarball PREFIX DIR
make_tarball() {
  tar -C "${1%/*}" -c --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go-w,a+rX "${1##*/}" |
    gzip -9n >"$2/${1##*/}.tar.gz"
}

make_packages() {  # DIR
  local file part prefix="build/portable/stage/cxxrun-$version-linux-$machine"
  rm -f "$1"/*.deb "$1"/*.rpm "$1"/*.whl "$1"/*.tar.gz "$1"/*.json
  scripts/packaging/sbom.py build/portable notices >build/portable/NOTICES
  scripts/packaging/sbom.py build/portable bill "$version" >"$1/cxxrun-$version.cdx.json"
  rm -rf "$prefix"
  cmake --install build/portable --component launcher --strip --prefix "$prefix" >>build/portable.log
  make_tarball "$prefix" "$1"
  rm -rf build/portable/stage/wheel
  for part in launcher cuda; do
    cmake --install build/portable --component $part --strip --prefix build/portable/stage/wheel >>build/portable.log
  done
  python3 src/runtime/python/cxxrun_wheel.py build/portable/stage/wheel "manylinux_2_28_$machine" "$1" >>build/portable.log
  by_cpack DEB "lib/$(gcc -print-multiarch)" "$1"
  for file in "$1"/*.deb; do true_size "$file"; done
  by_cpack RPM lib64 "$1"
  (cd "$1" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
}
