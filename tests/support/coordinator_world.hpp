// Coordinators and agents' links in one process, over real sockets: what the tests of the shells are made of.
#pragma once

#include <arpa/inet.h>
#include <chrono>
#include <functional>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "rendezvous/net/coordinator.hpp"
#include "rendezvous/net/coordinator_link.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/wire/frame.hpp"

namespace cxxrun::test {

inline constexpr std::chrono::seconds kGuard(60);

/// The loop runs only in here, so that nothing happens between two lines of a test.
inline bool wait_until(boost::asio::io_context& io, std::function<bool()> const& condition) {
  auto const deadline = Clock::now() + kGuard;
  while (!condition()) {
    if (Clock::now() > deadline) {
      return false;
    }
    io.restart();
    io.run_one_for(std::chrono::milliseconds(20));
  }
  return true;
}

/// A socket that is bound to a free port of every address, as an agent's standby port is.
inline os::UniqueFd bound_socket(std::uint16_t& port, bool v6 = true) {
  os::UniqueFd socket(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 six{};
  sockaddr_in four{};
  six.sin6_family = AF_INET6;
  four.sin_family = AF_INET;
  int const off = 0;
  ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  auto* const address = v6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
  socklen_t size = v6 ? sizeof six : sizeof four;
  if (::bind(socket.get(), address, size) != 0 || ::getsockname(socket.get(), address, &size) != 0) {
    return {};
  }
  port = ntohs(v6 ? six.sin6_port : four.sin_port);
  return socket;
}

/// Whoever calls without being an agent.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  [[nodiscard]] bool connected() const { return connected_; }
  void write(std::string const& bytes) { (void)!::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void say(std::string const& payload) { write(wire::frame(payload)); }
  /// What has come by now.
  std::string const& heard() {
    char bytes[4096];
    ssize_t size = 0;
    while ((size = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
      heard_.append(bytes, static_cast<std::size_t>(size));
    }
    ended_ = ended_ || size == 0 || (size < 0 && errno != EAGAIN);
    return heard_;
  }
  [[nodiscard]] bool ended() {
    heard();
    return ended_;
  }

 private:
  os::UniqueFd socket_;
  std::string heard_;
  bool connected_ = false;
  bool ended_ = false;
};

/// One link and everything that it has heard.
class Caller final : rendezvous::LinkInbox {
 public:
  Caller(boost::asio::io_context& io, std::string nonce) : nonce_(std::move(nonce)), link_(io, *this) {}

  [[nodiscard]] rendezvous::CallPlan plan(std::vector<std::uint16_t> ports, rendezvous::Terms const& terms) const {
    rendezvous::CallPlan plan;
    plan.addresses = {"127.0.0.1"};
    plan.ports = std::move(ports);
    plan.run_id = "job";
    plan.node.incarnation = nonce_;
    plan.node.host = "host-" + nonce_;
    plan.terms = terms;
    return plan;
  }
  [[nodiscard]] rendezvous::CallPlan follow(std::uint16_t port) const {
    auto plan = this->plan({port}, {});
    plan.asks = rendezvous::Hello::Asks::follow;
    plan.once = true;
    return plan;
  }
  void call(rendezvous::CallPlan plan) { link_.call(std::move(plan)); }
  rendezvous::CoordinatorLink& link() { return link_; }

  template <class Message>
  [[nodiscard]] Message const* heard() const {
    for (auto const& message : messages) {
      if (auto const* found = std::get_if<Message>(&message)) {
        return found;
      }
    }
    return nullptr;
  }

  std::optional<rendezvous::HelloReply> reply;
  std::optional<Error> failed;
  bool refused = false;
  std::vector<rendezvous::ToAgent> messages;
  std::vector<rendezvous::BeatAck> acks;
  std::optional<std::string> closed;
  rendezvous::Ended ended = rendezvous::Ended::silent;

 private:
  void on_joined(rendezvous::HelloReply const& answer) override { reply = answer; }
  void on_failed(Error error, bool by_host) override {
    failed = std::move(error);
    refused = by_host;
  }
  void on_message(rendezvous::ToAgent message) override { messages.push_back(std::move(message)); }
  void on_beat(rendezvous::BeatAck const& ack) override { acks.push_back(ack); }
  void on_closed(std::string how, rendezvous::Ended by) override {
    closed = std::move(how);
    ended = by;
  }

  std::string nonce_;
  rendezvous::CoordinatorLink link_;
};

/// A coordinator, and what it has told.
class Host final : rendezvous::CoordinatorInbox {
 public:
  explicit Host(boost::asio::io_context& io, std::string nonce = "host",
                std::shared_ptr<rendezvous::KeyRing> keys = nullptr)
      : coordinator(io, stores_, config(std::move(nonce), std::move(keys)), *this) {}

  std::vector<std::string> stepped_down;
  std::optional<rendezvous::Verdict> verdict;
  bool closed = false;

 private:
  static rendezvous::CoordinatorConfig config(std::string nonce, std::shared_ptr<rendezvous::KeyRing> keys) {
    rendezvous::CoordinatorConfig config;
    config.nonce = std::move(nonce);
    config.keys = std::move(keys);
    return config;
  }
  void on_concluded(std::string const& /*run_id*/, rendezvous::Verdict const& end) override { verdict = end; }
  void on_run_closed() override { closed = true; }
  void on_stepped_down(rendezvous::SteppedDown const& action) override { stepped_down.push_back(action.why); }
  store::StoreServer stores_;

 public:
  rendezvous::Coordinator coordinator;
};

}  // namespace cxxrun::test
