#include "src/base/os/socket_owners.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/tcp_sockets.hpp"

namespace cxxrun::os {
namespace {

constexpr std::size_t kMostTable = 64UL << 20U;  // of /proc/net/tcp: 400,000 sockets
constexpr auto kTables = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

/// The socket with these two ends, or what else the kernel answers: a listener on the port, or the rest of a connection
/// that has ended.
std::optional<SeenSocket> ask(int netlink, TcpEnds const& ends) {
  bool const v4 = is_v4(ends.caller) && is_v4(ends.called);
  Question question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.body.sdiag_family = v4 ? AF_INET : AF_INET6;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = ~0U;
  auto& id = question.body.id;
  id.idiag_sport = htons(ends.caller.port);
  id.idiag_dport = htons(ends.called.port);
  std::memcpy(id.idiag_src, ends.caller.address.data() + (v4 ? 12 : 0), v4 ? 4 : 16);
  std::memcpy(id.idiag_dst, ends.called.address.data() + (v4 ? 12 : 0), v4 ? 4 : 16);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (::send(netlink, &question, sizeof question, 0) != sizeof question) {
    return std::nullopt;
  }
  struct {
    nlmsghdr header;
    inet_diag_msg body;
    std::array<char, 4096> attributes;
  } answer{};
  auto const got = ::recv(netlink, &answer, sizeof answer, MSG_DONTWAIT);  // the answer is there when send() returns
  if (got < static_cast<ssize_t>(offsetof(decltype(answer), attributes)) ||
      answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return std::nullopt;
  }
  auto const& body = answer.body;
  auto const end = [&](__be32 const* address, __be16 port) {
    return tcp_end(reinterpret_cast<std::uint8_t const*>(address), body.idiag_family == AF_INET, ntohs(port));
  };
  return SeenSocket{{end(body.id.idiag_src, body.id.idiag_sport), end(body.id.idiag_dst, body.id.idiag_dport)},
                    body.idiag_state == TCP_ESTABLISHED,
                    body.idiag_uid,
                    body.idiag_inode};
}

std::string text_of(char const* path) {
  UniqueFd const file(::open(path, O_RDONLY | O_CLOEXEC));
  return file ? read_all(file.get(), kMostTable).value_or("") : "";
}

std::vector<SeenSocket> read_tables() {
  std::vector<SeenSocket> all;
  for (char const* const path : kTables) {
    std::string const text = text_of(path);
    for (std::string_view rest = text; !rest.empty();) {
      auto const line = rest.substr(0, rest.find('\n'));
      if (auto const seen = parse_socket_line(line)) {
        all.push_back(*seen);
      }
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
  }
  return all;
}

}  // namespace

Result<SocketOwners> SocketOwners::open() {
  SocketOwners made;
  made.own_ = ::geteuid();
  auto const overflow = number_in<std::uint32_t>(trim(text_of("/proc/sys/kernel/overflowuid"))).value_or(65534);
  if (!tells_users_apart(made.own_, overflow, text_of("/proc/self/uid_map"))) {
    return fail(Errc::permission,
                "in this user namespace every user shows as uid " + std::to_string(overflow) + ", its own, too");
  }
  // A listening socket is listed even without a network.
  UniqueFd const probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (!probe || bind_somewhere(probe.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 ||
      ::listen(probe.get(), 1) != 0) {
    return fail(Errc::io, "there is no socket or no port to test with", errno);
  }
  made.netlink_.reset(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (made.finds(probe.get())) {
    return made;
  }
  made.netlink_.reset();
  if (made.finds(probe.get())) {
    return made;
  }
  return fail(Errc::io, "neither INET_DIAG nor /proc/net/tcp shows sockets here");
}

bool SocketOwners::finds(int listener) {
  struct stat status {};
  if (::fstat(listener, &status) != 0) {
    return false;
  }
  auto const is_it = [&](SeenSocket const& seen) { return seen.inode == status.st_ino && seen.uid == own_; };
  if (!netlink_) {
    auto const all = read_tables();
    return std::any_of(all.begin(), all.end(), is_it);
  }
  std::array<std::uint8_t, 4> const nowhere{};
  TcpEnd const end = tcp_end(nowhere.data(), true, port_of(listener));
  auto const seen = ask(netlink_.get(), {end, end});
  return seen && is_it(*seen);
}

std::vector<std::optional<SeenSocket>> SocketOwners::find(std::vector<TcpEnds> const& connections) {
  std::vector<std::optional<SeenSocket>> found(connections.size());
  if (netlink_) {
    std::transform(connections.begin(), connections.end(), found.begin(),
                   [this](TcpEnds const& ends) { return ask(netlink_.get(), ends); });
    return found;
  }
  auto const all = read_tables();
  for (std::size_t i = 0; i < connections.size(); ++i) {
    auto const it = std::find_if(all.begin(), all.end(), [&](auto const& seen) { return seen.ends == connections[i]; });
    if (it != all.end()) {
      found[i] = *it;
    }
  }
  return found;
}

}  // namespace cxxrun::os
