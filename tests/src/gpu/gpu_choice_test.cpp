// Which backend a rank uses: every outcome of looking for a GPU.
#include <cstring>
#include <vector>

#include "src/gpu/choice.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;       // NOLINT(google-build-using-namespace)
using namespace cxxrun::gpu;  // NOLINT(google-build-using-namespace)

namespace {

/// A healthy node with eight GPUs.
Findings node() {
  Findings found;
  found.local_rank = 3;
  found.local_ranks = 8;
  found.signs = {.device = true, .driver = true};
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

std::string outcome(Findings found, Backend asked) {
  found.asked = asked;
  auto const choice = choose(found);
  if (!choice) {
    CHECK(choice.error().code == Errc::environment);
    CHECK(choice.error().context.find('\n') == std::string::npos);
    CHECK(choice.error().context.find("CXXRUN_BACKEND=host") != std::string::npos);
    return choice.error().context;
  }
  return choice->backend == Backend::host ? "host" : "nccl " + std::to_string(choice->device);
}

bool refuses(std::string const& outcome, std::string const& part) {
  return outcome != "host" && outcome.rfind("nccl ", 0) != 0 && outcome.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("choice: a node with enough GPUs uses NCCL, on the device of the local rank, unless host is asked for") {
  CHECK(outcome(node(), Backend::automatic) == "nccl 3");
  CHECK(outcome(node(), Backend::nccl) == "nccl 3");
  CHECK(outcome(node(), Backend::host) == "host");
}

TEST_CASE("choice: without a sign of a GPU nothing is loaded, and NCCL only if it is asked for") {
  CHECK_FALSE(worth_loading(Backend::automatic, {}));
  CHECK_FALSE(worth_loading(Backend::host, {.device = true, .driver = true, .named = true}));
  CHECK(worth_loading(Backend::automatic, {.device = true}));
  CHECK(worth_loading(Backend::automatic, {.driver = true}));
  CHECK(worth_loading(Backend::automatic, {.named = true}));
  CHECK(worth_loading(Backend::nccl, {}));
  Findings found = node();
  found.signs = {};
  CHECK(outcome(found, Backend::automatic) == "host");
}

TEST_CASE("choice: automatic takes the host backend where there is no GPU, and only there") {
  for (int const code : {34, 35, 100}) {
    Findings none = broken(code, "no");
    none.facts.cuda_driver = none.facts.driver_found = 0;
    CHECK(outcome(none, Backend::automatic) == "host");
    CHECK(refuses(outcome(none, Backend::nccl), "NCCL was asked for, but "));
  }
  Findings empty = node();
  empty.facts.devices = 0;
  CHECK(outcome(empty, Backend::automatic) == "host");
  CHECK(refuses(outcome(empty, Backend::nccl), "CUDA finds no GPU"));
  CHECK(refuses(outcome(broken(34, ""), Backend::nccl), "the stub of the CUDA toolkit; take its folder off"));
}

TEST_CASE("choice: a GPU that cannot be used is refused with CUDA's words and a remedy, whatever is asked for") {
  struct Case {
    int code;
    char const* remedy;
  };
  for (auto const backend : {Backend::automatic, Backend::nccl}) {
    for (auto const& [code, remedy] : std::vector<Case>{{3, "see nvidia-smi and dmesg"},
                                                        {46, "exclusive mode"},
                                                        {802, "nvidia-fabricmanager"},
                                                        {803, "reboot the node"},
                                                        {804, "cuda-compat"},
                                                        {999, "see nvidia-smi"}}) {
      auto const said = outcome(broken(code, "in CUDA's words"), backend);
      INFO(said);
      CHECK(refuses(said, "CUDA cannot use this node's GPUs: in CUDA's words (error " + std::to_string(code) + "); "));
      CHECK(refuses(said, remedy));
    }
    Findings old = broken(35, "insufficient");
    old.facts.cuda_driver = 12020;
    CHECK(refuses(outcome(old, backend), "the driver is for CUDA 12.2 and too old for the runtime 13.0: update"));
    old.facts.cuda_driver = 0;  // the library is there and does not say its version
    CHECK(refuses(outcome(old, backend), "too old"));
  }
}

TEST_CASE("choice: a plugin that cannot be loaded is a refusal where there is a GPU") {
  Findings found = node();
  found.unusable = "libcxxrun_cuda.so is not there";
  CHECK(refuses(outcome(found, Backend::automatic), "this node has a GPU, but libcxxrun_cuda.so is not there, or set"));
  CHECK(refuses(outcome(found, Backend::nccl), "libcxxrun_cuda.so is not there"));
  found.signs = {.driver = true};
  CHECK(outcome(found, Backend::automatic) == "host");
  found.signs = {.device = true};
  CHECK(outcome(found, Backend::automatic) == "host");
  found.signs = {.named = true};
  CHECK(refuses(outcome(found, Backend::automatic), "libcxxrun_cuda.so is not there"));
}

TEST_CASE("choice: an old NCCL, and fewer GPUs than ranks, are refused") {
  Findings found = node();
  found.facts.nccl = 21805;
  CHECK(refuses(outcome(found, Backend::automatic), "NCCL 2.18.5 was loaded"));
  found.facts.nccl = kOldestNccl;
  CHECK(outcome(found, Backend::automatic) == "nccl 3");
  found.facts.devices = 1;
  CHECK(refuses(outcome(found, Backend::automatic), "there are 8 ranks on this node and 1 GPU that they see"));
  found.own_device = true;
  CHECK(refuses(outcome(found, Backend::automatic), "there are 8 ranks on this node and 1 GPU that they see"));
  found.facts.devices = 2;
  CHECK(refuses(outcome(found, Backend::nccl), "2 GPUs"));
  found.shared = true;
  CHECK(outcome(found, Backend::automatic) == "nccl 1");
}

TEST_CASE("choice: every rank may be local rank 0 of a device of its own, as torchrun's --virtual-local-rank has it") {
  Findings found = node();
  found.facts.devices = 1;
  found.local_rank = 0;
  CHECK(refuses(outcome(found, Backend::automatic), "there are 8 ranks on this node and 1 GPU that they see"));
  found.own_device = true;
  CHECK(outcome(found, Backend::automatic) == "nccl 0");
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

TEST_CASE("choice: an error of the plugin's keeps its words") {
  cxxrun_cuda_status status{CXXRUN_CUDA_NCCL, 1, "ncclAllReduce: unhandled cuda error"};
  CHECK(error_of(status, "all_reduce").context ==
        "all_reduce: ncclAllReduce: unhandled cuda error; NCCL_DEBUG=INFO says more");
  status = {CXXRUN_CUDA_CUDA, 719, "first kernel: unspecified launch failure"};
  CHECK(error_of(status, "GPU 3 cannot be used").context.find("; nvidia-smi shows") != std::string::npos);
}
