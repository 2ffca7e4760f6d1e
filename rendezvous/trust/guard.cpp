#include "rendezvous/trust/guard.hpp"

#include <utility>

#include "src/base/wire/frame.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::string_view kNote =
    "\x01"
    "cxxnote";
constexpr std::string_view kNotePurpose = "cxxrun note";

Heard read_note(Key const& key, std::string_view note) {
  note.remove_prefix(kNote.size());
  if (note.size() < kProofBytes ||
      !proves(derive(key, kNotePurpose), note.substr(kProofBytes), note.substr(0, kProofBytes))) {
    return Broken{"it does not know this job's key"};
  }
  Note read;
  wire::FrameReader reader;
  reader.feed(note.substr(kProofBytes));
  for (auto next = reader.next(); next && next->has_value(); next = reader.next()) {
    read.payloads.push_back(*std::move(*next));
  }
  return read;
}

}  // namespace

Guard Guard::of_caller(Fresh const& fresh, KeyId const& knows) {
  Guard guard(fresh);
  guard.caller_ = true;
  guard.call_ = write_call({fresh, knows});
  return guard;
}

Guard Guard::of_called(std::optional<Key> key, Fresh const& fresh) {
  Guard guard(fresh);
  guard.key_ = std::move(key);
  return guard;
}

Heard Guard::hear(std::string_view frame) {
  if (!opener_) {
    return begin(frame);
  }
  auto payload = opener_->open(frame);
  if (!payload) {
    return Broken{proven_ ? "a frame was altered on its way" : "it does not know this job's key"};
  }
  proven_ = true;
  return Unsealed{*std::move(payload)};
}

Heard Guard::begin(std::string_view frame) {
  if (caller_) {
    if (!answer_.empty()) {
      return Broken{"it speaks before its turn"};
    }
    auto answer = read_answer(frame);
    if (!answer) {
      return Broken{answer.error().message()};
    }
    answer_ = frame;
    return WantsKey{*std::move(answer)};
  }
  if (!key_) {
    return Broken{"this agent has no key yet"};
  }
  if (frame.starts_with(kNote)) {
    return read_note(*key_, frame);
  }
  if (!call_.empty()) {
    return Broken{"it speaks before its turn"};
  }
  auto const call = read_call(frame);
  if (!call) {
    return Broken{call.error().message()};
  }
  call_ = frame;
  return call->knows == id_of(*key_) ? Heard(SendBack{answer({})}) : Heard(WantsWraps{id_of_call(call_)});
}

std::string Guard::answer(std::vector<Wrap> wraps) {
  answer_ = write_answer({fresh_, id_of(*key_), std::move(wraps)});
  give(*key_);
  return answer_;
}

void Guard::give(Key const& key) {
  ChannelKeys const keys = channel_keys(key, call_, answer_);
  sealer_.emplace(caller_ ? keys.caller : keys.called);
  opener_.emplace(caller_ ? keys.called : keys.caller);
}

std::string write_note(Key const& key, std::vector<std::string> const& payloads) {
  std::string words;
  for (auto const& payload : payloads) {
    words += wire::frame(payload);
  }
  return std::string(kNote).append(proof_of(derive(key, kNotePurpose), words)).append(words);
}

}  // namespace cxxrun::rendezvous
