#include "tests/simulation/forger.hpp"

#include <algorithm>
#include <utility>

#include "tests/simulation/job.hpp"

namespace cxxrun::simulation {

namespace rdzv = cxxrun::rendezvous;

namespace {

constexpr HostId kOwnHost = 60'000;
constexpr std::size_t kConversations = 200;
constexpr std::size_t kLongest = 60;  ///< of one of them: what comes later is beats
constexpr Micros kMostPause = 100'000;

rdzv::Key key_of(unsigned char byte) {
  rdzv::Key::Bytes bytes{};
  bytes.fill(byte);
  return rdzv::Key(bytes);
}

}  // namespace

rdzv::Key Forger::key() {
  return key_of(1);
}

Forger::Forger(Job& job) : job_(job), random_(job.schedule.seed ^ 0xF0F0F0F0U) {
  job_.network.overheard = [this](EndPtr from, Frame const& frame) { overhear(from, frame); };
  job_.world.after(random_.pick(0, kMostPause), [this] { act(); });
}

void Forger::overhear(EndPtr from, Frame const& frame) {
  if (std::holds_alternative<Raw>(frame) || (heard_.size() >= kConversations && !which_.contains(from))) {
    return;
  }
  auto const which = which_.emplace(from, heard_.size()).first->second;
  heard_.resize(std::max(heard_.size(), which + 1));
  auto& words = heard_[which];
  if (words.size() < kLongest) {
    words.push_back(text_of(frame));
  }
  auto const* const message = std::get_if<rdzv::ToCoordinator>(&frame);
  if (message != nullptr && std::holds_alternative<rdzv::Gone>(*message) && words.size() == 2) {
    notes_.push_back(rdzv::sign_death_notice(key(), words));  // as a parent says it: hello, and who is dead
  }
}

void Forger::act() {
  if (job_.world.now() > job_.schedule.trouble_ends + job_.schedule.work) {
    return;
  }
  if (auto const& listeners = job_.network.listeners(); !listeners.empty()) {
    auto const which = random_.pick(0, static_cast<std::int64_t>(listeners.size()) - 1);
    call(std::next(listeners.begin(), which)->first);
  }
  job_.world.after(random_.pick(1'000, kMostPause), [this] { act(); });
}

void Forger::call(Address at) {
  ++calls;
  job_.network.call(kOwnHost, at, [this](Called result) {
    if (result.end != nullptr) {
      called(result.end);
    }
  });
}

void Forger::called(EndPtr end) {
  if (!notes_.empty() && random_.chance(30)) {
    ++notes;
    auto note = notes_[static_cast<std::size_t>(random_.pick(0, static_cast<std::int64_t>(notes_.size()) - 1))];
    if (random_.chance(20)) {
      alter(note);
    }
    job_.network.send(end, Raw{std::move(note)});
    return;
  }
  rdzv::Nonce nonce{};
  nonce.fill(static_cast<unsigned char>(random_.pick(0, 255)));
  auto const line =
      std::make_shared<Line>(Line{end, rdzv::SecureChannel::of_caller(nonce), choose_words(), false, false});
  line->seals = random_.chance(30);
  end->received = [this, line](Frame const& frame) {
    auto const* const answer = std::get_if<Raw>(&frame);
    if (answer == nullptr || std::exchange(line->answered, true)) {
      return;
    }
    if (line->seals && std::holds_alternative<rdzv::WantsKey>(line->guard.on_frame(answer->bytes))) {
      line->guard.use_key(key_of(2));
    }
    if (random_.chance(10)) {
      job_.network.send(line->end, Raw{answer->bytes});  // its own words
    }
    speak(line);
  };
  if (random_.chance(80)) {
    job_.network.send(end, Raw{line->guard.call()});
  } else {
    speak(line);  // as if it had been let in already
  }
}

void Forger::speak(std::shared_ptr<Line> const& line) {
  for (auto& words : line->words) {
    bool const sealed = line->seals && line->guard.sealed();
    job_.network.send(line->end, Raw{sealed ? line->guard.seal(words) : std::move(words)});
  }
  if (random_.chance(30)) {
    job_.network.hang_up(line->end);
  } else if (random_.chance(20)) {
    job_.network.reset(line->end);
  }
}

/// What one end has said, from the beginning on; now and then with something of another one's behind it.
std::vector<std::string> Forger::choose_words() {
  if (heard_.empty()) {
    return {"nothing was said yet"};
  }
  auto const any = [this]() -> std::vector<std::string> const& {
    return heard_[static_cast<std::size_t>(random_.pick(0, static_cast<std::int64_t>(heard_.size()) - 1))];
  };
  auto words = any();
  words.resize(std::min(words.size(), static_cast<std::size_t>(random_.pick(1, kLongest))));
  if (random_.chance(50)) {
    words.push_back(any().back());
  }
  if (random_.chance(30)) {
    alter(words[static_cast<std::size_t>(random_.pick(0, static_cast<std::int64_t>(words.size()) - 1))]);
  }
  return words;
}

/// Another digit, mostly: of a rank, a number, a ballot.
void Forger::alter(std::string& text) {
  std::vector<std::size_t> digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] >= '0' && text[i] <= '9') {
      digits.push_back(i);
    }
  }
  if (digits.empty()) {
    text += "x";
  } else {
    text[digits[static_cast<std::size_t>(random_.pick(0, static_cast<std::int64_t>(digits.size()) - 1))]] =
        static_cast<char>('0' + random_.pick(0, 9));
  }
}

}  // namespace cxxrun::simulation
