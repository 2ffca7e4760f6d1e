# shellcheck shell=bash
# docs/evidence/roots.md: what has run where. For scripts/release.

# table_of_roots: what run_in_roots has noted
table_of_roots() {
  local root name column
  echo "| root | glibc$(printf ' | %s' "${columns[@]}") |"
  echo "|---|---$(printf '|---%.0s' "${columns[@]}")|"
  for root in "${roots[@]}"; do
    name=${root%:*}
    made "$name" || continue
    printf '| %s | %s |' "$(in_root "$name" sh -c '. /etc/os-release; echo "${PRETTY_NAME% (*}"')" \
      "$(in_root "$name" ldd --version | sed -n '1s/.* //p')"
    for column in "${columns[@]}"; do printf ' %s |' "${said_of[$name,$column]:-not run}"; done
    echo
  done
}

# page COMPILERS SAID COMMIT: what tests/install/compilers and the rest have printed, of what was made of that
page() {
  cat <<'PAGE'
# Where the packages run, and which compilers build the library

Written by `scripts/release --page`; do not edit.
PAGE
  printf 'The packages are of version %s, commit %s.\n\n' "$version" "$3"
  cat <<'PAGE'
A root is what Debian's packages of that release unpack to, with the kernel of the machine. "two nodes": a job of two
nodes ran with what the column names, installed as [install.md](../use/install.md) says. names: they met at a name of
the file of hosts, of a name server, in its search domain, without an nsswitch.conf, and at `[::1]`. README.md: its
lines under "First job", typed as they stand there, and the time from the archive's copy to the job's end. doctor:
`cxxrun --doctor --json` ended, and its lines are JSON. Files, names, README.md and doctor were tried in a bare root:
shell, coreutils, tar, gzip, procps, iproute2, util-linux and what these need.

PAGE
  table_of_roots
  cat <<'PAGE'

glibc 2.28 to 2.30 are not run: what the file needs of them is read from its symbols. RPM sees a package that stands for
the root's libc: no root is of a distribution with RPM.

## The library

Built by `tests/install/compilers` with all warnings as errors and `-DCXXRUN_PROGRAMS=OFF`; then each header alone, and
a program, which runs. clang 20 is packaged for none of these releases. Debian 11 has g++ 10 and CMake 3.18, which are
too old.

PAGE
  sed -n 's/^by \(.*\) of \(.*\):$/By `\1`, commit \2:\n/p' "$1"
  printf '| compiler | Debian | |\n|---|---|---|\n'
  sed -n 's/^\(passed\|failed\) \(.*\) of \(.*\)/| \2 | \3 | \1 |/p' "$1"
  printf '\n## What else was said\n\n'
  grep -vE '^(deb[0-9]+|sid): ' "$2" | sed 's/^/    /'
}

write_page() {  # COMPILERS [SAID …]: what tests/install/compilers has said, and what else is to stand in the page
  local work_of_page commit
  commit=$(cat build/portable.commit) || fail "nothing tells of which commit build/portable is: make it once more"
  work_of_page=$(mktemp -d)
  if [ $# -gt 0 ]; then
    cp "$1" "$work_of_page/compilers"
  else
    tests/install/compilers | tee "$work_of_page/compilers" || fail "a compiler does not build the library"
  fi
  check_all > >(tee "$work_of_page/said")
  wait $!  # for tee
  [ $# -le 1 ] || cat "${@:2}" >>"$work_of_page/said"
  page "$work_of_page/compilers" "$work_of_page/said" "$commit" >docs/evidence/roots.md
  rm -rf "$work_of_page"
}
