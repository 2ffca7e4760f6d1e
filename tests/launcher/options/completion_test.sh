#!/usr/bin/env bash
# What the completion offers in place of the last word. Usage: completion_test.sh SOURCE_DIR
source "$1/scripts/completion/cxxrun.bash"
compopt() { :; }  # the real one works only while bash completes
failed=0
program=cxxrun

expect() {  # expect "OFFERS" WORD...: the offers, sorted
  local want=$1 got
  shift
  COMP_WORDS=($program "$@") COMP_CWORD=$#
  _cxxrun
  got=$(printf '%s\n' "${COMPREPLY[@]}" | sort -u | xargs)
  [[ $got == "$want" ]] || { echo "$program $*: offered '$got', want '$want'"; failed=1; }
}

expect "--nnodes --no-python --node-rank --nproc-per-node --numa-binding" --n
expect "auto" --nproc-per-node a
expect "auto" --nproc_per_node a
expect "auto" --nproc-per-node = a
expect "static" --nnodes 2 --rdzv-backend s
expect "" --rdzv-id --n
expect "" ./train --n
expect "" --nnodes 2 ./train --n
expect "" --nnodes = 2 ./train --n
expect "" -- --n
expect "--tee" -r 3 --te
program=/usr/bin/cxxrun-rendezvous
expect "--port --port-range" --port
expect "warn" --log_level w
expect "" --port 1
expect "" 1
program=cxxrun-store
expect "--help --loopback --port --store-access --version" --
exit $failed
