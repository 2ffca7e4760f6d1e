#include "launcher/options/option_values.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "src/core/text.hpp"

namespace cxxrun::launcher {

namespace {

constexpr std::uint64_t kMaxNodes = 65536;
constexpr std::uint64_t kMaxWorkers = 4096;

Error expected(std::string what) {
  return fail(Errc::usage, std::move(what));
}

Result<int> parse_stream_bits(std::string_view text) {
  auto const bits = parse_unsigned(text, 0, 3);
  if (!bits) {
    return expected("0 (none), 1 (stdout), 2 (stderr) or 3 (both) is expected, or RANK:0..3,RANK:0..3");
  }
  return static_cast<int>(*bits);
}

/// A key of torchrun's that cxxrun accepts; `why` is empty for keys that act.
struct ConfKey {
  char const* name;
  Result<void> (*apply)(Options&, std::string const&);
  char const* why;
};

Result<void> check_seconds(Options& /*options*/, std::string const& value) {
  auto const seconds = parse_seconds(value, false);
  return seconds ? Result<void>() : Result<void>(seconds.error());
}

Result<void> check_count(Options& /*options*/, std::string const& value) {
  auto const count = parse_unsigned(value, 1, 1'000'000);
  return count ? Result<void>() : Result<void>(count.error());
}

Result<std::chrono::milliseconds> parse_timeout(std::string_view text) {
  return parse_seconds(text, false);
}

template <auto Parse, auto Member>
Result<void> set(Options& options, std::string const& value) {
  auto const parsed = Parse(value);
  if (!parsed) {
    return parsed.error();
  }
  options.*Member = *parsed;
  return {};
}

Result<void> set_rank(Options& options, std::string const& value) {
  auto const rank = parse_unsigned(value, 0, kMaxNodes - 1);
  if (!rank) {
    return rank.error();
  }
  if (!options.node_rank) {
    options.node_rank = static_cast<std::uint32_t>(*rank);
  }
  return {};
}

/// --join-window says the same and wins.
Result<void> set_join_window(Options& options, std::string const& value) {
  auto const window = parse_seconds(value, false);
  if (!window) {
    return window.error();
  }
  if (!options.join_window) {
    options.join_window = *window;
  }
  return {};
}

Result<void> check_store_type(Options& /*options*/, std::string const& value) {
  return lower(value) == "tcp" ? Result<void>() : Result<void>(expected("only tcp is supported"));
}

constexpr std::array kConfKeys = {
    ConfKey{"close_timeout", check_seconds, "closing is one message with a deadline of its own"},
    ConfKey{"heartbeat_timeout", check_seconds, "a lost agent is noticed by its connections"},
    ConfKey{"is_host", set<parse_bool, &Options::is_host>, ""},
    ConfKey{"join_timeout", set<parse_timeout, &Options::join_timeout>, ""},
    ConfKey{"keep_alive_interval", check_seconds, "a lost agent is noticed by its connections"},
    ConfKey{"keep_alive_max_attempt", check_count, "a lost agent is noticed by its connections"},
    ConfKey{"last_call_timeout", set_join_window, ""},
    ConfKey{"rank", set_rank, ""},
    ConfKey{"read_timeout", check_seconds, "agents do not use the store to meet"},
    ConfKey{"store_type", check_store_type, "tcp is the only store"},
    ConfKey{"timeout", check_seconds, "agents do not use the store to meet; see join_timeout"},
};

ConfKey const* find_key(std::string const& name) {
  for (auto const& key : kConfKeys) {
    if (name == key.name) {
      return &key;
    }
  }
  return nullptr;
}

std::string key_list() {
  std::vector<std::string> names;
  names.reserve(kConfKeys.size());
  for (auto const& key : kConfKeys) {
    names.emplace_back(key.name);
  }
  return join(names, ", ");
}

Result<std::uint32_t> resolve_word(ProcWord word, unsigned gpus, unsigned cpus) {
  if (word == ProcWord::gpu && gpus == 0) {
    return fail(Errc::environment,
                "--nproc-per-node gpu: no GPU is visible here (/dev/nvidia*, CUDA_VISIBLE_DEVICES); ask Slurm for GPUs "
                "or give a number");
  }
  if (word == ProcWord::cpu || (word == ProcWord::automatic && gpus == 0)) {
    return std::uint32_t{cpus == 0 ? 1 : cpus};
  }
  return std::uint32_t{gpus == 0 ? 1 : gpus};
}

}  // namespace

Result<NodeRange> parse_nnodes(std::string_view text) {
  auto const parts = split(text, ':');
  auto const min = parse_unsigned(parts.front(), 1, kMaxNodes);
  auto const max = parse_unsigned(parts.back(), 1, kMaxNodes);
  if (parts.size() > 2 || !min || !max) {
    return expected("N or MIN:MAX is expected, with numbers from 1 to " + std::to_string(kMaxNodes));
  }
  if (*min > *max) {
    return expected("MIN is larger than MAX; did you mean " + parts.back() + ":" + parts.front() + "?");
  }
  return NodeRange{static_cast<std::uint32_t>(*min), static_cast<std::uint32_t>(*max)};
}

namespace {

/// The number at the end of a request for GPUs as Slurm hands it on: "4", "a100:4", "gpu:a100:4".
Result<std::uint64_t> count_of_request(std::string_view text) {
  auto const colon = text.rfind(':');
  return parse_unsigned(colon == std::string_view::npos ? text : text.substr(colon + 1), 1, kMaxWorkers);
}

}  // namespace

Result<NprocPerNode> parse_nproc(std::string_view text) {
  if (text == "auto") {
    return NprocPerNode{ProcWord::automatic};
  }
  if (text == "gpu" || text == "cpu") {
    return NprocPerNode{text == "gpu" ? ProcWord::gpu : ProcWord::cpu};
  }
  if (text.empty()) {
    return expected(
        "the value is empty, perhaps a variable that is not set (Slurm sets SLURM_GPUS_PER_NODE for --gpus-per-node "
        "alone); drop the option to have one worker per GPU that is visible");
  }
  std::uint64_t sum = 0;
  for (auto const& item : split(text, ',')) {  // SLURM_GPUS_PER_NODE may be "a100:2,v100:2"
    auto const number = count_of_request(item);
    if (!number || (sum += *number) > kMaxWorkers || item.starts_with(':')) {
      return expected("auto, gpu, cpu or a number from 1 to " + std::to_string(kMaxWorkers) + " is expected");
    }
  }
  return NprocPerNode{static_cast<std::uint32_t>(sum)};
}

Result<StreamChoice> parse_streams(std::string_view text) {
  StreamChoice choice;
  if (text.find(':') == std::string_view::npos) {
    auto const bits = text.empty() ? Result<int>(0) : parse_stream_bits(text);
    if (!bits) {
      return bits.error();
    }
    choice.all = *bits;
    return choice;
  }
  for (auto const& item : split(text, ',')) {
    auto const colon = item.find(':');
    auto const rank = parse_unsigned(item.substr(0, colon), 0, kMaxWorkers - 1);
    auto const bits = parse_stream_bits(colon == std::string::npos ? "" : item.substr(colon + 1));
    if (!rank || !bits) {
      return expected("'" + printable(item, 40) + "': RANK:0..3 is expected (0 none, 1 stdout, 2 stderr, 3 both)");
    }
    if (!choice.per_rank.emplace(static_cast<std::uint32_t>(*rank), *bits).second) {
      return expected("local rank " + std::to_string(*rank) + " is given twice");
    }
  }
  return choice;
}

Result<std::set<std::uint32_t>> parse_rank_list(std::string_view text) {
  std::set<std::uint32_t> ranks;
  if (trim(text).empty()) {
    return ranks;
  }
  for (auto const& item : split(text, ',')) {
    auto const rank = parse_unsigned(trim(item), 0, kMaxWorkers - 1);
    if (!rank) {
      return expected("local ranks separated by commas are expected, for example 0,3");
    }
    ranks.insert(static_cast<std::uint32_t>(*rank));
  }
  return ranks;
}

Result<std::map<std::string, std::string>> parse_rdzv_conf(std::string_view text) {
  std::map<std::string, std::string> conf;
  if (trim(text).empty()) {
    return conf;
  }
  for (auto const& item : split(text, ',')) {
    auto const equals = item.find('=');
    std::string_view const key = trim(std::string_view(item).substr(0, equals));
    std::string_view const value =
        equals == std::string::npos ? std::string_view{} : trim(std::string_view(item).substr(equals + 1));
    if (key.empty() || value.empty()) {
      return expected("'" + printable(item, 80) + "': KEY=VALUE,KEY=VALUE is expected");
    }
    conf[std::string(key)] = std::string(value);
  }
  return conf;
}

Result<std::chrono::milliseconds> parse_seconds(std::string_view text, bool zero_allowed) {
  constexpr double kYear = 366.0 * 86400.0;
  double seconds = 0;
  char const* const end = text.data() + text.size();
  auto const [stop, error] = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
  bool const number = !text.empty() && stop == end && error == std::errc{};
  auto const millis = number && seconds >= 0 && seconds <= kYear ? std::llround(seconds * 1000) : -1;
  if (millis < 0 || (millis == 0 && !zero_allowed)) {
    return expected(std::string("a number of seconds ") + (zero_allowed ? "(0 or more)" : "above 0") + " is expected");
  }
  return std::chrono::milliseconds(millis);
}

Result<bool> parse_bool(std::string_view text) {
  std::string const word = lower(text);
  for (char const* const yes : {"1", "true", "t", "yes", "y"}) {
    if (word == yes) {
      return true;
    }
  }
  for (char const* const no : {"0", "false", "f", "no", "n"}) {
    if (word == no) {
      return false;
    }
  }
  return expected("true or false is expected");
}

std::string_view name_of(CpuMode mode) {
  switch (mode) {
    case CpuMode::none: return "none";
    case CpuMode::share: return "share";
    case CpuMode::node: return "node";
    case CpuMode::socket: return "socket";
    case CpuMode::exclusive: return "exclusive";
    case CpuMode::core_complex: return "core-complex";
  }
  return "none";
}

Result<void> apply_rdzv_conf(Options& options) {
  for (auto const& [name, value] : options.rdzv_conf) {
    ConfKey const* const key = find_key(name);
    if (key == nullptr) {
      return expected("unknown key '" + printable(name, 40) + "'; the keys are " + key_list());
    }
    if (auto const applied = key->apply(options, value); !applied) {
      return expected(name + "=" + printable(value, 40) + ": " + applied.error().context);
    }
    if (*key->why != '\0') {
      options.notes.push_back("--rdzv-conf " + name + " has no effect: " + key->why);
    }
  }
  return {};
}

Result<std::uint32_t> resolve_nproc(NprocPerNode const& nproc, unsigned gpus, unsigned cpus, bool one_per_task) {
  auto const* const word = std::get_if<ProcWord>(&nproc);
  if (word != nullptr && *word == ProcWord::by_default && one_per_task) {
    return std::uint32_t{1};
  }
  auto count =
      word != nullptr ? resolve_word(*word, gpus, cpus) : Result<std::uint32_t>(std::get<std::uint32_t>(nproc));
  if (count && *count > kMaxWorkers) {
    return expected("--nproc-per-node: " + std::to_string(*count) + " workers; the limit is " +
                    std::to_string(kMaxWorkers));
  }
  if (count && *count != 1 && one_per_task) {
    return fail(Errc::environment, "srun started several tasks on a node and --nproc-per-node asks each for " +
                                       std::to_string(*count) +
                                       " workers; use srun --ntasks-per-node=1, or drop --nproc-per-node for one "
                                       "worker per task");
  }
  return count;
}

}  // namespace cxxrun::launcher
