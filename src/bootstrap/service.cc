#include "bootstrap/service.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "base/endpoint.h"

namespace kvferry::bootstrap {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
constexpr std::size_t kMostDrained = 1U << 20;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

struct BootstrapService::Rep {
  explicit Rep(ServiceOptions o) : options(std::move(o)), routes(options.limits, options.server) {}

  asio::awaitable<void> accept_loop();
  asio::awaitable<void> session(tcp::socket socket);
  asio::awaitable<bool> begins(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                               std::chrono::milliseconds);
  asio::awaitable<void> drain(beast::tcp_stream& stream);
  void note_end(error_code ec);
  asio::awaitable<bool> exchange(beast::tcp_stream& stream, beast::flat_buffer& buffer);
  HttpReply refused(error_code ec);
  HttpReply handled(const http::request<http::string_body>& request);
  ServiceCounters snapshot() const;

  ServiceOptions options;
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  std::string endpoint;
  std::thread thread;
  mutable std::mutex mutex;  // guards routes and counts: read by other threads
  Routes routes;
  ServiceCounters counts;    // its own part only; routes and registry keep theirs
};

namespace {

// A name for this life of the server; it is only compared.
Incarnation draw_incarnation() {
  std::random_device device;
  const std::uint64_t high = device(), low = device();
  return {0, high << 32U | low | 1U};
}

tl::unexpected<Error> cannot_listen(const std::string& listen, const char* step, const error_code& ec) {
  std::string fix;
  if (ec == asio::error::address_in_use)
    fix = "; stop the process that listens there, or choose another port (0: any)";
  if (ec == asio::error::access_denied) fix = "; ports below 1024 need a privilege, choose a higher one";
  if (ec.value() == EADDRNOTAVAIL)
    fix = "; this host has no such address: listen on one of its own, or on 0.0.0.0";
  return fail(Code::kEnvironment, Who::kConfig, Next::kAfterFix, "bootstrap server: listen on " + listen,
              std::string(step) + ": " + ec.message() + fix, ec.value());
}

Result<tcp::endpoint> address_of(asio::io_context& context, const HostPort& where,
                                 const std::string& listen) {
  if (is_any_host(where.host))
    return tcp::endpoint(where.host == "0.0.0.0" ? tcp::endpoint(tcp::v4(), where.port)
                                                 : tcp::endpoint(tcp::v6(), where.port));
  error_code ec;
  const auto numeric = asio::ip::make_address(where.host, ec);
  if (!ec) return tcp::endpoint(numeric, where.port);
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(where.host, std::to_string(where.port), ec);
  if (ec || found.empty()) return cannot_listen(listen, "the name is not known here", ec);
  return found.begin()->endpoint();
}

Result<> open_acceptor(tcp::acceptor& acceptor, tcp::endpoint where, const ServiceOptions& options) {
  constexpr std::chrono::milliseconds kStep{10};
  for (std::chrono::milliseconds waited{0};; waited += kStep) {
    error_code ec;
    acceptor.open(where.protocol(), ec);
    if (ec == asio::error::address_family_not_supported && where.address().is_unspecified() &&
        where.port() != 0) {
      where = tcp::endpoint(tcp::v4(), where.port());  // a host without IPv6
      acceptor.open(where.protocol(), ec);
    }
    if (ec) return cannot_listen(options.listen, "socket", ec);
    acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
    if (where.address().is_v6())
      acceptor.set_option(asio::ip::v6_only(!where.address().is_unspecified()), ec);
    const char* step = "bind";
    acceptor.bind(where, ec);
    if (!ec) {
      step = "listen";
      acceptor.listen(asio::socket_base::max_listen_connections, ec);
    }
    if (!ec) return {};
    error_code ignored;
    acceptor.close(ignored);
    if (ec != asio::error::address_in_use || waited >= options.bind_patience)
      return cannot_listen(options.listen, step, ec);
    std::this_thread::sleep_for(kStep);
  }
}

Result<> check(const ServiceOptions& o) {
  const auto bad = [](const char* name, std::uint64_t value, const char* limit) {
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, std::string(name) + " " + std::to_string(value),
                std::string("must be ") + limit);
  };
  if (o.max_connections == 0) return bad("max_connections", 0, "at least 1");
  if (o.max_header < 1024) return bad("max_header", o.max_header, "at least 1024 bytes");
  if (o.max_body < 1024) return bad("max_body", o.max_body, "at least 1024 bytes");
  return {};
}

// The parser's own verdicts are answered; what the socket said is not.
bool is_for_the_sender(error_code ec) {
  return ec.category() == http::make_error_code(http::error::bad_value).category() &&
         ec != http::error::end_of_stream && ec != http::error::partial_message;
}

}  // namespace

