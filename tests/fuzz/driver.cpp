// A small stand-in for libFuzzer, which g++ does not have: mutates seeds without coverage, and can be repeated.
//
//   NAME SEED SECONDS [FOLDER]   first every file of the folder, then mutations until the time is up
//   NAME FILE                    runs one input, for instance the one a failed run left behind
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);
std::vector<std::string> fuzz_seeds();

namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t limit) {
  return limit == 0 ? 0 : random() % limit;
}

// A number as lengths and counts are written, often one of those at which something happens.
std::string interesting_number(Random& random) {
  constexpr std::uint64_t kNumbers[] = {0,      1,      2,        255,      8192,       8193,
                                        131072, 131073, 67108864, 67108865, 1ULL << 63, ~0ULL};
  std::uint64_t const number = kNumbers[below(random, std::size(kNumbers))];
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

void mutate(std::string& input, std::vector<std::string> const& pool, Random& random) {
  std::size_t const at = below(random, input.size() + 1);
  std::size_t const some = below(random, 16);
  switch (below(random, 7)) {
    case 0: input.insert(at, 1, static_cast<char>(random())); break;
    case 1: input.erase(at, some); break;
    case 2: input.replace(at, 8, interesting_number(random)); break;
    case 3: input.insert(at, input.substr(below(random, input.size()), some)); break;
    case 4: input += pool[below(random, pool.size())]; break;
    case 5: input.resize(at); break;
    default:
      if (at < input.size()) {
        input[at] = static_cast<char>(random() % 2 == 0 ? random() : static_cast<std::uint64_t>(input[at]) ^ 1);
      }
  }
}

// The input in progress, for the handler of SIGABRT.
std::string const* current = nullptr;

// Leaves the input that aborted behind, in the working directory, to be run again by name.
void save_current(int) {
  int const fd = ::open("fuzz-aborted-input", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd >= 0 && current != nullptr) {
    (void)!::write(fd, current->data(), current->size());
    ::close(fd);
  }
}

void run(std::string const& input) {
  current = &input;
  LLVMFuzzerTestOneInput(reinterpret_cast<std::uint8_t const*>(input.data()), input.size());
}

std::optional<std::string> contents(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int run_file(char const* path) {
  auto const input = contents(path);
  if (input) {
    run(*input);
  }
  return input ? 0 : 2;
}

/// The files of the folder, in the order of their names; all of them are run.
std::vector<std::string> run_corpus(char const* folder) {
  std::vector<std::filesystem::path> paths;
  for (auto const& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (auto const& path : paths) {
    if (auto input = contents(path)) {
      run(*input);
      inputs.push_back(*std::move(input));
    }
  }
  return inputs;
}

int run_for(std::uint64_t seed, double seconds, char const* corpus) {
  constexpr std::size_t kLongest = 4096;
  constexpr std::size_t kPool = 512;
  Random random(seed);
  std::vector<std::string> pool = fuzz_seeds();
  if (corpus != nullptr) {
    auto const kept = run_corpus(corpus);
    pool.insert(pool.end(), kept.begin(), kept.end());
  }
  auto const end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::uint64_t runs = 0;
  while (std::chrono::steady_clock::now() < end) {
    std::string input = pool[below(random, pool.size())];
    for (std::size_t n = 1 + below(random, 8); n > 0; --n) {
      mutate(input, pool, random);
    }
    input.resize(std::min(input.size(), kLongest));
    run(input);
    ++runs;
    if (pool.size() < kPool) {
      pool.push_back(input);
    } else {
      pool[pool.size() / 4 + below(random, pool.size() * 3 / 4)] = input;
    }
  }
  std::printf("%llu inputs, seed %llu\n", static_cast<unsigned long long>(runs), static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace

// AddressSanitizer asks for its options by this name; with these it aborts, and the input is saved.
extern "C" char const* __asan_default_options();   // NOLINT: the sanitizer's name
extern "C" char const* __asan_default_options() {  // NOLINT: the sanitizer's name
  return "abort_on_error=1";
}

int main(int argc, char* argv[]) {
  std::signal(SIGABRT, save_current);
  if (argc == 2) {
    return run_file(argv[1]);
  }
  if (argc == 3 || argc == 4) {
    return run_for(std::strtoull(argv[1], nullptr, 10), std::strtod(argv[2], nullptr), argc == 4 ? argv[3] : nullptr);
  }
  std::fprintf(stderr, "Usage: %s SEED SECONDS [FOLDER] | FILE\n", argv[0]);
  return 2;
}
