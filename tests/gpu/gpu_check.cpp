// gpu_check PLUGIN CHECK [--rank R --world W --id FILE --next-id FILE --device D
//   --seconds S --quick --dies]
//
// Exit codes: 0 right, 1 wrong, 3 no GPU (the line says why), 2 anything else.
#include "tests/gpu/gpu_check.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

cudaError_t launch_spin(cudaStream_t stream, std::uint64_t nanoseconds);
cudaError_t launch_trap(cudaStream_t stream);

namespace cxxrun::gpu_check {

void cuda(cudaError_t error, char const* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

void spin(cudaStream_t stream, std::uint64_t nanoseconds) {
  using Spin = void (*)(void*, std::uint64_t);
  static auto const replaced = reinterpret_cast<Spin>(::dlsym(RTLD_DEFAULT, "cxxrun_cuda_double_spin"));
  if (replaced != nullptr) {
    replaced(stream, nanoseconds);
  } else {
    cuda(launch_spin(stream, nanoseconds), "the kernel that spins");
  }
}

void trap(cudaStream_t stream) {
  static auto const replaced = reinterpret_cast<void (*)()>(::dlsym(RTLD_DEFAULT, "cxxrun_cuda_double_lose_context"));
  if (replaced != nullptr) {
    replaced();
  } else {
    cuda(launch_trap(stream), "the kernel that fails");
  }
}

namespace {

test::Id read_when_there(std::string const& file) {
  auto const end = Clock::now() + std::chrono::minutes(1);
  while (Clock::now() < end) {
    if (std::ifstream in(file, std::ios::binary); in) {
      return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  throw std::runtime_error("rank 0 wrote no " + file);
}

}  // namespace

test::Id shared_id(cxxrun_cuda_api const& api, std::string const& file, int rank) {
  if (rank == 0) {
    auto id = test::make_id(api);
    std::ofstream(file + ".new", std::ios::binary)
        .write(reinterpret_cast<char const*>(id.data()), static_cast<std::streamsize>(id.size()));
    if (std::rename((file + ".new").c_str(), file.c_str()) != 0) {
      throw std::runtime_error("cannot write " + file);
    }
    return id;
  }
  return read_when_there(file);
}

bool Rounds::next() {
  ++number_;
  if (arguments_.rank != 0) {
    return !read_when_there(file()).empty();
  }
  auto const now = Clock::now();
  longest_ = std::max(longest_, now - last_);
  last_ = now;
  bool const fits = arguments_.seconds == 0 || milliseconds(now - began_ + longest_) < 1000 * arguments_.seconds;
  if (number_ > most_ || !fits) {
    std::ofstream{file()};  // an empty id
    return false;
  }
  return true;
}

test::PluginComm open_comm(cxxrun_cuda_api const& api, Arguments const& arguments, std::string const& file) {
  auto const id = arguments.world == 1 ? test::Id(CXXRUN_CUDA_ID_BYTES) : shared_id(api, file, arguments.rank);
  return {api, arguments.device, id, arguments.rank, arguments.world};
}

comm::Call sum_of(void* data, std::size_t count, Wire wire) {
  comm::Call call;
  call.kind = comm::Kind::all_reduce;
  call.type = DType::f32;
  call.wire = wire;
  call.count = count;
  call.in = call.out = data;
  return call;
}

bool sum_is_right(test::PluginComm& comm, comm::Call const& call, int rank, int world) {
  std::vector<float> values(call.count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 13) + static_cast<float>(rank);
  }
  comm.copy(call.out, values.data(), values.size() * sizeof(float));
  comm.run(call);
  auto const got = comm.download(static_cast<float const*>(call.out), call.count);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] !=
        static_cast<float>(i % 13) * static_cast<float>(world) + static_cast<float>(world * (world - 1)) / 2) {
      return false;
    }
  }
  return true;
}

namespace {

using Check = int (*)(cxxrun_cuda_api const&, Arguments const&);

std::string field(std::string const& text) {
  return text.empty() ? "none" : text;
}

/// Prints what there is; whether there is a GPU.
bool describe(cxxrun_cuda_api const& api, int device) {
  cxxrun_cuda_facts facts{};
  api.facts(&facts);
  if (facts.devices == 0) {
    std::printf("no GPU: %s\n", field(facts.count_text).c_str());
    return false;
  }
  cxxrun_cuda_device_facts about{};
  cxxrun_cuda_status status{};
  if (api.open_device(device, &about, &status) != CXXRUN_CUDA_OK) {
    throw test::PluginError(status);
  }
  std::printf("%d x %s, sm %d, %.0f GiB; CUDA %d, driver %d, NCCL %d (compiled with %d)\n", facts.devices, about.name,
              about.sm, static_cast<double>(about.memory) / (1U << 30U), facts.cuda_runtime, facts.cuda_driver,
              facts.nccl, facts.nccl_header);
  return true;
}

int check_facts(cxxrun_cuda_api const& /*api*/, Arguments const& /*arguments*/) {
  std::printf("ok\n");
  return 0;
}

Arguments parse(int count, char** words) {
  Arguments arguments;
  arguments.plugin = words[1];
  for (int i = 3; i < count; ++i) {
    std::string const word = words[i];
    auto const next = [&] {
      if (++i == count) {
        throw std::runtime_error(word + " needs a value");
      }
      return words[i];
    };
    if (word == "--rank") {
      arguments.rank = std::atoi(next());
    } else if (word == "--world") {
      arguments.world = std::atoi(next());
    } else if (word == "--device") {
      arguments.device = std::atoi(next());
    } else if (word == "--id") {
      arguments.id = next();
    } else if (word == "--next-id") {
      arguments.next_id = next();
    } else if (word == "--seconds") {
      arguments.seconds = std::atof(next());
    } else if (word == "--quick") {
      arguments.quick = true;
    } else if (word == "--dies") {
      arguments.dies = true;
    } else {
      throw std::runtime_error("unknown option " + word);
    }
  }
  return arguments;
}

}  // namespace
}  // namespace cxxrun::gpu_check

int main(int count, char** words) {
  using namespace cxxrun::gpu_check;  // NOLINT(google-build-using-namespace)
  std::map<std::string, Check> const checks{
      {"facts", check_facts},       {"kernels", check_kernels},     {"all-reduce", check_all_reduce},
      {"survival", check_survival}, {"host-cost", check_host_cost}, {"alone", check_alone},
      {"overlap", check_overlap},   {"stop", check_stop},           {"abort-memory", check_abort_memory},
      {"driver", check_driver},     {"fault", check_fault},         {"capture", check_capture},
      {"large", check_large}};
  if (count < 3 || !checks.contains(words[2])) {
    std::fprintf(stderr, "usage: gpu_check PLUGIN CHECK [options]; CHECK is one of");
    for (auto const& [name, check] : checks) {
      std::fprintf(stderr, " %s", name.c_str());
    }
    std::fprintf(stderr, "\n");
    return 2;
  }
  try {
    auto const arguments = parse(count, words);
    auto const& api = cxxrun::test::load_plugin(words[1]);
    if (!describe(api, arguments.device)) {
      return 3;
    }
    std::fflush(stdout);
    return checks.at(words[2])(api, arguments);
  } catch (std::exception const& error) {
    std::printf("wrong: %s\n", error.what());
    return 1;
  }
}
