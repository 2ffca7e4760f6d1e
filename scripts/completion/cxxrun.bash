# Completion of cxxrun's options for bash; after the program, files and the program's own arguments.
_cxxrun() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} word i
  local flags="--standalone --requeue --module --no-python --dry-run --version --help"
  local valued="--nnodes --nproc-per-node --rdzv-endpoint --rdzv-id --join --rdzv-backend --rdzv-conf --node-rank
    --master-addr --master-port --local-addr --cpu-bind --numa-binding --max-restarts --shutdown-timeout --restart-timeout
    --kill-timeout --restart-window --heartbeat-timeout --quorum --fence --scale-out --join-window --health-check --health-check-timeout --hang-timeout
    --checkpoint-signal
    --time-limit --max-requeues --progress-path --role --agent-store
    --stdin --slurm-env --log-dir --redirects --tee --local-ranks-filter --log-level --monitor-interval --start-method"
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]//_/-}
    case $word in
      -r | -t) ((i++)) ;;
      --) compopt -o default; return ;;
      -*) case " ${valued//$'\n'/ } " in
            # With the default COMP_WORDBREAKS, NAME=VALUE is three words.
            *" $word "*) if [[ ${COMP_WORDS[i+1]} == "=" ]]; then ((i += 2)); else ((i++)); fi ;;
          esac ;;
      *) compopt -o default; return ;;
    esac
  done
  [[ $cur == "=" ]] && cur=""
  [[ $prev == "=" ]] && prev=${COMP_WORDS[COMP_CWORD-2]}
  case ${prev//_/-} in
    --nproc-per-node) COMPREPLY=($(compgen -W "auto gpu cpu" -- "$cur")) ;;
    --rdzv-backend) COMPREPLY=($(compgen -W "static c10d" -- "$cur")) ;;
    --agent-store) COMPREPLY=($(compgen -W "on off" -- "$cur")) ;;
    --quorum) COMPREPLY=($(compgen -W "majority none" -- "$cur")) ;;
    --scale-out) COMPREPLY=($(compgen -W "now at-restart" -- "$cur")) ;;
    --cpu-bind) COMPREPLY=($(compgen -W "share none" -- "$cur")) ;;
    --numa-binding) COMPREPLY=($(compgen -W "node socket exclusive core-complex" -- "$cur")) ;;
    --stdin) COMPREPLY=($(compgen -W "null rank0" -- "$cur")) ;;
    --slurm-env) COMPREPLY=($(compgen -W "per-worker keep clear" -- "$cur")) ;;
    --log-level) COMPREPLY=($(compgen -W "debug info warn error" -- "$cur")) ;;
    --start-method) COMPREPLY=($(compgen -W "spawn fork forkserver" -- "$cur")) ;;
    --redirects | --tee | -r | -t) COMPREPLY=($(compgen -W "0 1 2 3" -- "$cur")) ;;
    --rdzv-endpoint | --master-addr | --local-addr) COMPREPLY=($(compgen -A hostname -- "$cur")) ;;
    --log-dir | --fence) COMPREPLY=($(compgen -d -- "$cur")) ;;
    *)
      case " ${valued//$'\n'/ } " in *" ${prev//_/-} "*) return ;; esac
      if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$flags $valued -r -t -m -h" -- "$cur"))
      else
        compopt -o default
        COMPREPLY=($(compgen -A command -A file -- "$cur"))
      fi ;;
  esac
}
complete -F _cxxrun cxxrun