void BootstrapService::Rep::note_end(error_code ec) {
  if (ec != beast::error::timeout) return;
  const std::lock_guard lock(mutex);
  ++counts.connections_timed_out;
}

HttpReply BootstrapService::Rep::refused(error_code ec) {
  const std::lock_guard lock(mutex);
  if (ec == http::error::body_limit)
    return routes.refuse(413,
                         "the body is above the limit of " + std::to_string(options.max_body) + " bytes");
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow)
    return routes.refuse(431,
                         "the header is above the limit of " + std::to_string(options.max_header) + " bytes");
  return routes.refuse(400, "not HTTP/1.1: " + ec.message());
}

HttpReply BootstrapService::Rep::handled(const http::request<http::string_body>& request) {
  const std::lock_guard lock(mutex);
  const auto method = request.method_string();
  const auto target = request.target();
  if (target == "/metrics") {
    routes.add_metric("kvferry_bootstrap_connections", "Open connections.", true, counts.connections);
    routes.add_metric("kvferry_bootstrap_connections_accepted_total", "Connections.", false,
                      counts.connections_accepted);
    routes.add_metric("kvferry_bootstrap_connections_refused_total", "Connections above the limit.", false,
                      counts.connections_refused);
    routes.add_metric("kvferry_bootstrap_connections_timed_out_total",
                      "Connections that stalled in a request.", false, counts.connections_timed_out);
  }
  return routes.handle({{method.data(), method.size()}, {target.data(), target.size()}, request.body()},
                       options.clock->now());
}

ServiceCounters BootstrapService::Rep::snapshot() const {
  const std::lock_guard lock(mutex);
  ServiceCounters out = counts;
  out.routes = routes.counters();
  out.registry = const_cast<Routes&>(routes).registry().counters();
  return out;
}

// One request and its answer; false: the connection ends.
asio::awaitable<bool> BootstrapService::Rep::exchange(beast::tcp_stream& stream, beast::flat_buffer& buffer) {
  stream.expires_after(options.request_timeout);
  http::request_parser<http::string_body> parser;
  parser.header_limit(options.max_header);
  parser.body_limit(options.max_body);
  const auto [read_error, read_bytes] = co_await http::async_read(stream, buffer, parser, kTuple);
  if (read_error && !is_for_the_sender(read_error)) {
    note_end(read_error);
    co_return false;  // gone or stalled: nobody is there to answer
  }
  const HttpReply reply = read_error ? refused(read_error) : handled(parser.get());
  const unsigned version = read_error ? 11 : parser.get().version();
  http::response<http::string_body> response(static_cast<http::status>(reply.status), version);
  response.set(http::field::content_type, reply.content_type);
  if (*reply.allow != '\0') response.set(http::field::allow, reply.allow);
  response.keep_alive(!read_error && parser.get().keep_alive());
  response.body() = reply.body;
  response.prepare_payload();
  const bool keep = response.keep_alive();
  stream.expires_after(options.request_timeout);
  const auto [write_error, written] = co_await http::async_write(stream, response, kTuple);
  co_return !write_error && keep;
}

