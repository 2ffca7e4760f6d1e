# Made by scripts/generate from the tables of options. Completion for fish of cxxrun, cxxrun-rendezvous, cxxrun-store, cxxrunctl.
# Prints cxxrun's program and its arguments; fails before there is one.
function __cxxrun_program
    set -l valued --nnodes --nproc-per-node --rdzv-endpoint --rdzv-id --join --rdzv-backend --rdzv-conf --node-rank \
        --master-addr --master-port --local-addr --auth --cpu-bind --numa-binding --max-restarts --restart-window \
        --restart-delay --shutdown-timeout --signals-to-handle --restart-timeout --kill-timeout --health-check \
        --health-check-timeout --hang-timeout --checkpoint-signal --time-limit --max-requeues --progress-path --role \
        --agent-store --store-access --stdin --slurm-env --heartbeat-timeout --quorum --fence --scale-out \
        --join-window --log-dir --log-rotate -r --redirects -t --tee --local-ranks-filter --ranks --fold-lines \
        --log-line-prefix-template --duplicate-stdout-filters --duplicate-stderr-filters --log-level --watch \
        --monitor-interval --start-method --event-log-handler --logs-specs --print-completion
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case --
                set -e words[1]
                break
            case '-*'
                contains -- (string replace -a _ - -- $words[1]) $valued; and set -e words[1]
                set -e words[1]
            case '*'
                break
        end
    end
    set -q words[1]; and printf '%s\n' $words
