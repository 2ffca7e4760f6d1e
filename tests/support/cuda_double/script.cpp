#include "tests/support/cuda_double/script.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include <climits>

namespace cxxrun::cuda_double {
namespace {

[[noreturn]] void misread(std::string_view word) {
  std::fprintf(stderr, "cuda_double: CXXRUN_CUDA_DOUBLE has \"%.*s\" in it, which means nothing\n",
               static_cast<int>(word.size()), word.data());
  std::_Exit(99);
}

std::uint64_t number(std::string_view word, std::string_view value) {
  char* end = nullptr;
  std::string const text(value);
  std::uint64_t const result = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') {
    misread(word);
  }
  return result;
}
int small(std::string_view word, std::string_view value) {
  return static_cast<int>(number(word, value));
}

void set_driver(Script& script, std::string_view word, std::string_view value) {
  if (value == "missing") {
    script.driver_error = 35;
    script.driver_found = false;
    script.driver_version = 0;
  } else if (value == "stub") {
    script.driver_error = 34;
  } else if (value == "old") {
    script.driver_error = 35;
    script.driver_version = 11040;
  } else if (value == "locks") {
    script.driver_locks = true;
  } else {
    script.driver_error = small(word, value);
  }
}

Fault fault(std::string_view word, std::string_view value, int code) {
  auto const colon = value.find(':');
  if (colon == std::string_view::npos) {
    return {number(word, value), code};
  }
  return {number(word, value.substr(0, colon)), small(word, value.substr(colon + 1))};
}

void set_nccl(Script& script, std::string_view word, std::string_view key, std::string_view value) {
  if (key == "nccl") {
    script.nccl = small(word, value);
  } else if (key == "launches") {
    script.launches = number(word, value);
  } else if (key == "init" && value.starts_with("stuck")) {
    script.init_stuck = value == "stuck" ? INT_MAX : small(word, value.substr(value.find(':') + 1));
  } else if (key == "init") {
    script.init_error = small(word, value);
  } else if (key == "error") {
    script.collective = fault(word, value, 6);
  } else if (key == "fault") {
    script.fault_after = number(word, value);
  } else if (key == "hang") {
    script.collective = fault(word, value, 0);
  } else if (key == "deaths" && value == "seen") {
    script.deaths_seen = true;
  } else if (key == "state") {
    script.state_milliseconds = small(word, value);
  } else if (key == "room" && value == "1") {
    script.little_room = true;
  } else if (key == "abort") {
    script.abort_seconds = small(word, value);
  } else if (key == "rest" && value == "peers") {
    script.rest_waits = true;
  } else if (key == "rest") {
    script.rest_seconds = small(word, value);
  } else {
    misread(word);
  }
}

void set(Script& script, std::string_view word) {
  auto const equals = word.find('=');
  if (equals == std::string_view::npos) {
    misread(word);
  }
  auto const key = word.substr(0, equals);
  auto const value = word.substr(equals + 1);
  if (key == "rank") {
    script.rank = small(word, value);
  } else if (key == "devices") {
    script.devices = small(word, value);
  } else if (key == "uuid" && value == "same") {
    script.same_uuid = true;
  } else if (key == "driver") {
    set_driver(script, word, value);
  } else if (key == "kernel" && (value == "fails" || value == "none")) {
    script.first_kernel_at_launch = value == "none";
    script.first_kernel = script.first_kernel_at_launch ? 209 : 719;
  } else if (key == "memory") {
    script.memory = number(word, value);
  } else {
    set_nccl(script, word, key, value);
  }
}

Script parse(std::string_view text) {
  Script script;
  while (!text.empty()) {
    auto const comma = text.find(',');
    set(script, text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return script;
}

Script from_environment() {
  char const* const text = std::getenv("CXXRUN_CUDA_DOUBLE");
  Script script = parse(text != nullptr ? text : "");
  char const* const rank = std::getenv("RANK");
  if (script.rank >= 0 && rank != nullptr) {
    return std::atoi(rank) == script.rank ? script : Script{};
  }
  return script;
}

struct Calls {
  std::mutex mutex;
  std::map<std::string, std::uint64_t, std::less<>> of;
};
Calls& calls() {
  static auto& all = *new Calls;  // threads of streams may outlive static objects
  return all;
}

}  // namespace

Script const& script() {
  static Script const read = from_environment();
  return read;
}

Script script_of(int rank) {
  Script const& all = script();
  if (all.rank < 0 || all.rank == rank || std::getenv("RANK") != nullptr) {
    return all;
  }
  Script healthy;
  healthy.nccl = all.nccl;
  healthy.launches = all.launches;
  healthy.deaths_seen = all.deaths_seen;
  healthy.rest_waits = all.rest_waits;
  healthy.little_room = all.little_room;
  return healthy;
}

void count(char const* function, std::uint64_t times) {
  std::lock_guard const lock(calls().mutex);
  calls().of[function] += times;
}

}  // namespace cxxrun::cuda_double

std::uint64_t cxxrun_cuda_double_calls(char const* function) {
  auto& all = cxxrun::cuda_double::calls();
  std::lock_guard const lock(all.mutex);
  auto const found = all.of.find(std::string_view(function));
  return found == all.of.end() ? 0 : found->second;
}
