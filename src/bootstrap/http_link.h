// One kept-alive HTTP/1.1 connection of the bootstrap client: ask and answer, with a time limit, connecting
// on demand. Thread rule: the thread of its io_context.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/endpoint.h"

namespace kvferry::bootstrap {

struct HttpAnswer {
  Error error;  // no answer: which step failed, and of which server
  unsigned status = 0;
  std::string body;
};

class HttpLink {
 public:
  HttpLink(boost::asio::io_context& context, HostPort server);

  // Each step (look-up, connect, write, read) takes `limit` at most. A kept connection that turns out to be
  // closed is opened again once: every request here may be repeated.
  boost::asio::awaitable<HttpAnswer> call(std::string method, std::string target, std::string body,
                                          std::chrono::milliseconds limit);
  // Calls `lost` once if the server closes the idle connection before the next call().
  void watch(std::function<void()> lost);
  void unwatch();

 private:
  using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
  boost::asio::awaitable<Error> open(std::chrono::milliseconds limit);
  boost::asio::awaitable<Endpoints> look_up(std::chrono::milliseconds limit);
  boost::asio::awaitable<HttpAnswer> exchange(const std::string& method, const std::string& target,
                                              const std::string& body, std::chrono::milliseconds limit);
  Error trouble(const char* step, const boost::system::error_code& ec) const;
  void close();

  boost::asio::io_context& context_;
  HostPort server_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  bool open_ = false;
};

}  // namespace kvferry::bootstrap
