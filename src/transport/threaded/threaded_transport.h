// A decorator for movers whose calls may block (a library's post was seen to take 59 ms, another's 30 s;
// protocol rule 27): the inner mover lives on a thread of its own behind bounded queues. Capabilities are the
// inner mover's. Thread rule: like every Transport, all calls come from one progress thread; none of them
// waits for a call of the inner mover longer than `patience`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvferry/error.h"
#include "kvferry/transport.h"

namespace kvferry {

struct ThreadedOptions {
  std::uint32_t posts = 256;  // accepted and not yet taken by the inner mover; more: kWouldBlock
  std::uint32_t commands = 4096;  // other calls not yet carried out; more: kWouldBlock
  std::uint32_t events = 4096;  // told by the inner mover and not yet taken; more: its progress() waits
  Duration patience =
      std::chrono::microseconds(500);  // lend() and drop_region() wait so long for their answer
  Duration idle = std::chrono::microseconds(200);  // how often an inner mover without a wake_fd is polled
  Duration stop = std::chrono::seconds(5);  // the destructor waits so long for a call that blocks
};

class ThreadedTransport final : public Transport {
 public:
  // Errors: kUsage for a null mover or a zero bound, kEnvironment when the thread cannot be started.
  static Result<std::unique_ptr<ThreadedTransport>> open(std::unique_ptr<Transport> inner,
                                                         const ThreadedOptions& = {});
  ~ThreadedTransport() override;  // stop(options.stop)

  // Ends the thread and with it the inner mover. False: a call of it still blocks after `limit`; the thread
  // then ends by itself when that call returns, and registered memory must stay until then (best: until the
  // process ends).
  bool stop(Duration limit);

  const Capabilities& capabilities() const noexcept override;
  // These answer at once; what the inner mover says follows as an event: kRegionReady, kPeerReady,
  // kPeerFenced and kCompleted (with kQuiesced) carry its refusal as their error.
  Result<> add_region(RegionId, const RegionView&) override;
  Result<> add_peer(PeerId, std::span<const std::byte> description) override;
  void drop_peer(PeerId) override;
  Result<> fence(PeerId) override;  // posts that the inner mover has not taken end at once behind it
  Result<> post(const Operation&) override;
  void cancel(OpId) noexcept override;
  // A refused revoke is told as kPeerLost of the loan's peer: what cannot be revoked can only be fenced.
  Result<> revoke(LoanId) override;
  // These wait for the inner mover's answer, for `patience`. kWouldBlock: it is busy; nothing happened, or
  // (lend) it may still happen: call again with the same loan, or revoke it.
  Result<> lend(const Loan&) override;
  Result<> drop_region(RegionId) override;

  std::vector<std::byte> describe() const override;  // as of the newest kRegionReady
  std::size_t progress(std::span<Event> out) override;
  bool busy() const noexcept override;
  int wake_fd() const noexcept override;

 private:
  struct Rep;
  explicit ThreadedTransport(std::shared_ptr<Rep>);
  std::shared_ptr<Rep> rep_;
};

}  // namespace kvferry
