#include "conformance/rendezvous.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/endpoint.h"
#include "conformance/party_json.h"
#include "transport/tcp/description.h"

namespace kvferry::conformance {
namespace {

constexpr int kMeetMs = 10'000;
constexpr const char* kProgram = "kvferry conformance 1";

using transport::tcp::Address;

Result<Address> address_of(const std::string& endpoint, const char* flag) {
  auto parsed = parse_host_port(endpoint, flag);
  if (!parsed) return tl::unexpected(parsed.error());
  const std::string host = is_any_host(parsed->host) ? "::" : parsed->host;
  auto found = transport::tcp::resolve(host, parsed->port, flag);
  if (!found) return tl::unexpected(found.error());
  return found->front();
}

tl::unexpected<Error> failed(const std::string& what, const char* call) {
  return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, what,
              std::string(call) + ": " + std::strerror(errno), errno);
}

Result<int> greet(int fd, const std::string& what, const std::string& mover) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  Json theirs;
  std::string program, other;
  const bool met =
      write_message(fd, {{"program", kProgram}, {"mover", mover}}) && read_message(fd, theirs, kMeetMs);
  if (met && theirs.is_object()) {
    program = theirs.value("program", std::string());
    other = theirs.value("mover", std::string());
  }
  if (program == kProgram && other == mover) return fd;
  close(fd);
  if (!met || program.empty()) {
    return fail(Code::kBadMessage, Who::kPeer, Next::kAfterFix, what, "no kvferry conformance answers there");
  }
  return fail(Code::kMismatch, Who::kPeer, Next::kAfterFix, what,
              "here '" + std::string(kProgram) + "' with mover '" + mover + "', there '" + program +
                  "' with mover '" + other + "'");
}

}  // namespace

Result<int> meet_by_dialling(const std::string& endpoint, const std::string& mover) {
  const std::string what = "--peer " + endpoint;
  auto address = address_of(endpoint, "--peer");
  if (!address) return tl::unexpected(address.error());
  const int fd = socket(address->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return failed(what, "socket");
  sockaddr_storage storage{};
  const socklen_t size = address->fill(storage);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&storage), size) != 0) {
    const auto error = failed(what, "connect");
    close(fd);
    return error;
  }
  return greet(fd, what, mover);
}

Result<int> meet_by_listening(const std::string& endpoint, const std::string& mover, std::string* bound,
                              void (*listening)(const std::string&)) {
  const std::string what = "--listen " + endpoint;
  auto address = address_of(endpoint, "--listen");
  if (!address) return tl::unexpected(address.error());
  const int door = socket(address->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (door < 0) return failed(what, "socket");
  const int one = 1;
  setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_storage storage{};
  socklen_t size = address->fill(storage);
  if (bind(door, reinterpret_cast<const sockaddr*>(&storage), size) != 0 || listen(door, 1) != 0) {
    const auto error = failed(what, "bind");
    close(door);
    return error;
  }
  size = sizeof storage;
  getsockname(door, reinterpret_cast<sockaddr*>(&storage), &size);
  if (bound != nullptr) *bound = Address::from(storage).text();
  if (listening != nullptr) listening(Address::from(storage).text());
  const int fd = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
  close(door);
  if (fd < 0) return failed(what, "accept");
  return greet(fd, what, mover);
}

}  // namespace kvferry::conformance
