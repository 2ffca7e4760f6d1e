# shellcheck shell=bash
# What the file for every machine may need. For scripts/release.
ceiling=2.28
most_bytes=5000000
most_bytes_of_ctl=2000000

# foreign_libraries FILE: what it needs beside libc
foreign_libraries() {
  objdump -p "$1" | awk '$1 == "NEEDED" && $2 !~ /^(lib(c|m|dl|pthread)|ld-linux-(x86-64|aarch64))\.so/ { print $2 }' |
    sort | xargs
}

check_libc() {  # FILE [LIBRARIES]: of C or C++, which needs these beside libc
  local versions newest needed
  versions=$(objdump -p "$1" | sed -n '/^Version References:/,/^$/p' | grep -oE 'GLIBC_[A-Z0-9._]+' | sort -Vu || true)
  [ -n "$versions" ] || fail "$1 asks no libc for anything: is it a program?"
  ! grep -E 'GLIBC_[A-Z]' <<<"$versions" || fail "$1 needs what is no version of glibc"
  newest=$(tail -1 <<<"$versions")
  [ "$(printf 'GLIBC_%s\n' "$ceiling" "${newest#GLIBC_}" | sort -V | tail -1)" = "GLIBC_$ceiling" ] ||
    fail "$1 needs $newest: $(objdump -T "$1" | grep -F "$newest" | awk '{ print $NF }' | tr '\n' ' ')"
  needed=$(foreign_libraries "$1")
  [ "$needed" = "${2:-}" ] || fail "$1 needs $needed${2:+, not $2}"
}

check_file() {  # FILE
  local bytes most=$most_bytes
  [ "${1##*/}" != cxxrunctl ] || most=$most_bytes_of_ctl
  check_libc "$1"
  readelf -h "$1" | grep -q 'DYN (Position-Independent' || fail "$1 is no dynamic PIE"
  bytes=$(stat -c %s "$1")
  [ "$bytes" -le "$most" ] || fail "$1 has $bytes bytes, more than $most"
  echo "$1: $bytes bytes, glibc $ceiling"
}
