// Names of the enumerations in the messages' JSON text. Private to messages_write.cpp, messages_read.cpp and
// message_fields.
#pragma once

#include <cstddef>

#include <nlohmann/json.hpp>

#include "rendezvous/protocol/messages.hpp"

namespace cxxrun::rendezvous {

using Json = nlohmann::json;

inline char const* name_of(StopKind kind) {
  switch (kind) {
    case StopKind::failure: return "failure";
    case StopKind::resize: return "resize";
    case StopKind::user: return "user";
  }
  return "failure";
}

inline char const* name_of(ExitStatus::Kind kind) {
  switch (kind) {
    case ExitStatus::Kind::exited: return "exited";
    case ExitStatus::Kind::signalled: return "signalled";
    case ExitStatus::Kind::not_started: return "not_started";
  }
  return "exited";
}

inline char const* name_of(HelloReply::Why why) {
  switch (why) {
    case HelloReply::Why::accepted: return "accepted";
    case HelloReply::Why::other_job: return "other_job";
    case HelloReply::Why::other_version: return "other_version";
  }
  return "accepted";
}

inline char const* name_of(Hello::Asks asks) {
  switch (asks) {
    case Hello::Asks::meet: return "meet";
    case Hello::Asks::open: return "open";
    case Hello::Asks::reopen: return "reopen";
    case Hello::Asks::enter: return "enter";
    case Hello::Asks::follow: return "follow";
  }
  return "meet";
}

inline char const* name_of(Hello::Purpose purpose) {
  switch (purpose) {
    case Hello::Purpose::agent: return "agent";
    case Hello::Purpose::beat: return "beat";
    case Hello::Purpose::will: return "will";
  }
  return "agent";
}

inline char const* name_of(Tie tie) {
  switch (tie) {
    case Tie::rank: return "rank";
    case Tie::fence: return "fence";
    case Tie::none: return "none";
  }
  return "rank";
}

}  // namespace cxxrun::rendezvous
