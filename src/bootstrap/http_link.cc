#include "bootstrap/http_link.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http.hpp>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace kvferry::bootstrap {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::uint64_t kMostAnswer = 4U << 20;  // 4,096 ranks of a group are about 1 MiB

// A look-up can block for many seconds, so it has a thread of its own that nobody waits for.
struct LookUp {
  std::mutex mutex;
  bool done = false;
  std::vector<tcp::endpoint> found;
};

void start_look_up(const std::shared_ptr<LookUp>& state, const HostPort& server) {
  try {
    std::thread([state, server] {
      asio::io_context own;
      tcp::resolver resolver(own);
      error_code ec;
      const auto list = resolver.resolve(server.host, std::to_string(server.port), ec);
      const std::lock_guard lock(state->mutex);
      for (const auto& entry : list) state->found.push_back(entry.endpoint());
      state->done = true;
    }).detach();
  } catch (const std::system_error&) {  // no thread to be had: as a name that is not known
    state->done = true;
  }
}

}  // namespace

HttpLink::HttpLink(asio::io_context& context, HostPort server)
    : context_(context), server_(std::move(server)), stream_(context) {}

Error HttpLink::trouble(const char* step, const error_code& ec) const {
  return Error{Code::kTransport,
               Who::kPeer,
               Next::kRetry,
               ec.value(),
               "bootstrap server " + print_host_port(server_.host, server_.port),
               std::string(step) + ": " + ec.message()};
}

void HttpLink::close() {
  error_code ignored;
  stream_.socket().close(ignored);
  buffer_.clear();
  open_ = false;
}

void HttpLink::watch(std::function<void()> lost) {
  if (!open_) return;
  stream_.socket().async_wait(tcp::socket::wait_read, [this, lost = std::move(lost)](const error_code& ec) {
    if (ec) return;  // unwatch(), or the link is gone: `this` may be too
    close();         // an answer that nobody asked for, or the end
    lost();
  });
}

void HttpLink::unwatch() {
  error_code ignored;
  if (open_) stream_.socket().cancel(ignored);
}

asio::awaitable<HttpLink::Endpoints> HttpLink::look_up(milliseconds limit) {
  error_code ec;
  const auto numeric = asio::ip::make_address(server_.host, ec);
  if (!ec) co_return Endpoints{tcp::endpoint(numeric, server_.port)};
  const auto state = std::make_shared<LookUp>();
  start_look_up(state, server_);
  asio::steady_timer timer(context_);
  constexpr milliseconds kStep{5};
  for (milliseconds waited{0};; waited += kStep) {
    {
      const std::lock_guard lock(state->mutex);
      if (state->done || waited >= limit) co_return state->found;
    }
    timer.expires_after(kStep);
    co_await timer.async_wait(kTuple);
  }
}

asio::awaitable<Error> HttpLink::open(milliseconds limit) {
  const Endpoints endpoints = co_await look_up(limit);
  if (endpoints.empty()) co_return trouble("look up its name", asio::error::host_not_found);
  error_code last;
  for (const auto& endpoint : endpoints) {
    close();
    stream_.expires_after(limit);
    const auto [ec] = co_await stream_.async_connect(endpoint, kTuple);
    last = ec;
    if (ec) continue;
    if (stream_.socket().local_endpoint(last) == endpoint) {  // met itself: nobody listens on that port
      last = asio::error::connection_refused;
      continue;
    }
    stream_.socket().set_option(tcp::no_delay(true), last);
    open_ = true;
    co_return Error{};
  }
  close();
  co_return trouble("connect", last);
}

asio::awaitable<HttpAnswer> HttpLink::exchange(const std::string& method, const std::string& target,
                                               const std::string& body, milliseconds limit) {
  http::request<http::string_body> request;
  request.method_string(method);
  request.target(target);
  request.version(11);
  request.set(http::field::host, print_host_port(server_.host, server_.port));
  request.keep_alive(true);
  if (!body.empty()) {
    request.set(http::field::content_type, "application/json");
    request.body() = body;
  }
  request.prepare_payload();
  stream_.expires_after(limit);
  const auto [write_error, written] = co_await http::async_write(stream_, request, kTuple);
  if (write_error) co_return HttpAnswer{trouble("ask", write_error), 0, {}};
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMostAnswer);
  stream_.expires_after(limit);
  const auto [read_error, bytes] = co_await http::async_read(stream_, buffer_, parser, kTuple);
  if (read_error) co_return HttpAnswer{trouble("answer", read_error), 0, {}};
  stream_.expires_never();
  HttpAnswer answer{{}, parser.get().result_int(), std::move(parser.get().body())};
  if (!parser.get().keep_alive()) close();
  co_return answer;
}

asio::awaitable<HttpAnswer> HttpLink::call(std::string method, std::string target, std::string body,
                                           milliseconds limit) {
  unwatch();
  for (;;) {
    const bool kept = open_;
    if (!open_) {
      Error error = co_await open(limit);
      if (!error.ok()) co_return HttpAnswer{std::move(error), 0, {}};
    }
    HttpAnswer answer = co_await exchange(method, target, body, limit);
    if (answer.error.ok()) co_return answer;
    close();
    if (!kept) co_return answer;
  }
}

}  // namespace kvferry::bootstrap
