#include "launcher/view/page_server.hpp"

#include <optional>
#include <set>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include "src/base/os/timer.hpp"

#include "page_text.hpp"

namespace cxxrun::launcher::view {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Text = std::shared_ptr<std::string const>;

namespace {

constexpr std::uint32_t kMostHeader = 8192;
constexpr std::size_t kMostViewers = 64;
constexpr std::size_t kMostCallers = 256;
constexpr int kSendBuffer = 128 << 10;  // who does not read is noticed, and takes little of the kernel's memory
constexpr std::chrono::seconds kForRequest{30};
constexpr std::chrono::seconds kForWrite{10};
constexpr std::chrono::seconds kForFarewell{2};
constexpr Millis kNoDescriptor{200};

Text as_chunk(std::string const& text) {
  constexpr char const* kDigits = "0123456789abcdef";
  std::string size;
  for (auto left = text.size(); left > 0; left /= 16) {
    size.insert(size.begin(), kDigits[left % 16]);
  }
  return std::make_shared<std::string const>(size + "\r\n" + text + "\r\n");
}

/// Of what the parser does not take.
unsigned status_of(boost::system::error_code const& error) {
  return error == http::error::header_limit || error == http::error::buffer_overflow ? 431 : 400;
}

}  // namespace

struct PageServer::State {
  explicit State(asio::io_context& io) : acceptor(io), again(io) {}

  static void accept(std::shared_ptr<State> const& state);

  tcp::acceptor acceptor;
  os::Timer again;
  std::string token;
  Ask ask;
  Text all;  ///< as chunks; null: nothing is known yet
  Text tick;
  std::uint64_t version = 0;  ///< of both
  bool over = false;
  std::size_t callers = 0;
  std::set<std::shared_ptr<Caller>> viewers;  ///< who may have nothing under way
};

/// A connection. It exists as long as something is done or awaited on it.
class PageServer::Caller : public std::enable_shared_from_this<Caller> {
 public:
  Caller(tcp::socket socket, std::shared_ptr<State> server) : server_(std::move(server)), stream_(std::move(socket)) {
    ++server_->callers;
  }
  ~Caller() { --server_->callers; }
  Caller(Caller const&) = delete;
  Caller& operator=(Caller const&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(kMostHeader);
    stream_.expires_after(kForRequest);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](auto const& error, std::size_t) { self->on_read(error); });
  }

  /// To a viewer: what it has not got yet. One that has missed something gets the whole.
  void tell() {
    if (writes_) {
      return;
    }
    if (told_ == server_->version) {
      return server_->over ? finish() : void();
    }
    bool const next = told_ != 0 && told_ + 1 == server_->version;
    told_ = server_->version;
    write(next ? server_->tick : server_->all, [this] { tell(); });
  }

 private:
  void on_read(boost::system::error_code const& error) {
    if (error == http::error::end_of_stream || error == http::error::partial_message ||
        (error && error.category() != http::make_error_code(http::error::bad_method).category())) {
      return;  // it is gone, or was too slow
    }
    auto const& request = parser_->get();
    keeps_ = !error && request.keep_alive();
    if (error || !parser_->is_done()) {  // it has a body, which nothing here takes
      return refuse(error ? status_of(error) : 413);
    }
    auto const view = [](auto const& text) { return std::string_view(text.data(), text.size()); };
    auto const verdict = judge_request({request.method() == http::verb::get, view(request.target()),
                                        view(request["X-Cxxrun-Token"]), view(request[http::field::authorization])},
                                       server_->token);
    switch (verdict.route) {
      case PageRoute::refused: return refuse(verdict.status);
      case PageRoute::page: return answer({200, "text/html; charset=utf-8", kPageText});
      case PageRoute::healthz: return answer({200, "text/plain", "ok\n"});
      case PageRoute::icon: return answer({204, "image/x-icon", ""});
      case PageRoute::live: return view_live();
      default: break;
    }
    // One that has gone is noticed when it is written to.
    server_->ask(verdict, [self = shared_from_this()](PageAnswer made) { self->answer(std::move(made)); });
  }

  void refuse(unsigned status) {
    keeps_ = false;
    answer({status, "text/plain", page_reason(status) + std::string("\n")});
  }

  void answer(PageAnswer made) {
    auto head = page_head(made.status, made.type, made.body.size(), keeps_, kPagePolicy);
    write(std::make_shared<std::string const>(std::move(head) + made.body), [this] { keeps_ ? read() : finish(); });
  }

  void view_live() {
    if (server_->viewers.size() >= kMostViewers || server_->over) {
      return refuse(503);
    }
    server_->viewers.insert(shared_from_this());
    keeps_ = false;
    write(std::make_shared<std::string const>(page_head(200, "text/event-stream", {}, false, kPagePolicy)),
          [this] { tell(); });
    server_->ask({PageRoute::live, 200, 0}, {});
  }

  template <class Next>
  void write(Text text, Next next) {
    writes_ = true;
    stream_.expires_after(kForWrite);
    asio::async_write(stream_, asio::buffer(*text),
                      [self = shared_from_this(), text, next](boost::system::error_code const& error, std::size_t) {
                        self->writes_ = false;
                        self->stream_.expires_never();
                        error ? self->leave() : next();
                      });
  }

  /// Closes when the other side has: else the kernel might throw away what is on its way.
  void finish() {
    boost::system::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    leave();
    drain();
  }
  void leave() { server_->viewers.erase(shared_from_this()); }
  void drain() {
    buffer_.clear();
    stream_.expires_after(kForFarewell);
    stream_.async_read_some(buffer_.prepare(kMostHeader),
                            [self = shared_from_this()](boost::system::error_code const& error, std::size_t) {
                              error ? void() : self->drain();
                            });
  }

  std::shared_ptr<State> server_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_{2 * kMostHeader};
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::uint64_t told_ = 0;  ///< the version that it has
  bool keeps_ = false;
  bool writes_ = false;
};

