# shellcheck shell=bash
# Jobs in roots of other releases (scripts/debian_root). For scripts/release.
roots=(deb11:bullseye deb12:bookworm deb13:trixie sid:sid)
columns=("the file" names "README.md" "module file" ".deb" ".rpm" wheel doctor)
declare -A said_of  # ROOT,COLUMN: what came of it
# NAME is a bare machine; in NAME_user are also what installs packages, and Python.
of_user=(base-files bash coreutils dash diffutils dpkg environment-modules findutils grep gzip iproute2 libc-bin procps python3 python3-venv sed tar
         util-linux)
port=29710

made() { [ -e "$(scripts/debian_root path "$1")/made" ]; }

# in_root NAME COMMAND …: with nothing of the caller's environment
in_root() { env -i PATH=/usr/bin:/usr/sbin HOME=/tmp LANG=C.UTF-8 CXXRUN_ROOTS="${CXXRUN_ROOTS:-}" scripts/debian_root run "$@"; }

# two_nodes DIR: a script that runs a job of two nodes with the programs of the directory that is its first argument; they
# meet at the port and the host that come then
two_nodes() {
  cat >"$1/job" <<'JOB'
PATH=$1:$PATH
cd "$(dirname "$0")"
[ "$(cxxrun-rendezvous --version | cut -d' ' -f1)" = cxxrun-rendezvous ] || exit 1
[ "$(cxxrun-store --version | cut -d' ' -f1)" = cxxrun-store ] || exit 1
for node in 0 1; do
  cxxrun --nnodes 2 --node-rank $node --rdzv-endpoint "${3:-localhost}:$2" --nproc-per-node 2 --no-python \
    /bin/sh -c 'echo "rank $RANK of $WORLD_SIZE"' >"out.$node" 2>&1 &
  eval "pid$node=\$!"
done
wait $pid0 && wait $pid1 && [ "$(cat out.* | grep -c 'rank [0-3] of 4')" = 4 ] || { cat out.*; exit 1; }
JOB
}

# note ROOT COLUMN TEXT
note() {
  local name
  name=$(basename "$1" .copy)
  name=${name%_user}
  said_of[$name,$2]=$3
  echo "$name: $2: $3"
}

# job ROOT COLUMN PROGRAMS
job() {
  port=$((port + 1))
  in_root "$1" sh "$work/job" "$3" "$port" || fail "$1: no job runs with $2"
  note "$1" "$2" "two nodes"
}

# by_names ROOT PROGRAMS: jobs that meet at a name of the file of hosts, of a name server, in its search domain, the same without
# an nsswitch.conf, and at an address of IPv6; in a network of its own
by_names() {
  local copy as=()
  [ "$(id -u)" = 0 ] || as=(--user --map-root-user)
  copy=$(fresh "$1")
  rm "$copy/etc/nsswitch.conf"
  echo '127.0.0.1 localhost of-a-file' >"$work/hosts"
  printf 'nameserver 127.0.0.1\nsearch cluster.test\n' >"$work/resolv.conf"
  export -f in_root
  unshare "${as[@]}" --net --mount --propagation private bash -euc '
    work=$1 programs=$2 port=$3 root=$4 copy=$5
    ip link set lo up
    for file in hosts resolv.conf; do mount --bind "$work/$file" "/etc/$file"; done
    coproc python3 tests/support/name_server.py job.cluster.test 127.0.0.1
    read -r _ <&"${COPROC[0]}"  # "ready"
    for name in of-a-file job.cluster.test job; do
      in_root "$root" sh "$work/job" "$programs" "$port" "$name" || { echo "$name"; exit 1; }
    done
    in_root "$copy" sh "$work/job" "$programs" "$port" job || { echo "no nsswitch.conf"; exit 1; }
    ip address delete 127.0.0.1/8 dev lo  # or it would do as well
    in_root "$root" sh "$work/job" "$programs" "$port" "[::1]" || { echo "[::1]"; exit 1; }
  ' bash "$work" "$2" $((++port)) "$1" "$copy" >"$work/said" 2>&1 || { cat "$work/said"; fail "$1: two nodes do not find each other"; }
  rm -rf "$copy"
  note "$1" names "of 5 kinds"
}

