# shellcheck shell=bash
# Jobs in roots of other releases (scripts/debian_root). For scripts/release.
roots=(deb11:bullseye deb12:bookworm deb13:trixie sid:sid)

run_in_roots() {  # DIR
  local root port=29710 dir
  dir=$(mktemp -d)  # /tmp is the machine's in every root
  cp -P "$1"/cxxrun* "$dir"
  cat >"$dir/job" <<'JOB'
cd "$1"
[ "$(./cxxrun-rendezvous --version | cut -d' ' -f1)" = cxxrun-rendezvous ] || exit 1
for node in 0 1; do
  ./cxxrun --nnodes 2 --node-rank $node --rdzv-endpoint "localhost:$2" --nproc-per-node 2 --no-python \
    /bin/sh -c 'echo "rank $RANK of $WORLD_SIZE"' >"out.$node" 2>&1 &
  eval "pid$node=\$!"
done
wait $pid0 && wait $pid1 && [ "$(cat out.* | grep -c 'rank [0-3] of 4')" = 4 ] || { cat out.*; exit 1; }
JOB
  for root in "${roots[@]}"; do
    port=$((port + 1))
    if [ ! -e "$(scripts/debian_root path "${root%:*}")/made" ]; then
      echo "not tested: ${root%:*} (scripts/debian_root make ${root/:/ } fetches it)"
    elif scripts/debian_root run "${root%:*}" sh "$dir/job" "$dir" "$port"; then
      echo "${root%:*}: a job of two nodes runs"
    else
      fail "${root%:*}: no job runs"
    fi
  done
  rm -rf "$dir"
}
