#include "launcher/options/foreign_options.hpp"

namespace cxxrun::launcher {

std::vector<ForeignOption> foreign_options() {
  constexpr char const* kPerNode = "--nproc-per-node N, the workers of one node";
  constexpr char const* kNodes = "--nnodes N";
  constexpr char const* kMeet = "start cxxrun on every node, by srun or with --rdzv-endpoint HOST:PORT";
  constexpr char const* kInherited = "drop it: workers inherit the environment of cxxrun";
  return {
      {"-np -n -ppn --ppn --npernode --map-by", "mpirun", kPerNode},
      {"-H --host --hosts -f --hostfile --machinefile", "mpirun", kMeet},
      {"--bind-to --report-bindings", "mpirun", "--cpu-bind share, or --numa-binding"},
      {"-x -env -genv --env", "mpirun", kInherited},
      {"--oversubscribe --allow-run-as-root", "mpirun", "drop it: nothing forbids that"},
      {"--num-proc", "horovodrun", kPerNode},
      {"--ntasks --ntasks-per-node", "srun", "--nproc-per-node N, or srun --ntasks-per-node N cxxrun program"},
      {"-N --nodes", "srun", "--nnodes N, or srun --nodes N cxxrun program"},
      {"-c --cpus-per-task", "srun", "srun --cpus-per-task N cxxrun program"},
      {"--gpus-per-node --gpus-per-task --gres", "srun", "srun --gpus-per-node N cxxrun program"},
      {"--num-processes", "accelerate launch",
       "--nproc-per-node N, the workers of one node; accelerate counts those of all"},
      {"--num-machines", "accelerate launch", kNodes},
      {"--machine-rank", "accelerate launch", "--node-rank N"},
      {"--main-process-ip", "accelerate launch", "--master-addr HOST"},
      {"--main-process-port", "accelerate launch", "--master-port PORT"},
      {"--gpu-ids", "accelerate launch", "CUDA_VISIBLE_DEVICES=0,1 cxxrun program"},
      {"--multi-gpu --cpu", "accelerate launch", "drop it: the program chooses its device"},
      {"--config-file", "accelerate launch", "options, or PET_* variables; there is no file of them"},
      {"--num-gpus", "deepspeed", kPerNode},
      {"--num-nodes", "deepspeed", kNodes},
      {"--include --exclude", "deepspeed", "CUDA_VISIBLE_DEVICES chooses GPUs, srun --nodelist nodes"},
      {"--gpus --devices", "Lightning", kPerNode},
      {"--nprocs", "torch.multiprocessing.spawn", kPerNode},
      {"--use-env", "torch.distributed.launch", "drop it: LOCAL_RANK is in the environment"},
      {"--rank", "scripts that start themselves", "--node-rank N; each worker finds its RANK in the environment"},
      {"--world-size", "scripts that start themselves",
       "--nnodes N and --nproc-per-node N; WORLD_SIZE is their product"},
      {"--dist-url --init-method", "scripts that start themselves", "--rdzv-endpoint HOST:PORT"},
      {"--trace", "an older cxxrun", "--log-dir DIR, and after the job python -m cxxrun.trace DIR/*/events.jsonl"},
      {"--exit-barrier-timeout", "a newer torchrun", "drop it: nodes end together without a barrier"},
  };
}

}  // namespace cxxrun::launcher