# examine ROOT PROGRAMS: what is wrong with that machine is not asked, but that it is said
examine() {
  local code=0
  in_root "$1" "$2/cxxrun" --doctor --json >"$work/said" || code=$?
  [ "$code" -le 1 ] && python3 -m json.tool "$work/said" >/dev/null || { cat "$work/said"; fail "$1: --doctor ends with $code"; }
  note "$1" doctor "$(grep -c '"grade"' "$work/said") lines"
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
  imports "$copy" .deb
  job "$copy" .deb /usr/bin
}

by_rpm() {
  local copy
  copy=$(fresh "$1")
  rpm_of_libc "$copy"
  rpm --force-debian --root "$copy" --dbpath /var/lib/rpm -i --justdb "$work"/libc-*.rpm || fail "$1: no libc"
  rpm --force-debian --root "$copy" --dbpath /var/lib/rpm -i "$2"/cxxrun-[0-9]*.rpm || fail "$1: rpm -i fails"
  rm "$copy/etc/debian_version"
  imports "$copy" .rpm -S
  job "$copy" .rpm /usr/bin
}

# imports ROOT PACKAGE [-S]: docs/use/install.md's way to the Python package below /usr. With -S Python does not look
# into Debian's directory by itself, as that of a distribution with RPM.
imports() {
  in_root "$1" bash -euc '. /usr/share/modules/init/bash; before=${PYTHONPATH:-}  # where it has put its own directory
    module use /usr/share/modulefiles; module load cxxrun
    python3 $1 -c "import cxxrun._lib"
    [ "${PYTHONPATH:-}" = "${1:+/usr/lib/python3/dist-packages${before:+:}}$before" ]' bash "${3:-}" >"$work/said" 2>&1 ||
    { cat "$work/said"; fail "$1: Python does not find what the $2 has, or more than that"; }
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
  job "$1" wheel "$work/venv/bin"
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
  note "$1" README.md "$(wc -l <<<"$lines") lines, $took ms"
}

# by_module ROOT INIT: the module file of what by_hand has unpacked last
by_module() {
  local prefix
  prefix=$(echo "$work"/home/cxxrun-*/)
  in_root "$1" bash -ec '. "$2"; module use "$1/share/modulefiles"; module load cxxrun
    [ "$(command -v cxxrun)" = "${1%/}/bin/cxxrun" ]; python3 -c "import cxxrun"' bash "$prefix" "$2" >"$work/said" 2>&1 ||
    { cat "$work/said"; fail "$1: module load fails"; }
  job "$1" "module file" "$prefix/bin"
}

run_in_roots() {  # DIR
  local root name
  work=$(mktemp -d)  # /tmp is the machine's in every root
  two_nodes "$work"
  mkdir "$work/bin"
  cp -P "$1"/cxxrun "$1"/cxxrun-{rendezvous,store} "$work/bin"
  for root in "${roots[@]}"; do
    name=${root%:*}
    if ! made "$name" || ! made "${name}_user"; then
      echo "not tested: $name (scripts/release --roots fetches it)"
      continue
    fi
    job "$name" "the file" "$work/bin"
    by_names "$name" "$work/bin"
    examine "$name" "$work/bin"
    by_hand "$name" "$1"
    by_module "${name}_user" /usr/share/modules/init/bash
    by_dpkg "${name}_user" "$1"
    by_rpm "${name}_user" "$1"
    by_pip "${name}_user" "$1"
    rm -rf "$(scripts/debian_root path "${name}_user").copy"
  done
  if made lmod && [ -d "$work/home" ]; then by_module lmod /usr/share/lmod/lmod/init/bash; else echo "not tested: Lmod"; fi
  rm -rf "$work"
}

# make_roots: those that are missing
make_roots() {
  local root
  for root in "${roots[@]}"; do
    scripts/debian_root make "${root%:*}" "${root#*:}"
    scripts/debian_root make "${root%:*}_user" "${root#*:}" "${of_user[@]}"
  done
  scripts/debian_root make lmod bookworm base-files bash coreutils dash grep lmod procps python3 sed  # not beside environment-modules
  scripts/debian_root make images sid "${of_images[@]}"
}