end
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -a '(__fish_complete_command)'
complete -c cxxrun -n __cxxrun_program -x -a '(__fish_complete_subcommand --commandline (__cxxrun_program) (commandline -ct))'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l nnodes -x -d 'nodes of the job [the nodes of the Slurm step, else 1]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l nproc-per-node -x -a 'auto gpu xpu cpu' -d 'workers per node [visible GPUs, else 1]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l standalone -d 'one node, any free port, reachable from this host only'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l rdzv-endpoint -x -a '(__fish_print_hostnames)' -d 'where agents meet; the same on all nodes [port 29400]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l rdzv-id -x -d 'name of the job, the same on all nodes [Slurm\'s, else none]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l join -x -d 'enter that running job as one more node'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l rdzv-backend -x -a 'static c10d' -d 'accepted; both mean cxxrun\'s own rendezvous'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l rdzv-conf -x -d 'join_timeout, last_call_timeout, is_host; others have no effect'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l node-rank -x -d 'position of this node; node 0 hosts the rendezvous'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l master-addr -x -a '(__fish_print_hostnames)' -d 'MASTER_ADDR; without --rdzv-endpoint also where agents meet'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l master-port -x -d 'MASTER_PORT, exactly [0: any free port]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l local-addr -x -a '(__fish_print_hostnames)' -d 'address of this node as the others reach it'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l auth -x -a 'auto munge file none' -d 'how agents prove that they belong to the job [auto]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l cpu-bind -x -a 'share none' -d 'divide the node\'s CPUs among its workers [share under Slurm]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l numa-binding -x -a 'node socket exclusive core-complex' -d 'bind each worker to CPUs near its GPU'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l max-restarts -x -d 'restarts of the whole job after worker failures [3]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l restart-window -x -d 'count restarts within it only [0: the whole job]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l restart-delay -x -d 'longest wait before a restart, after failures in a row [30]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l shutdown-timeout -x -d 'from SIGTERM to SIGKILL when the job is stopped [30]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l signals-to-handle -x -d 'stop the job, besides SIGTERM, SIGINT, SIGHUP and SIGQUIT'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l restart-timeout -x -d 'from SIGTERM to SIGKILL for the survivors of a failure [5]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l kill-timeout -x -d 'after SIGKILL, until a process counts as unkillable [60]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l health-check -x -d 'run on each node before a generation; failing excludes the node'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l health-check-timeout -x -d 'a check that runs longer has failed [60]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l hang-timeout -x -d 'kill a worker that others wait for in a collective [0: never]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l checkpoint-signal -x -d 'sent to workers that long before the job\'s end'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l time-limit -x -d 'as for sbatch: ends the job, unless Slurm does so earlier'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l requeue -d 'requeue the Slurm job unless its own program ended it'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l max-requeues -x -d 'requeues in a row without progress [3]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l progress-path -r -F -d 'changes when the job makes progress, such as its checkpoints'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l role -x -d 'ROLE_NAME of this node\'s workers [default]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l agent-store -x -a 'on off' -d 'off leaves MASTER_PORT free for rank 0 to bind [on]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l store-access -x -a 'user hosts any' -d 'who may use the store: the job\'s user, its nodes, all [user]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l stdin -x -a 'null rank0' -d 'rank0 gives cxxrun\'s standard input to rank 0 [null]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l slurm-env -x -a 'per-worker all keep clear' -d 'SLURM_* of the workers [per-worker]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l heartbeat-timeout -x -d 'until a silent node counts as lost; 0: never [5]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l quorum -x -a 'majority none' -d 'none: no vote; after a cut both sides may run [majority]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l fence -x -a '(__fish_complete_directories)' -d 'shared directory; of two halves the first to claim it continues'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l scale-out -x -a 'now at-restart' -d 'when late nodes are let in [now]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l join-window -x -d 'wait for MAX once MIN are there [5; first under Slurm 60]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l log-dir -x -a '(__fish_complete_directories)' -d 'directory of the workers\' files; /dev/null: no files [temporary]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l log-rotate -x -d 'start a new file at SIZE (100M), keep COUNT full ones [never]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -s r -l redirects -x -a '0 1 2 3' -d 'to files only: 0 none, 1 stdout, 2 stderr, 3 both, or RANK:N,...'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -s t -l tee -x -a '0 1 2 3' -d 'to files and to the console'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l local-ranks-filter -x -d 'local ranks shown on the console, for example 0,3 [all]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l ranks -x -d 'ranks of the job shown on the console, for example 0,8-15 [all]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l fold-lines -x -a 'auto off' -d 'show equal lines of 8 or more workers of a node once [auto]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l log-line-prefix-template -x -d 'may contain ${role_name}, ${local_rank}, ${rank}, ${hostname}'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l duplicate-stdout-filters -x -d 'lines with such a word also go to filtered_stdout.log'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l duplicate-stderr-filters -x -d 'the same for stderr'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l log-level -x -a 'debug info warn error' -d 'lowest level of cxxrun\'s own lines [info]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -s m -l module -d 'program is a Python module (python3 -u -m program)'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l no-python -d 'execute program directly even if its name ends in .py'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l run-path -d 'program is a Python script, whatever its name'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l virtual-local-rank -d 'each worker sees its own GPU alone, and LOCAL_RANK is 0'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l watch -x -a 'auto off' -d 'auto: see hangs of PyTorch without changes to the program [auto]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l warm -d 'fork workers from a Python with these; auto: learn them [torch]'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l monitor-interval -x -d 'accepted without effect: nothing is polled'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l start-method -x -a 'spawn fork forkserver' -d 'accepted without effect: every worker is a new process'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l event-log-handler -x -a 'null console' -d 'accepted without effect: cxxrun\'s lines go to stderr'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l logs-specs -x -d 'accepted without effect: the layout of --log-dir is fixed'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l print-completion -x -a 'bash zsh fish' -d 'print the completion of that shell, and end'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l dry-run -d 'show what would be started, and end'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l doctor -d 'check for what keeps jobs from running here, and end'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l init -d 'print a job script for this cluster, and end'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l json -d 'with --doctor: print an object instead of a table'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -l version -d 'show the version, and end'
complete -c cxxrun -n 'not __cxxrun_program >/dev/null' -s h -l help -d 'show this text, and end'
complete -c cxxrun-rendezvous -f
complete -c cxxrun-rendezvous -l port -x -d 'where to listen; 0: any [by the Slurm job\'s number, else 29400]'
complete -c cxxrun-rendezvous -l port-range -x -d 'use only these ports, also for the stores'
complete -c cxxrun-rendezvous -l rdzv-id -x -d 'serve runs of this id alone'
complete -c cxxrun-rendezvous -l loopback -d 'listen on the loopback only (127.0.0.1 and ::1)'
complete -c cxxrun-rendezvous -l auth -x -a 'auto munge file none' -d 'how agents prove that they belong to the job [auto]'
complete -c cxxrun-rendezvous -l background -d 'return once it listens and the steps can find it'
complete -c cxxrun-rendezvous -l log-dir -x -a '(__fish_complete_directories)' -d 'keep events.jsonl and verdict.json of each run there [no files]'
complete -c cxxrun-rendezvous -l log-level -x -a 'debug info warn error' -d 'lowest level of its own lines [info]'
complete -c cxxrun-rendezvous -l version -d 'show the version, and end'
complete -c cxxrun-rendezvous -s h -l help -d 'show this text, and end'
complete -c cxxrun-store -f
complete -c cxxrun-store -l port -x -d 'where to listen; 0 lets the kernel choose and prints the port on stdout'
complete -c cxxrun-store -l loopback -d 'listen on 127.0.0.1 and ::1 only, instead of every address'
complete -c cxxrun-store -l store-access -x -a 'user any' -d 'user: only what the same user connects on this host [any]'
complete -c cxxrun-store -l version -d 'show the version, and end'
complete -c cxxrun-store -s h -l help -d 'show this text, and end'
complete -c cxxrunctl -f
complete -c cxxrunctl -l json -d 'for programs: one line for each job'
complete -c cxxrunctl -l check -d 'print nothing, and exit with 1 unless the job gets on'
complete -c cxxrunctl -s v -l verbose -d 'all nodes, frames and ranks, however many lines that takes'
complete -c cxxrunctl -s f -l follow -d 'of events and logs: go on with what comes next'
complete -c cxxrunctl -l native -d 'of stacks: by gdb; each worker stands still for it'
complete -c cxxrunctl -s y -l yes -d 'of checkpoint, restart, drain and stop: do not ask'
complete -c cxxrunctl -s n -l lines -x -d 'of logs: at most so many lines of each file [20]'
complete -c cxxrunctl -l port -x -d 'of page: the port on 127.0.0.1 [any]'
complete -c cxxrunctl -l token-file -r -F -d 'of page: write its token there, for this user alone'
complete -c cxxrunctl -l version -d 'show the version, and end'
complete -c cxxrunctl -s h -l help -d 'show this text, and end'
