#!/bin/bash
# in_container.sh [apptainer's options] IMAGE COMMAND…: like `apptainer exec --cleanenv`, but with the variables that
# cxxrun sets for its workers, which --cleanenv would drop.
for name in $(compgen -e); do
    case $name in
        RANK | LOCAL_RANK | GROUP_RANK | ROLE_* | WORLD_SIZE | LOCAL_WORLD_SIZE | GROUP_WORLD_SIZE | MASTER_ADDR | \
            MASTER_PORT | OMP_NUM_THREADS | CUDA_VISIBLE_DEVICES | CXXRUN_* | TORCHELASTIC_* | TORCH_NCCL_*)
            export "APPTAINERENV_$name=${!name}" ;;
    esac
done
exec apptainer exec --cleanenv "$@"
