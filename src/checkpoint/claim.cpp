#include "src/checkpoint/claim.hpp"

#include <algorithm>
#include <charconv>

namespace cxxrun::checkpoint {
namespace {

constexpr std::string_view kBefore = "generation ";
constexpr std::string_view kBetween = " of run ";

std::string name_of(Claim const& claim) {
  std::string const text = format_claim(claim);
  return claim.run.empty() ? "generation " + std::to_string(claim.generation) : text.substr(0, text.size() - 1);
}

}  // namespace

std::string format_claim(Claim const& claim) {
  std::string run = claim.run;
  std::replace_if(
      run.begin(), run.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return std::string(kBefore) + std::to_string(claim.generation) + std::string(kBetween) + run + "\n";
}

std::optional<Claim> parse_claim(std::string_view text) {
  if (!text.starts_with(kBefore) || !text.ends_with('\n')) {
    return std::nullopt;
  }
  Claim claim;
  auto const [end, error] = std::from_chars(text.data() + kBefore.size(), text.data() + text.size(), claim.generation);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc{} || !text.starts_with(kBetween)) {
    return std::nullopt;
  }
  text.remove_prefix(kBetween.size());
  claim.run = text.substr(0, text.size() - 1);
  return claim.run.find('\n') == std::string::npos ? std::optional(claim) : std::nullopt;
}

Admission admit(Claim const& mine, std::optional<Claim> const& theirs, When when) {
  std::string const who =
      theirs ? name_of(*theirs) + " owns the directory, and this process is of " + name_of(mine) : "";
  if (!theirs || (theirs->run != mine.run && when == When::opening)) {
    return {"", true};
  }
  if (theirs->run != mine.run) {
    return {who + ": the job was started again elsewhere; end this process", false};
  }
  if (theirs->generation > mine.generation) {
    return {who + ": it was given up, end it (or remove the file \"generation\" there, if no other job uses it)",
            false};
  }
  return {"", theirs->generation < mine.generation};
}

}  // namespace cxxrun::checkpoint
