#include "rendezvous/net/channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using boost::asio::ip::tcp;

namespace {

/// A Channel whose other end is a plain socket. Nothing is read before `end`.
struct Connection final : ChannelInbox {
  boost::asio::io_context io;
  tcp::acceptor acceptor{io, {boost::asio::ip::address_v4::loopback(), 0}};
  tcp::socket peer{io};
  int fd = -1;
  std::shared_ptr<Channel> channel;
  std::vector<std::string> frames;
  std::string how;
  Ended ended = Ended::silent;

  Connection() {
    peer.connect(acceptor.local_endpoint());
    auto accepted = acceptor.accept();
    fd = accepted.native_handle();
    channel = std::make_shared<Channel>(std::move(accepted));
    channel->start(std::shared_ptr<ChannelInbox>(channel, this), Channel::End::caller);
  }
  void on_frame(std::string payload) override { frames.push_back(std::move(payload)); }
  void on_closed(std::string why, Ended by) override {
    how = std::move(why);
    ended = by;
  }
  void close(bool reset) {
    peer.set_option(boost::asio::socket_base::linger(reset, 0));
    peer.close();
    await(reset ? POLLHUP : POLLRDHUP);
  }
  /// Waits until the kernel has seen the end.
  void await(int event) const {
    pollfd entry{fd, static_cast<short>(event), 0};
    do {
      REQUIRE(poll(&entry, 1, 10'000) == 1);
    } while ((entry.revents & event) == 0);
  }
  void end() {
    while (how.empty()) {
      REQUIRE(io.run_one_for(std::chrono::seconds(10)) == 1);
    }
  }
};

}  // namespace

TEST_CASE("channel: an orderly end is told from a reset, whether a read or a write meets it first", "[process]") {
  Connection connection;
  SECTION("closed") {
    connection.close(false);
    connection.end();
    CHECK(connection.ended == Ended::in_order);
    CHECK(connection.how == "end of file");
  }
  SECTION("closed, and what is written after that is answered by a reset") {
    connection.close(false);
    connection.channel->send("one");
    connection.await(POLLHUP);
    connection.channel->send("two");
    connection.end();
    CHECK(connection.ended == Ended::in_order);
    CHECK(connection.how == "end of file");
  }
  SECTION("reset") {
    connection.close(true);
    connection.end();
    CHECK(connection.ended == Ended::broken);
    CHECK(connection.how == "connection reset");
  }
  SECTION("reset, which a write meets: the kernel lets the reads after that find an orderly end") {
    connection.close(true);
    connection.channel->send("one");
    connection.channel->send("two");
    connection.end();
    CHECK(connection.ended == Ended::broken);
    CHECK(connection.how == "connection reset");
  }
}

TEST_CASE("channel: what the other end said before it ended is read, though a write has failed", "[process]") {
  Connection connection;
  auto const frame = wire::frame("last words");
  REQUIRE(send(connection.peer.native_handle(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
  bool const reset = GENERATE(false, true);
  connection.close(reset);
  connection.channel->send("one");
  connection.await(POLLHUP);
  connection.channel->send("two");
  connection.end();
  CHECK(connection.frames == std::vector<std::string>{"last words"});
  CHECK(connection.ended == (reset ? Ended::broken : Ended::in_order));
}

TEST_CASE("channel: an end that was wanted says goodbye, and one that was not does not", "[process]") {
  Connection connection;
  auto const goodbye = wire::frame("");
  SECTION("the other end has said it, whatever its kernel says then") {
    REQUIRE(send(connection.peer.native_handle(), goodbye.data(), goodbye.size(), 0) == 4);
    bool const reset = GENERATE(false, true);
    connection.close(reset);
    connection.end();
    CHECK(connection.ended == Ended::goodbye);
    CHECK(connection.frames.empty());
  }
  SECTION("this end says it, behind what was said before") {
    auto const spoken = wire::frame("word");
    REQUIRE(send(connection.peer.native_handle(), spoken.data(), spoken.size(), 0) == 8);
    while (connection.frames.empty()) {
      REQUIRE(connection.io.run_one_for(std::chrono::seconds(10)) == 1);
    }
    connection.channel->send("one");
    bool const at_once = GENERATE(false, true);
    at_once ? connection.channel->close() : connection.channel->close_after_flush();
    std::string heard(64, '\0');
    boost::system::error_code error;
    heard.resize(boost::asio::read(connection.peer, boost::asio::buffer(heard), error));
    CHECK(heard == wire::frame("one") + goodbye);
  }
  SECTION("not to whoever has said nothing") {
    connection.channel->close();
    std::string heard(64, '\0');
    boost::system::error_code error;
    CHECK(boost::asio::read(connection.peer, boost::asio::buffer(heard), error) == 0);
  }
}
