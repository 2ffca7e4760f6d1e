#include "tests/simulation/forger.hpp"
#include "tests/simulation/hosted.hpp"
#include "tests/simulation/job.hpp"

namespace cxxrun::simulation {

namespace rdzv = cxxrun::rendezvous;

void Hosted::received(AgentId id, Frame const& frame) {
  auto const it = peers_.find(id);
  if (it == peers_.end()) {
    return;
  }
  Peer& peer = it->second;
  if (auto const* const raw = std::get_if<Raw>(&frame)) {
    received_raw(id, raw->bytes);
  } else if (auto const* const hello = std::get_if<rdzv::Hello>(&frame)) {
    greeted(id, peer, *hello);
  } else if (auto const* const message = std::get_if<rdzv::ToCoordinator>(&frame)) {
    if (peer.at == Peer::At::first) {
      first(id, peer, *message);
    } else if (peer.at == Peer::At::member) {
      said(id, *message);
    } else if (auto const* const gone = std::get_if<rdzv::Gone>(message); gone && peer.at == Peer::At::death_notice) {
      feed(rdzv::ConfirmedDead{*gone});
      forget(id);
    }
  } else if (auto const* const sign = std::get_if<rdzv::Beat>(&frame)) {
    beat(id, peer, *sign);
  }
}

/// What channel.cpp and coordinator.cpp do with the frame of one that has not proven itself.
void Hosted::received_raw(AgentId id, std::string const& bytes) {
  auto& guard = peers_.at(id).guard;
  if (!guard) {
    guard = rdzv::SecureChannel::of_called(Forger::key(), {});
  }
  auto const led_to = guard->on_frame(bytes);
  if (auto const* const back = std::get_if<rdzv::SendBack>(&led_to)) {
    job_.network.send(peers_.at(id).end, Raw{back->frame});
  } else if (std::holds_alternative<rdzv::WantsWraps>(led_to)) {
    job_.network.send(peers_.at(id).end, Raw{guard->answer({})});
  } else if (auto const* const note = std::get_if<rdzv::DeathNotice>(&led_to)) {
    auto const hello = note->payloads.empty() ? Result<rdzv::Hello>(fail(Errc::protocol, ""))
                                              : rdzv::decode<rdzv::Hello>(note->payloads[0]);
    if (!hello || hello->purpose != rdzv::Hello::Purpose::death_notice) {
      forget(id);
      return;
    }
    for (auto const& payload : note->payloads) {
      pass_on(id, payload);
    }
  } else if (auto const* const unsealed = std::get_if<rdzv::Unsealed>(&led_to)) {
    pass_on(id, unsealed->payload);
  } else if (job_.mutated(Mutation::unguarded)) {
    pass_on(id, bytes);
  } else {
    forget(id);
  }
}

void Hosted::pass_on(AgentId id, std::string const& payload) {
  auto const it = peers_.find(id);
  if (it == peers_.end()) {
    return;
  }
  auto const at = it->second.at;
  if (auto const hello = rdzv::decode<rdzv::Hello>(payload); at == Peer::At::hello && hello) {
    received(id, *hello);
  } else if (auto const beat = rdzv::decode<rdzv::Beat>(payload); at == Peer::At::beat && beat) {
    received(id, *beat);
  } else if (auto const message = rdzv::decode<rdzv::ToCoordinator>(payload); message) {
    received(id, *message);
  } else {
    forget(id);
  }
}

}  // namespace cxxrun::simulation
