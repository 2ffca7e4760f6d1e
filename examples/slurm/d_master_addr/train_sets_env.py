"""Works out by itself where to meet, and writes it into its own environment: no launcher is asked."""
import os
import subprocess

import torch.distributed as dist

from train import train


def first_host():
    listing = subprocess.run(["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]],
                             capture_output=True, text=True, check=True)
    return listing.stdout.split()[0]


def main():
    os.environ["MASTER_ADDR"] = first_host()
    os.environ["MASTER_PORT"] = "23456"
    os.environ["WORLD_SIZE"] = str(2 * int(os.environ["SLURM_JOB_NUM_NODES"]))
    dist.init_process_group("gloo")
    train(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