void PageServer::State::accept(std::shared_ptr<State> const& state) {
  state->acceptor.async_accept([state](boost::system::error_code const& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || !state->acceptor.is_open()) {
      return;
    }
    if (error) {
      return state->again.after(kNoDescriptor, [state] { accept(state); });
    }
    if (state->callers < kMostCallers) {
      boost::system::error_code ignored;
      socket.set_option(asio::socket_base::send_buffer_size(kSendBuffer), ignored);
      std::make_shared<Caller>(std::move(socket), state)->read();
    }
    accept(state);
  });
}

Result<std::unique_ptr<PageServer>> PageServer::open(asio::io_context& io, std::uint16_t port, std::string token,
                                                     Ask ask) {
  auto state = std::make_shared<State>(io);
  state->token = std::move(token);
  state->ask = std::move(ask);
  auto const local = asio::ip::address_v4::loopback();
  boost::system::error_code error;
  state->acceptor.open(tcp::v4(), error);
  if (!error) {
    state->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    state->acceptor.bind({local, port}, error);
  }
  if (!error) {
    state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  }
  if (error) {
    return fail(error == asio::error::address_in_use  ? Errc::in_use
                : error == asio::error::access_denied ? Errc::permission
                                                      : Errc::io,
                "cannot listen on 127.0.0.1:" + std::to_string(port), error.value());
  }
  State::accept(state);
  return std::unique_ptr<PageServer>(new PageServer(std::move(state)));
}

PageServer::~PageServer() {
  state_->viewers.clear();  // they refer to it
}

std::uint16_t PageServer::port() const {
  boost::system::error_code ignored;
  return state_->acceptor.local_endpoint(ignored).port();
}
std::size_t PageServer::viewers() const {
  return state_->viewers.size();
}

void PageServer::publish(std::string const& all, std::string const& tick) {
  state_->all = as_chunk(all);
  state_->tick = as_chunk(tick);
  ++state_->version;
  for (auto const& viewer : std::set(state_->viewers)) {
    viewer->tell();
  }
}

void PageServer::end(std::string const& event) {
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
  state_->over = true;
  auto const last = as_chunk(event);
  state_->all = state_->tick = std::make_shared<std::string const>(*last + "0\r\n\r\n");
  ++state_->version;
  for (auto const& viewer : std::set(state_->viewers)) {
    viewer->tell();
  }
}

}  // namespace cxxrun::launcher::view
