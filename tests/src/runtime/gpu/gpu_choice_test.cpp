// Which GPU a rank uses: every outcome of the search.
#include <cstring>
#include <utility>
#include <vector>

#include "src/runtime/gpu/choice.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;       // NOLINT(google-build-using-namespace)
using namespace cxxrun::gpu;  // NOLINT(google-build-using-namespace)

namespace {

/// A healthy node with eight GPUs.
Findings node() {
  Findings found;
  found.local_rank = 3;
  found.local_ranks = 8;
  found.facts.cuda_runtime = 13000;
  found.facts.cuda_driver = 13010;
  found.facts.nccl = 22809;
  found.facts.devices = 8;
  found.facts.driver_found = 1;
  return found;
}

Findings broken(int error, char const* text) {
  Findings found = node();
  found.facts.devices = 0;
  found.facts.count_error = error;
  std::strncpy(found.facts.count_text, text, sizeof found.facts.count_text - 1);
  return found;
}

std::string outcome(Findings const& found) {
  auto const choice = choose(found);
  if (!choice) {
    CHECK(choice.error().code == Errc::environment);
    CHECK(choice.error().context.find('\n') == std::string::npos);
    CHECK(choice.error().context.find("CXXRUN_BACKEND=host") != std::string::npos);
    return choice.error().context;
  }
  return "GPU " + std::to_string(*choice);
}

bool refuses(std::string const& outcome, std::string const& part) {
  return outcome.rfind("GPU ", 0) != 0 && outcome.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("choice: on a node with enough GPUs a rank has that of its local rank") {
  CHECK(outcome(node()) == "GPU 3");
}

TEST_CASE("choice: where there is no GPU a rank that asks for one is told why") {
  for (int const code : {34, 35, 100}) {
    Findings none = broken(code, "no");
    none.facts.cuda_driver = none.facts.driver_found = 0;
    CHECK(refuses(outcome(none), "NCCL was asked for, but "));
  }
  Findings empty = node();
  empty.facts.devices = 0;
  CHECK(refuses(outcome(empty), "CUDA finds no GPU; look at CUDA_VISIBLE_DEVICES"));
  CHECK(refuses(outcome(broken(34, "")), "the stub of the CUDA toolkit; take its folder off"));
}

TEST_CASE("choice: a GPU that cannot be used is refused with CUDA's words and a remedy") {
  struct Case {
    int code;
    char const* remedy;
  };
  for (auto const& [code, remedy] : std::vector<Case>{{3, "see nvidia-smi and dmesg"},
                                                      {46, "exclusive mode"},
                                                      {802, "nvidia-fabricmanager"},
                                                      {803, "reboot the node"},
                                                      {804, "cuda-compat"},
                                                      {999, "see nvidia-smi"}}) {
    auto const said = outcome(broken(code, "in CUDA's words"));
    INFO(said);
    CHECK(refuses(said, "CUDA cannot use this node's GPUs: in CUDA's words (error " + std::to_string(code) + "); "));
    CHECK(refuses(said, remedy));
  }
  Findings old = broken(35, "insufficient");
  old.facts.cuda_driver = 12020;
  CHECK(refuses(outcome(old), "the driver is for CUDA 12.2 and too old for the runtime 13.0: update"));
  old.facts.cuda_driver = 0;  // the library is there and does not say its version
  CHECK(refuses(outcome(old), "too old"));
}

TEST_CASE("choice: a plugin that cannot be loaded is a refusal") {
  Findings found = node();
  found.unusable = "libcxxrun_cuda.so is not there";
  CHECK(refuses(outcome(found), "libcxxrun_cuda.so is not there, or set"));
}

TEST_CASE("choice: an old NCCL, and fewer GPUs than ranks, are refused") {
  Findings found = node();
  found.facts.nccl = 21805;
  CHECK(refuses(outcome(found), "NCCL 2.18.5 was loaded"));
  found.facts.nccl = kOldestNccl;
  CHECK(outcome(found) == "GPU 3");
  found.facts.devices = 1;
  CHECK(refuses(outcome(found), "there are 8 ranks on this node and 1 GPU that they see"));
  found.facts.devices = 2;
  CHECK(refuses(outcome(found), "2 GPUs"));
  found.shared = true;
  CHECK(outcome(found) == "GPU 1");
}

TEST_CASE("choice: a rank with a device of its own takes it, whatever its local rank is") {
  for (int const local_rank : {0, 3}) {
    Findings found = node();
    found.facts.devices = 1;
    found.local_rank = local_rank;
    CHECK(refuses(outcome(found), "there are 8 ranks on this node and 1 GPU that they see"));
    found.own_device = true;
    CHECK(outcome(found) == "GPU 0");
  }
}

TEST_CASE("choice: backends by name") {
  CHECK(backend_named("auto") == Backend::automatic);
  CHECK(backend_named("nccl") == Backend::nccl);
  CHECK(backend_named("host") == Backend::host);
  CHECK_FALSE(backend_named("gloo"));
}

TEST_CASE("choice: the loader's words get the package that is missing") {
  std::string const tail = ": cannot open shared object file: No such file or directory";
  CHECK(with_remedy("libnccl.so.2" + tail).find("package libnccl2") != std::string::npos);
  CHECK(with_remedy("libcudart.so.13" + tail).find("package cuda-cudart") != std::string::npos);
  CHECK(with_remedy("libnccl.so.2: undefined symbol: x") == "libnccl.so.2: undefined symbol: x");
}

TEST_CASE("choice: the CUDA that a process has loaded is named where the plugin wants another one") {
  std::string const words = "libcudart.so.13: cannot open shared object file: No such file or directory";
  for (auto const& [path, release] :
       std::vector<std::pair<std::string, std::string>>{{"/torch/libcudart.so.12", "12"},
                                                        {"libcudart-d0da41ae.so.11.0", "11"},
                                                        {"/usr/libcudart.so.12.4.127", "12"}}) {
    auto const said = with_remedy(words, {"", "/lib/libc.so.6", path});
    INFO(said);
    CHECK(said.find("; this process has that of CUDA " + release + " (" + path + ")") != std::string::npos);
  }
}

TEST_CASE("choice: two CUDA runtimes in one process are refused, and two files of one are not") {
  CHECK_FALSE(clash({}));
  CHECK_FALSE(clash({"/a/libcudart.so.13", "/b/libcudart.so.13.0.96", "/lib/libcuda.so.1", "libcudart_static.a"}));
  auto const why = clash({"/a/libcudart.so.13", "/torch/libcudart.so.12"});
  REQUIRE(why);
  CHECK(why->find("two CUDA runtimes, /torch/libcudart.so.12 and /a/libcudart.so.13: ") != std::string::npos);
}

TEST_CASE("choice: an error of the plugin's keeps its words") {
  cxxrun_cuda_status status{CXXRUN_CUDA_NCCL, 1, "ncclAllReduce: unhandled cuda error"};
  CHECK(error_of(status, "all_reduce").context ==
        "all_reduce: ncclAllReduce: unhandled cuda error; NCCL_DEBUG=INFO says more");
  status = {CXXRUN_CUDA_CUDA, 719, "first kernel: unspecified launch failure"};
  CHECK(error_of(status, "GPU 3 cannot be used").context.find("; nvidia-smi shows") != std::string::npos);
}
