#include "src/runtime/client/split.hpp"

#include <algorithm>
#include <utility>

#include "cxxrun/failure.hpp"
#include "src/base/core/rank_name.hpp"
#include "src/base/core/variables.hpp"

namespace cxxrun::client {
namespace {

/// What all ranks tell each other first.
struct Card {
  comm::Wish wish;
  std::uint32_t able = 1;  ///< else an error follows where others have a record
  std::uint32_t bytes = 0;
};

void gather(Whole const& whole, void const* in, void* out, std::size_t bytes) {
  whole.run({.kind = comm::Kind::all_gather, .type = DType::u8, .count = bytes, .in = in, .out = out});
}

/// Every rank's text, by rank.
std::vector<std::string> gather_texts(Whole const& whole, std::string mine, std::vector<Card> const& cards) {
  auto const longest = std::max_element(cards.begin(), cards.end(), [](auto const& a, auto const& b) {
                         return a.bytes < b.bytes;
                       })->bytes;
  mine.resize(longest);
  std::string all(cards.size() * longest, '\0');
  gather(whole, mine.data(), all.data(), longest);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    texts.push_back(all.substr(rank * longest, cards[rank].bytes));
  }
  return texts;
}

/// The records of this rank's group.
Roster roster_of(Whole const& whole, std::vector<Card> const& cards, std::vector<std::string> const& texts) {
  std::vector<comm::Wish> wishes;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].able == 0) {
      throw Failure(comm::decode_error(texts[rank]));
    }
    wishes.push_back(cards[rank].wish);
  }
  Roster roster;
  for (int const rank : comm::members_of(wishes, whole.rank)) {
    auto record = comm::decode_record(texts[static_cast<std::size_t>(rank)]);
    if (!record) {
      throw Failure(fail(Errc::protocol, "what rank " + std::to_string(rank) + " tells of itself is no record"));
    }
    roster.push_back(*std::move(record));
  }
  return roster;
}

/// For the others this is a call: who waits in it is no culprit, and who is missing in it is named.
Joined connect_group(WorkerEnv const& world, JoinOptions const& options, Whole const& whole, Openings& mine,
                     Roster const& roster) {
  whole.recorder.waits();
  try {
    auto joined = connect(world, options, mine, roster, whole.family,
                          Clock::now() + std::clamp(options.init_timeout, Millis(1), kForever));
    whole.recorder.goes_on();
    return joined;
  } catch (PeerFailure const& failure) {
    whole.recorder.lost(failure);
    whole.family->end(std::current_exception(), rank_name(world.rank, mine.record.host));
    throw;
  } catch (...) {
    whole.family->end(std::current_exception(), rank_name(world.rank, mine.record.host));
    throw;
  }
}

}  // namespace

Joined split(WorkerEnv const& world, JoinOptions const& options, Whole const& whole, comm::Wish wish) {
  whole.run({.kind = comm::Kind::split});  // a rank that calls something else is named
  Openings mine{.record = own_record(world, options.lookup), .op_timeout = options.op_timeout};
  std::string text;
  Card card{.wish = wish};
  try {
    settle(world, options, mine);
    // The launcher compares the calls of the whole only, and cannot know who is late here. Those that wait can.
    auto const hang_timeout = seconds_from_environment(options.lookup, variables::kHangTimeout, mine.op_timeout);
    mine.op_timeout = std::min(mine.op_timeout, or_throw(hang_timeout));
    text = comm::encode(mine.record);
  } catch (Failure const& failure) {
    card.able = 0;
    text = comm::encode(in_context(mine.record, failure.error()));
  }
  card.bytes = static_cast<std::uint32_t>(text.size());
  std::vector<Card> cards(static_cast<std::size_t>(whole.size));
  gather(whole, &card, cards.data(), sizeof card);
  Roster const roster = roster_of(whole, cards, gather_texts(whole, std::move(text), cards));
  if (roster.empty()) {
    return {};
  }
  mine.are_coming = true;
  mine.look = whole.face_trouble;  // who cannot make its part tells the whole, for there is no group yet
  return connect_group(world, options, whole, mine, roster);
}

}  // namespace cxxrun::client