// Waits for the first bytes of the next request; false: the connection ends.
asio::awaitable<bool> BootstrapService::Rep::begins(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                                    std::chrono::milliseconds patience) {
  if (buffer.size() > 0) co_return true;  // pipelined
  stream.expires_after(patience);
  const auto [ec, n] = co_await stream.async_read_some(buffer.prepare(1024), kTuple);
  if (!ec) buffer.commit(n);
  co_return !ec;
}

// A close with unread bytes would reset the connection and take the answer with it.
asio::awaitable<void> BootstrapService::Rep::drain(beast::tcp_stream& stream) {
  error_code ec;
  stream.socket().shutdown(tcp::socket::shutdown_send, ec);
  stream.expires_after(std::chrono::seconds(1));
  std::array<char, 4096> waste{};
  for (std::size_t total = 0; !ec && total < kMostDrained;) {
    const auto [read_error, n] = co_await stream.async_read_some(asio::buffer(waste), kTuple);
    ec = read_error;
    total += n;
  }
}

asio::awaitable<void> BootstrapService::Rep::session(tcp::socket socket) {
  error_code ec;
  socket.set_option(tcp::no_delay(true), ec);
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer(options.max_header + options.max_body);
  bool more = co_await begins(stream, buffer, options.request_timeout);
  while (more) {
    more = co_await exchange(stream, buffer);
    if (more) more = co_await begins(stream, buffer, options.idle_timeout);
  }
  co_await drain(stream);
  const std::lock_guard lock(mutex);
  --counts.connections;
}

asio::awaitable<void> BootstrapService::Rep::accept_loop() {
  asio::steady_timer pause(context);
  for (;;) {
    auto [ec, socket] = co_await acceptor.async_accept(kTuple);
    if (ec == asio::error::operation_aborted) co_return;
    if (ec) {  // no descriptor left: try again a little later
      pause.expires_after(std::chrono::milliseconds(20));
      co_await pause.async_wait(kTuple);
      continue;
    }
    bool room = false;
    {
      const std::lock_guard lock(mutex);
      room = counts.connections < options.max_connections;
      ++(room ? counts.connections_accepted : counts.connections_refused);
      if (room) ++counts.connections;
    }
    if (room) asio::co_spawn(context, session(std::move(socket)), asio::detached);
  }
}

BootstrapService::BootstrapService(std::shared_ptr<Rep> rep) : rep_(std::move(rep)) {}
BootstrapService::~BootstrapService() { stop(); }

Result<std::unique_ptr<BootstrapService>> BootstrapService::start(ServiceOptions options) {
  if (auto ok = check(options); !ok) return tl::unexpected(ok.error());
  const auto where = parse_host_port(options.listen, "listen");
  if (!where) return tl::unexpected(where.error());
  if (!options.clock) options.clock = std::make_shared<SystemClock>();
  if (!options.server.known()) options.server = draw_incarnation();
  auto rep = std::make_shared<Rep>(std::move(options));
  const auto address = address_of(rep->context, *where, rep->options.listen);
  if (!address) return tl::unexpected(address.error());
  if (auto ok = open_acceptor(rep->acceptor, *address, rep->options); !ok) return tl::unexpected(ok.error());
  const auto bound = rep->acceptor.local_endpoint();
  rep->endpoint = print_host_port(bound.address().to_string(), bound.port());
  asio::co_spawn(rep->context, rep->accept_loop(), asio::detached);
  rep->thread = std::thread([raw = rep.get()] { raw->context.run(); });
  return std::unique_ptr<BootstrapService>(new BootstrapService(std::move(rep)));
}

void BootstrapService::stop() {
  rep_->context.stop();
  if (rep_->thread.joinable()) rep_->thread.join();
  error_code ignored;
  rep_->acceptor.close(ignored);
}

std::string BootstrapService::endpoint() const { return rep_->endpoint; }
Incarnation BootstrapService::server() const { return rep_->options.server; }
ServiceCounters BootstrapService::counters() const { return rep_->snapshot(); }

}  // namespace kvferry::bootstrap
