#include "transport/shm/peer_link.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace kvferry::shm {

namespace {

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

PeerLink::PeerLink(const Description& peer, const std::string& directory, std::string what)
    : description_(peer), address_{peer.abstract, peer.door}, what_(std::move(what)) {
  if (!peer.abstract && !directory.empty()) {
    address_.name = directory + "/" + base_name(peer.door);
  }
}

Error PeerLink::unreachable(int number) const {
  auto error = system_error(what_, "its door " + text_of(address_) + " cannot be opened", number).value();
  error.who = Who::kPeer;
  if (number == ECONNREFUSED && address_.abstract) {
    error.why.append(
        ": the peer has ended, or is on another host or in another network namespace (then give both sides "
        "one socket directory)");
  } else if (number == ENOENT || number == ECONNREFUSED) {
    error.why.append(": the peer has ended, or its socket directory is not shared with this side");
  } else if (number == EACCES || number == EPERM) {
    error.why.append(": the two processes run as different users; open the socket directory to both");
  }
  return error;
}

Result<> PeerLink::connect() {
  const int status = connect_to(address_, socket_);
  if (status == -EAGAIN) {
    return {};  // its queue is full
  }
  if (status != 0) {
    return tl::unexpected(unreachable(-status));
  }
  connected_ = true;
  handed_.pid = pid_of_other_end(socket_.fd());
  if (handed_.pid != 0) {
    // The socket is open, so the process that opened the door lives or has just ended: the pid is still its
    // own.
    handed_.pidfd = File{static_cast<int>(::syscall(SYS_pidfd_open, handed_.pid, 0))};
  }
  const int sent = send_packet(socket_.fd(), encode(Knock{description_.cookie}), {});
  if (sent != 0) {
    return tl::unexpected(unreachable(-sent));
  }
  return {};
}

Result<PeerLink::Step> PeerLink::advance() {
  if (!connected_) {
    if (auto done = connect(); !done) {
      return tl::unexpected(done.error());
    }
    if (!connected_) {
      return Step::kRetryConnect;
    }
  }
  while (!have_table_ || handed_.files.size() < handed_.table.files) {
    int status = 0;
    auto incoming = receive_packet(socket_.fd(), status);
    if (!incoming) {
      if (status == 0) {
        return Step::kWait;
      }
      return fail(Code::kPeerLost, Who::kPeer, Next::kNewRoom, what_,
                  "it closed its door before its memory was handed over", status < 0 ? -status : 0);
    }
    if (auto accepted = accept_packet(std::move(*incoming)); !accepted) {
      return tl::unexpected(accepted.error());
    }
  }
  return Step::kComplete;
}

Result<> PeerLink::accept_packet(Incoming incoming) {
  if (incoming.cut) {
    return fail(
        Code::kEnvironment, Who::kLocal, Next::kAfterFix, what_,
        "this process has too few file descriptors left for the peer's memory; raise the limit (ulimit -n)",
        EMFILE);
  }
  auto packet = decode_packet(incoming.bytes);
  if (!packet) {
    return tl::unexpected(packet.error());
  }
  if (const auto* refusal = std::get_if<Refusal>(&*packet)) {
    return fail(Code::kRefused, Who::kPeer, Next::kNewRoom, what_, "the peer refused: " + refusal->text);
  }
  if (auto* table = std::get_if<Table>(&*packet); table != nullptr && !have_table_) {
    if (auto checked = check_table(*table); !checked) {
      return checked;
    }
    have_table_ = true;
    handed_.table = std::move(*table);
    return {};
  }
  const auto* files = std::get_if<Files>(&*packet);
  const std::size_t after = handed_.files.size() + incoming.files.size();
  if (files == nullptr || !have_table_ || files->count != incoming.files.size() || files->count == 0 ||
      after > handed_.table.files) {
    return fail(Code::kBadMessage, Who::kPeer, Next::kNever, what_,
                "its hand-over is out of order (packet kind " + std::to_string(packet->index()) + ", " +
                    std::to_string(incoming.files.size()) + " descriptors)");
  }
  for (File& file : incoming.files) handed_.files.push_back(std::move(file));
  return {};
}

Result<> PeerLink::check_table(const Table& table) const {
  if (table.cookie != description_.cookie) {
    return fail(Code::kPeerLost, Who::kPeer, Next::kNewRoom, what_, "its door belongs to another life");
  }
  for (std::size_t i = 0; i < description_.regions.size(); ++i) {
    const std::uint64_t described = description_.regions[i].length;
    const std::uint64_t handed = i < table.regions.size() ? table.regions[i].length : 0;
    if (described != handed) {
      return fail(Code::kMismatch, Who::kPeer, Next::kNever, what_,
                  "its region " + std::to_string(i) + " was described with " + std::to_string(described) +
                      " bytes and handed over with " + std::to_string(handed));
    }
  }
  return {};
}

bool PeerLink::hung_up() const {
  int status = 0;
  const auto incoming = receive_packet(socket_.fd(), status);
  return !incoming && status != 0;
}

}  // namespace kvferry::shm
