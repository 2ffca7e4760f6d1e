# shellcheck shell=bash
# Jobs in roots of other releases (scripts/debian_root). For scripts/release.
roots=(deb11:bullseye deb12:bookworm deb13:trixie sid:sid)
# NAME is a bare machine; in NAME_user are also what installs packages, and Python.
of_user=(base-files bash coreutils dash diffutils dpkg findutils grep gzip iproute2 libc-bin procps python3 python3-venv sed tar
         util-linux)
port=29710

made() { [ -e "$(scripts/debian_root path "$1")/made" ]; }

# in_root NAME COMMAND …: with nothing of the caller's environment
in_root() { env -i PATH=/usr/bin:/usr/sbin HOME=/tmp LANG=C.UTF-8 CXXRUN_ROOTS="${CXXRUN_ROOTS:-}" scripts/debian_root run "$@"; }

# two_nodes DIR: a script that runs a job of two nodes with the programs of the directory that is its first argument
two_nodes() {
  cat >"$1/job" <<'JOB'
PATH=$1:$PATH
cd "$(dirname "$0")"
[ "$(cxxrun-rendezvous --version | cut -d' ' -f1)" = cxxrun-rendezvous ] || exit 1
[ "$(cxxrun-store --version | cut -d' ' -f1)" = cxxrun-store ] || exit 1
for node in 0 1; do
  cxxrun --nnodes 2 --node-rank $node --rdzv-endpoint "localhost:$2" --nproc-per-node 2 --no-python \
    /bin/sh -c 'echo "rank $RANK of $WORLD_SIZE"' >"out.$node" 2>&1 &
  eval "pid$node=\$!"
done
wait $pid0 && wait $pid1 && [ "$(cat out.* | grep -c 'rank [0-3] of 4')" = 4 ] || { cat out.*; exit 1; }
JOB
}

# job ROOT WHAT PROGRAMS
job() {
  port=$((port + 1))
  in_root "$1" sh "$work/job" "$3" "$port" || fail "$1: no job runs with $2"
  echo "$(basename "$1" .copy): a job of two nodes runs with $2"
}

# fresh NAME: a copy of the root that something is installed in. Whoever writes there makes new files.
fresh() {
  local root
  root=$(scripts/debian_root path "$1")
  rm -rf "$root.copy"
  cp -al "$root" "$root.copy"
  echo "$root.copy"
}

# by_dpkg ROOT DIR, by_rpm ROOT DIR: the launcher's package is installed, with the dependencies that it names
by_dpkg() {
  local copy
  copy=$(fresh "$1")
  cp "$2"/cxxrun_*.deb "$work/cxxrun.deb"
  in_root "$copy" dpkg -i "$work/cxxrun.deb" >"$work/said" 2>&1 || { cat "$work/said"; fail "$1: dpkg -i fails"; }
  job "$copy" "the .deb" /usr/bin
}

by_rpm() {
  local copy
  copy=$(fresh "$1")
  rpm_of_libc "$copy"
  rpm --force-debian --root "$copy" --dbpath /var/lib/rpm -i --justdb "$work"/libc-*.rpm || fail "$1: no libc"
  rpm --force-debian --root "$copy" --dbpath /var/lib/rpm -i "$2"/cxxrun-[0-9]*.rpm || fail "$1: rpm -i fails"
  job "$copy" "the .rpm" /usr/bin
}

# rpm_of_libc ROOT: a package that stands for that root's libc, and has what RPM sees in its libraries
rpm_of_libc() {
  local provided
  provided=$(find "$1/usr/lib/" "$1/lib/" -name 'lib*.so*' -o -name 'ld-*.so*' | grep -E '/(libc|libm|libdl|libpthread|ld-linux)' |
    /usr/lib/rpm/elfdeps --provides | sort -u | paste -sd,)
  printf '%s\n' 'Name: libc' 'Version: 1' 'Release: 1' 'Summary: libc' 'License: LGPL' 'BuildArch: noarch' \
    "Provides: rtld(GNU_HASH), $provided" '%description' '%files' >"$work/libc.spec"
  rpmbuild -bb --quiet --define "_topdir $work" --define "_rpmdir $work" --define '_rpmfilename %{NAME}-%{VERSION}.rpm' \
    "$work/libc.spec" >"$work/said" 2>&1 || { cat "$work/said"; fail "no package of libc"; }
}

# by_pip ROOT DIR: in a virtual environment of that root's Python, where libcxxrun_c can be loaded, too
by_pip() {
  cp "$2"/*.whl "$work"
  rm -rf "$work/venv"
  in_root "$1" sh -euc 'python3 -m venv "$1/venv"; "$1/venv/bin/pip" install --quiet --no-index "$1"/*.whl; "$1/venv/bin/python" -c \
    "import cxxrun._lib"' sh "$work" >"$work/said" 2>&1 || { cat "$work/said"; fail "$1: pip install fails"; }
  job "$1" "the wheel" "$work/venv/bin"
}

# by_hand ROOT DIR: what README.md says under "First job", typed as it stands there, with what it downloads in the directory
by_hand() {
  local began took lines
  lines=$(sed -n '/^## First job/,/^## /s/^    \$ //p' README.md)
  rm -rf "${work:?}/home"
  mkdir "$work/home"
  began=$(date +%s%N)
  cp "$2"/*.tar.gz "$work/home"
  in_root "$1" env --chdir "$work/home" sh -e <<<"$lines" >"$work/said" 2>&1 || { cat "$work/said"; fail "$1: README.md's lines fail"; }
  took=$((($(date +%s%N) - began) / 1000000))
  [ "$(grep -c '^\[[^]]*:[01]\] rank [01] of 2$' "$work/said")" = 2 ] || { cat "$work/said"; fail "$1: README.md promises other lines"; }
  [ "$took" -le 10000 ] || fail "$1: from the download to the first job it takes $took ms"
  echo "$1: $(wc -l <<<"$lines") lines of README.md, ${took} ms from the download to the end of the first job"
}

run_in_roots() {  # DIR
  local root name
  work=$(mktemp -d)  # /tmp is the machine's in every root
  two_nodes "$work"
  mkdir "$work/bin"
  cp -P "$1"/cxxrun "$1"/cxxrun-{rendezvous,store} "$work/bin"
  for root in "${roots[@]}"; do
    name=${root%:*}
    if made "$name"; then
      job "$name" "the file" "$work/bin"
    else
      echo "not tested: $name (scripts/debian_root make ${root/:/ } fetches it)"
    fi
    if made "${name}_user"; then
      by_hand "${name}_user" "$1"
      by_dpkg "${name}_user" "$1"
      by_rpm "${name}_user" "$1"
      by_pip "${name}_user" "$1"
    else
      echo "not tested: ${name}_user (scripts/debian_root make ${name}_user ${root#*:} ${of_user[*]} fetches it)"
    fi
  done
  rm -rf "$work"
}

# make_roots: those that are missing
make_roots() {
  local root
  for root in "${roots[@]}"; do
    scripts/debian_root make "${root%:*}" "${root#*:}"
    scripts/debian_root make "${root%:*}_user" "${root#*:}" "${of_user[@]}"
  done
}
