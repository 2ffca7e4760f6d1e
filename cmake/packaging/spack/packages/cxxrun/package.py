# Of the Git checkout that this file lies in. docs/use/install.md says what to type.
from pathlib import Path

from spack.package import *

try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass  # Spack before 1.0: the line above has brought it


class Cxxrun(CMakePackage):
    """Starts distributed training on a Slurm cluster and keeps it running: one program per node that takes torchrun's
    command line, and a runtime for C++ and PyTorch workers."""

    git = Path(__file__).resolve().parents[5].as_uri()

    license("Apache-2.0")
    version("main", branch="main")

    variant("cuda", default=False, description="Build the plugin that averages gradients on GPUs with NCCL")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    # Compiled in. Where headers lie the compiler learns from what is linked alone.
    for each in ("boost@1.81:+filesystem+system~shared cxxstd=17", "nlohmann-json@3.11:", "cli11@2:", "spdlog@1.10:", "fmt@9:",
                 "libsodium@1.0.18:"):
        depends_on(each, type=("build", "link"))
    # Both are loaded by the program, where they are needed: "link" puts them into its rpath.
    depends_on("hwloc@2:", type=("build", "link", "run"))
    depends_on("munge", type=("build", "link", "run"))
    depends_on("cuda@11.4:", when="+cuda")
    depends_on("nccl@2.19:", when="+cuda")

    generator("ninja")

    def cmake_args(self):
        return [self.define("CXXRUN_TESTS", False), self.define_from_variant("CXXRUN_WITH_CUDA", "cuda")]

    def setup_run_environment(self, env):
        env.prepend_path("PYTHONPATH", join_path(self.prefix.lib, "python3", "dist-packages"))

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def run_a_job(self):
        cxxrun = Executable(join_path(self.prefix.bin, "cxxrun"))
        cxxrun("--standalone", "--nproc-per-node=2", "--no-python", "/bin/sh", "-c", "echo rank $RANK of $WORLD_SIZE")
