#include "launcher/workers/left_behind.hpp"

#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kNameBytes = 48;
constexpr std::size_t kMostNamed = 4;

}  // namespace

std::string program_name(std::string const& cmdline, std::string const& comm) {
  auto const words = replace_all(cmdline, std::string_view("\0", 1), " ");
  auto const program = words.substr(0, words.find(' '));
  auto const directory = program.rfind('/') + 1;  // npos + 1 is 0
  std::string const name(trim(words.substr(directory)));
  return printable(name.empty() ? comm : name, kNameBytes);
}

std::optional<std::uint32_t> rank_in(std::string const& variables) {
  constexpr std::string_view kRank = "RANK=";
  for (auto const& each : split(variables, '\0')) {
    if (each.starts_with(kRank)) {
      return number_in<std::uint32_t>(std::string_view(each).substr(kRank.size()));
    }
  }
  return std::nullopt;
}

std::string killed_line(std::vector<LeftBehind> const& killed) {
  std::vector<std::uint32_t> ranks;
  std::vector<std::string> names;
  bool known = true;
  for (auto const& each : killed) {
    names.push_back(each.name + " (" + std::to_string(each.pid) + ")");
    known = known && each.rank;
    ranks.push_back(each.rank.value_or(0));
  }
  auto const list = number_list(std::move(ranks));
  bool const one = list.find_first_not_of("0123456789") == std::string::npos;
  return "killed " + std::to_string(killed.size()) + (killed.size() == 1 ? " process" : " processes") + " that " +
         (known ? (one ? "rank " : "ranks ") + list : "workers") +
         " had left: " + join_first(kMostNamed, std::move(names)) + "; a worker has to wait for what it starts";
}

}  // namespace cxxrun::launcher
