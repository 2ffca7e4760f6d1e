#!/usr/bin/env bash
# Whether zsh reads its completion, and what fish offers in place of the last word. Where there is no terminal zsh can offer
# nothing. Usage: completion_shells_test.sh SOURCE_DIR zsh|fish
cd "$1/scripts/completion" || exit 1
command -v "$2" >/dev/null || { echo "skipped: $2 is not installed"; exit 77; }
if [[ $2 == zsh ]]; then
  exec zsh -n _cxxrun
fi
failed=0

expect() {  # expect "OFFERS" LINE
  local got
  got=$(fish --no-config -c "source cxxrun.fish; complete -C '$2'" 2>&1 | cut -f1 | sort | xargs)
  [[ $got == "$1" ]] || { echo "$2: offered '$got', want '$1'"; failed=1; }
}

expect "--nnodes --no-python --node-rank --nproc-per-node --numa-binding" "cxxrun --n"
expect "auto cpu gpu xpu" "cxxrun --nproc-per-node "
expect "majority" "cxxrun --nnodes 2 --quorum m"
expect "" "cxxrun ./train --n"
expect "" "cxxrun --nproc_per_node 2 ./train --n"
expect "" "cxxrun -- --n"
expect "debug error info warn" "cxxrun-rendezvous --log-level "
expect "--help --loopback --port --store-access --version" "cxxrun-store --"
exit $failed
