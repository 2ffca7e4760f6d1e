# Made by scripts/generate from the tables of options. Completion for bash of cxxrun, cxxrun-rendezvous, cxxrun-store, cxxrunctl.
# After cxxrun's program, files and the program's own arguments.
_cxxrun() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} program=${COMP_WORDS[0]##*/} word i flags valued
  case $program in
    cxxrun-rendezvous)
      flags="--loopback --background --version -h --help"
      valued="--port --port-range --rdzv-id --auth --log-dir --log-level" ;;
    cxxrun-store)
      flags="--loopback --version -h --help"
      valued="--port --store-access" ;;
    cxxrunctl)
      flags="--json --check -v --verbose -f --follow --native -y --yes --version -h --help"
      valued="-n --lines --port --token-file" ;;
    *)
      flags="--standalone --requeue -m --module --no-python --run-path --virtual-local-rank --warm --dry-run --doctor --init
      --json --version -h --help"
      valued="--nnodes --nproc-per-node --rdzv-endpoint --rdzv-id --join --rdzv-backend --rdzv-conf --node-rank --master-addr
      --master-port --local-addr --auth --cpu-bind --numa-binding --max-restarts --restart-window --restart-delay
      --shutdown-timeout --signals-to-handle --restart-timeout --kill-timeout --health-check --health-check-timeout
      --hang-timeout --checkpoint-signal --time-limit --max-requeues --progress-path --role --agent-store
      --store-access --stdin --slurm-env --heartbeat-timeout --quorum --fence --scale-out --join-window --log-dir
      --log-rotate -r --redirects -t --tee --local-ranks-filter --ranks --fold-lines --log-line-prefix-template
      --duplicate-stdout-filters --duplicate-stderr-filters --log-level --watch --monitor-interval --start-method
      --event-log-handler --logs-specs --print-completion" ;;
  esac
  valued=" ${valued//$'\n'/ } "
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]//_/-}
    case $word in
      --) compopt -o default; return ;;
      -*) case $valued in
            # With the default COMP_WORDBREAKS, NAME=VALUE is three words.
            *" $word "*) if [[ ${COMP_WORDS[i+1]} == "=" ]]; then ((i += 2)); else ((i++)); fi ;;
          esac ;;
      *) compopt -o default; return ;;
    esac
  done
  [[ $cur == "=" ]] && cur=""
  [[ $prev == "=" ]] && prev=${COMP_WORDS[COMP_CWORD-2]}
  case ${prev//_/-} in
    --nproc-per-node) COMPREPLY=($(compgen -W "auto gpu xpu cpu" -- "$cur")) ;;
    --rdzv-endpoint | --master-addr | --local-addr) COMPREPLY=($(compgen -A hostname -- "$cur")) ;;
    --rdzv-backend) COMPREPLY=($(compgen -W "static c10d" -- "$cur")) ;;
    --auth) COMPREPLY=($(compgen -W "auto munge file none" -- "$cur")) ;;
    --cpu-bind) COMPREPLY=($(compgen -W "share none" -- "$cur")) ;;
    --numa-binding) COMPREPLY=($(compgen -W "node socket exclusive core-complex" -- "$cur")) ;;
    --progress-path | --token-file) COMPREPLY=($(compgen -f -- "$cur")) ;;
    --agent-store) COMPREPLY=($(compgen -W "on off" -- "$cur")) ;;
    --store-access) COMPREPLY=($(compgen -W "user hosts any" -- "$cur")) ;;
    --stdin) COMPREPLY=($(compgen -W "null rank0" -- "$cur")) ;;
    --slurm-env) COMPREPLY=($(compgen -W "per-worker all keep clear" -- "$cur")) ;;
    --quorum) COMPREPLY=($(compgen -W "majority none" -- "$cur")) ;;
    --fence | --log-dir) COMPREPLY=($(compgen -d -- "$cur")) ;;
    --scale-out) COMPREPLY=($(compgen -W "now at-restart" -- "$cur")) ;;
    -r | --redirects | -t | --tee) COMPREPLY=($(compgen -W "0 1 2 3" -- "$cur")) ;;
    --fold-lines | --watch) COMPREPLY=($(compgen -W "auto off" -- "$cur")) ;;
    --log-level) COMPREPLY=($(compgen -W "debug info warn error" -- "$cur")) ;;
    --start-method) COMPREPLY=($(compgen -W "spawn fork forkserver" -- "$cur")) ;;
    --event-log-handler) COMPREPLY=($(compgen -W "null console" -- "$cur")) ;;
    --print-completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$cur")) ;;
    --store-access) COMPREPLY=($(compgen -W "user any" -- "$cur")) ;;
    *)
      case $valued in *" ${prev//_/-} "*) return ;; esac
      if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$flags $valued" -- "$cur"))
      elif [[ $program == cxxrun ]]; then
        compopt -o default
        COMPREPLY=($(compgen -A command -A file -- "$cur"))
      fi ;;
  esac
}
complete -F _cxxrun cxxrun cxxrun-rendezvous cxxrun-store cxxrunctl
