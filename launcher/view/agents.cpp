#include "launcher/view/agents.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <set>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#include <variant>

#include "src/base/core/text.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher::view {
namespace {

constexpr std::size_t kMostAnswer = std::size_t{256} << 20U;  // 16,384 stacks of 100 frames

bool is_ours(std::string const& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && facts.st_uid == geteuid();
}

/// What a link of /proc says; "": it cannot be read.
std::string link_at(int folder, std::string const& name) {
  std::array<char, 64> target{};
  auto const length = readlinkat(folder, name.c_str(), target.data(), target.size());
  return {target.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

/// An agent has many descriptors: the kernel finds each one sooner by way of their directory.
std::set<std::uint64_t> sockets_of(std::string const& process) {
  constexpr std::string_view kSocket = "socket:[";
  std::set<std::uint64_t> inodes;
  auto const folder = os::Folder::above(process + "/fd/0");
  for (auto const& name : folder.names().value_or(std::vector<std::string>())) {
    auto const target = link_at(folder.get(), name);
    std::string_view const text = target;
    if (text.starts_with(kSocket) && text.ends_with(']')) {
      auto const number = text.substr(kSocket.size(), text.size() - kSocket.size() - 1);
      inodes.insert(number_in<std::uint64_t>(number).value_or(0));
    }
  }
  return inodes;
}

Error out_of_time() {
  return fail(Errc::timeout, "the agent on this node does not answer");
}

/// Sets the time limit of the next receive. False: no time is left.
bool set_patience(int connection, TimePoint until) {
  auto const ms = left_until(until).count();  // at least 1: 0 would mean no limit
  timeval const timeout{ms / 1000, static_cast<suseconds_t>(ms % 1000) * 1000};
  return Clock::now() < until && setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0;
}

Result<os::UniqueFd> call(AgentSocket const& agent, TimePoint until) {
  auto const ms = static_cast<int>(std::min(left_until(until), Millis{60'000}).count());
  if (agent.name.starts_with('@')) {
    return os::connect_local(agent.name.substr(1), ms);
  }
  // Through the agent's root, since a job may have a /tmp of its own; and through the directory's descriptor, since the
  // name of a socket must be short.
  auto const folder = os::Folder::above("/proc/" + std::to_string(agent.pid) + "/root" + agent.name);
  if (!folder) {
    return fail(errno == ENOENT ? Errc::closed : Errc::io, "cannot open the directory of " + agent.name, errno);
  }
  return os::connect_local("/proc/self/fd/" + std::to_string(folder.get()) + "/" + os::name_in(agent.name), ms);
}

}  // namespace

std::vector<ListeningSocket> listening_sockets(std::string_view table) {
  constexpr auto* kListens = " 00010000 0005 ";  // Flags: __SO_ACCEPTCON; Type: SOCK_SEQPACKET
  std::vector<ListeningSocket> found;
  for (auto const& line : split(table, '\n')) {  // Num: RefCount Protocol Flags Type St Inode Path
    if (line.find(kListens) == std::string::npos) {
      continue;  // as most: there may be thousands
    }
    std::vector<std::string> words;
    for (auto& word : split(line, ' ')) {
      if (!word.empty()) {
        words.push_back(std::move(word));
      }
    }
    auto const inode = words.size() == 8 ? number_in<std::uint64_t>(words[6]) : std::nullopt;
    if (inode && words[3] == "00010000" && words[4] == "0005") {
      found.push_back({*inode, words[7]});
    }
  }
  return found;
}

std::vector<AgentSocket> find_agents() {
  std::vector<AgentSocket> found;
  std::map<std::string, std::vector<ListeningSocket>> tables;  // by network namespace
  for (auto const& name : os::entries_of("/proc")) {
    auto const pid = number_in<pid_t>(name);
    auto const process = "/proc/" + name;
    if (!pid || !is_ours(process) || trim(os::read_text(process + "/comm")) != "cxxrun") {
      continue;
    }
    auto const inodes = sockets_of(process);
    if (inodes.empty()) {
      continue;
    }
    auto const [table, is_new] = tables.try_emplace(link_at(AT_FDCWD, process + "/ns/net"));
    if (is_new || table->first.empty()) {
      table->second = listening_sockets(os::read_text(process + "/net/unix"));
    }
    for (auto const& socket : table->second) {
      if (inodes.count(socket.inode) > 0) {
        found.push_back({*pid, socket.name});
      }
    }
  }
  return found;
}

Result<os::UniqueFd> begin_asking(AgentSocket const& agent, std::string const& question, TimePoint until) {
  auto connection = call(agent, until);
  bool const asked =
      connection && os::send_packet(connection->get(), encode(worker::FromWorker(worker::Question{question}))) >= 0;
  if (asked || (!connection && connection.error().code != Errc::closed)) {
    return connection;
  }
  return fail(Errc::closed, "the agent on this node has ended", connection ? errno : connection.error().os_errno);
}

Result<worker::Answer> next_part(int connection, TimePoint until) {
  if (!set_patience(connection, until)) {
    return out_of_time();
  }
  std::vector<char> bytes(worker::kMostBytes);
  os::UniqueFd none;
  auto const got = os::receive_packet(connection, bytes, none);
  if (got < 0 && errno == EAGAIN) {
    return out_of_time();
  }
  auto packet = got > 0 ? worker::decode_from_agent({bytes.data(), static_cast<std::size_t>(got)}) : std::nullopt;
  auto* const part = packet ? std::get_if<worker::Answer>(&*packet) : nullptr;
  return part != nullptr ? Result<worker::Answer>(std::move(*part)) : fail(Errc::closed, "no agent answers there");
}

Result<std::string> ask(AgentSocket const& agent, std::string const& question, TimePoint until) {
  auto const connection = begin_asking(agent, question, until);
  if (!connection) {
    return connection.error();
  }
  std::string answer;
  while (answer.size() < kMostAnswer) {
    auto const part = next_part(connection->get(), until);
    if (!part) {
      return part.error();
    }
    answer += part->text;
    if (!part->more) {
      return answer;
    }
  }
  return fail(Errc::protocol, "the answer does not end");
}

}  // namespace cxxrun::launcher::view
