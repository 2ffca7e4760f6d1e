#include "launcher/options/option_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>

#include "launcher/options/option_table.hpp"
#include "rendezvous/values/generation.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/list.hpp"

namespace cxxrun::launcher {

using rendezvous::kMaxNodes;
using rendezvous::kMaxWorkers;

namespace {

Result<int> parse_stream_bits(std::string_view text) {
  auto const bits = parse_unsigned(text, 0, 3);
  if (!bits) {
    return expected("0 (none), 1 (stdout), 2 (stderr) or 3 (both) is expected, or RANK:0..3,RANK:0..3");
  }
  return static_cast<int>(*bits);
}

Result<std::uint64_t> parse_count(std::string_view text) {
  return parse_unsigned(text, 1, 1'000'000);
}

Result<bool> parse_store_type(std::string_view text) {
  return lower(text) == "tcp" ? Result<bool>(true) : expected("only tcp is supported");
}

/// The option of the same meaning takes precedence.
template <class Value, class Parse>
Apply set_unless_given(std::optional<Value>& target, Parse parse) {
  return target ? only_check(parse) : set(target, parse);
}

/// The keys of torchrun that cxxrun accepts. A help text says why the key has no effect.
std::vector<OptionRow> conf_keys(Options& o) {
  constexpr char const* kConnections = "a lost agent is noticed by its connections";
  return {
      {"close_timeout", "", "closing is one message with a deadline of its own", only_check(parse_delay)},
      {"heartbeat_timeout", "", kConnections, only_check(parse_delay)},
      {"is_host", "", "", set(o.is_host, parse_bool)},
      {"join_timeout", "", "", set(o.terms.join_timeout, parse_delay)},
      {"keep_alive_interval", "", kConnections, only_check(parse_delay)},
      {"keep_alive_max_attempt", "", kConnections, only_check(parse_count)},
      {"last_call_timeout", "", "", set_unless_given(o.join_window, parse_delay)},
      {"rank", "", "", set_unless_given(o.node_rank, parse_number<kMaxNodes - 1>)},
      {"read_timeout", "", "agents do not use the store to meet", only_check(parse_delay)},
      {"store_type", "", "tcp is the only store", only_check(parse_store_type)},
      {"timeout", "", "agents do not use the store to meet; see join_timeout", only_check(parse_delay)},
  };
}

Result<std::uint32_t> resolve_word(ProcWord word, unsigned gpus, unsigned cpus) {
  if ((word == ProcWord::gpu || word == ProcWord::xpu) && gpus == 0) {
    return fail(Errc::environment,
                std::string("--nproc-per-node ") +
                    (word == ProcWord::gpu ? "gpu: no GPU is visible here (/dev/nvidia*, CUDA_VISIBLE_DEVICES)"
                                           : "xpu: no GPU of Intel's is visible here (/dev/dri, ZE_AFFINITY_MASK)") +
                    "; ask Slurm for GPUs or give a number");
  }
  if (word == ProcWord::cpu || (word == ProcWord::automatic && gpus == 0)) {
    return std::uint32_t{cpus == 0 ? 1 : cpus};
  }
  return std::uint32_t{gpus == 0 ? 1 : gpus};
}

/// The number at the end of a GPU request as in Slurm's variables: "4", "a100:4", "gpu:a100:4".
Result<std::uint64_t> count_of_request(std::string_view text) {
  auto const colon = text.rfind(':');
  return parse_unsigned(colon == std::string_view::npos ? text : text.substr(colon + 1), 1, kMaxWorkers);
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

Result<NprocPerNode> parse_nproc(std::string_view text) {
  if (text == "auto") {
    return NprocPerNode{ProcWord::automatic};
  }
  if (text == "gpu" || text == "xpu" || text == "cpu") {
    return NprocPerNode{text == "gpu" ? ProcWord::gpu : text == "xpu" ? ProcWord::xpu : ProcWord::cpu};
  }
  if (text.empty()) {
    return expected(
        "the value is empty, perhaps a variable that is not set (Slurm sets SLURM_GPUS_PER_NODE for --gpus-per-node "
        "alone, and since 23.11 no SLURM_GPUS_PER_TASK); drop the option to have one worker per GPU that is visible");
  }
  std::uint64_t sum = 0;
  for (auto const& item : split(text, ',')) {  // SLURM_GPUS_PER_NODE may be "a100:2,v100:2"
    auto const number = count_of_request(item);
    if (!number || (sum += *number) > kMaxWorkers || item.starts_with(':')) {
      return expected("auto, gpu, xpu, cpu or a number from 1 to " + std::to_string(kMaxWorkers) + " is expected");
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

Result<std::vector<RankRange>> parse_rank_ranges(std::string_view text) {
  constexpr std::uint64_t kLastRank = std::uint64_t{kMaxNodes} * kMaxWorkers - 1;
  std::vector<RankRange> ranges;
  if (trim(text).empty()) {
    return ranges;
  }
  for (auto const& item : split(text, ',')) {
    auto const range = trim(item);
    auto const dash = range.find('-');
    auto const first = parse_unsigned(range.substr(0, dash), 0, kLastRank);
    auto const last = dash == std::string_view::npos ? first : parse_unsigned(range.substr(dash + 1), 0, kLastRank);
    if (!first || !last) {
      return expected("'" + printable(item, 40) +
                      "': ranks and FIRST-LAST separated by commas are expected, for example "
                      "0,8-15");
    }
    if (*last < *first) {
      return expected("'" + printable(item, 40) + "' is no range; did you mean " + std::to_string(*last) + "-" +
                      std::to_string(*first) + "?");
    }
    ranges.push_back({static_cast<std::uint32_t>(*first), static_cast<std::uint32_t>(*last)});
  }
  return ranges;
}

Result<Rotation> parse_rotation(std::string_view text) {
  constexpr std::uint64_t kLeast = 4096;  // less would be a mistake, or flood the directory with files
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  constexpr std::uint64_t kMostFiles = 1'000'000;
  auto const colon = text.find(':');
  auto number = text.substr(0, colon);
  std::uint64_t unit = 1;
  if (auto const place = std::string_view("KMG").find(number.empty() ? '-' : number.back());
      place != std::string_view::npos) {
    unit = std::uint64_t{1024} << (10 * place);
    number.remove_suffix(1);
  }
  auto const size = parse_unsigned(number, 1, kMost / unit);
  auto const keep = colon == std::string_view::npos ? Result<std::uint64_t>(0)
                                                    : parse_unsigned(text.substr(colon + 1), 1, kMostFiles);
  if (!size || !keep) {
    return expected(
        "SIZE or SIZE:COUNT is expected, for example 100M or 1G:5, with K, M or G for 1024, 1024 K, 1024 M");
  }
  if (*size * unit < kLeast) {
    return expected("the least size is 4K");
  }
  return Rotation{*size * unit, static_cast<std::uint32_t>(*keep)};
}

Result<std::map<std::string, std::string>> parse_rdzv_conf(std::string_view text) {
  std::map<std::string, std::string> conf;
  text = trim(text);
  if (text.size() > 1 && text.front() == text.back() && (text.front() == '\'' || text.front() == '"')) {
    text = text.substr(1, text.size() - 2);  // quotes that no shell has removed
  }
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

Result<Millis> parse_seconds(std::string_view text, bool zero_allowed) {
  constexpr double kYear = 366.0 * 86400.0;
  double seconds = 0;
  char const* const end = text.data() + text.size();
  auto const [stop, error] = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
  bool const number = !text.empty() && stop == end && error == std::errc{};
  auto const millis = number && seconds >= 0 && seconds <= kYear ? std::llround(seconds * 1000) : -1;
  if (millis < 0 || (millis == 0 && !zero_allowed)) {
    return expected(std::string("a number of seconds ") + (zero_allowed ? "(0 or more)" : "above 0") + " is expected");
  }
  return Millis(millis);
}

Result<Millis> parse_grace(std::string_view text) {
  return parse_seconds(text, true);
}

Result<Millis> parse_delay(std::string_view text) {
  return parse_seconds(text, false);
}

Result<bool> parse_bool(std::string_view text) {
  static std::map<std::string, bool> const words{{"1", true},   {"true", true}, {"t", true},      {"yes", true},
                                                 {"y", true},   {"0", false},   {"false", false}, {"f", false},
                                                 {"no", false}, {"n", false}};
  auto const found = words.find(lower(text));
  return found != words.end() ? Result<bool>(found->second) : expected("true or false is expected");
}

Result<std::set<int>> parse_stop_signals(std::string_view text) {
  static std::set<int> const possible{SIGUSR1, SIGUSR2, SIGXCPU, SIGPWR};
  std::set<int> signals;
  for (auto const& item : split(text, ',')) {
    auto const name = trim(item);
    auto const number = name.starts_with("SIG") ? signal_number(name) : std::nullopt;
    if (!number || !(asks_to_end(*number) || possible.contains(*number))) {
      return expected("'" + printable(name, 40) +
                      "': SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU or SIGPWR is expected, separated "
                      "by commas");
    }
    if (possible.contains(*number)) {
      signals.insert(*number);
    }
  }
  return signals;
}

Result<std::vector<std::string>> parse_filters(std::string_view text) {
  if (text.empty()) {
    return std::vector<std::string>{};
  }
  std::vector<std::string> filters(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool const comma = text[i] == ',';
    if (comma && text.substr(i + 1, 1) != ",") {
      filters.emplace_back();
      continue;
    }
    filters.back() += text[i];
    i += comma ? 1 : 0;
  }
  if (std::ranges::find(filters, "") != filters.end()) {
    return expected("an empty word is in every line; WORD,WORD is expected, with a comma in a word doubled");
  }
  return filters;
}

Result<void> apply_rdzv_conf(Options& options) {
  auto const keys = conf_keys(options);
  for (auto const& given : options.rdzv_conf) {
    std::string const& name = given.first;
    std::string const& value = given.second;
    auto const key = std::ranges::find_if(keys, [&name](OptionRow const& row) { return name == row.name; });
    if (name == "secret") {
      return expected("everybody on a node can read arguments; name a file of mode 0600 in CXXRUN_SECRET_FILE");
    }
    if (key == keys.end()) {
      auto const names = list_of(keys, [](auto const& row) { return std::string(row.name); });
      return expected("unknown key '" + printable(name, 40) + "'; the keys are " + join(names, ", "));
    }
    if (auto const applied = key->apply(value, *key); !applied) {
      return expected(name + "=" + printable(value, 40) + ": " + applied.error().context);
    }
    if (*key->help != '\0') {
      options.notes.push_back("--rdzv-conf " + name + " has no effect: " + key->help);
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
                                       "worker per task, or give --standalone in a shell that one of them is");
  }
  return count;
}

}  // namespace cxxrun::launcher
