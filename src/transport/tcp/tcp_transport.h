// The tcp mover's parts put together: peers, their streams, loans and regions over one epoll set.
// tcp_transport.cc has the Transport calls and the quantum, tcp_peers.cc dialling, greeting and loss,
// tcp_frames.cc what frames do. Thread rule: progress thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/loans.h"
#include "transport/regions.h"
#include "transport/tcp/description.h"
#include "transport/tcp/inbox.h"
#include "transport/tcp/lane.h"
#include "transport/tcp/outbox.h"
#include "transport/tcp/tcp.h"

namespace kvferry::transport::tcp {

inline constexpr std::uint16_t kMaxStreams = 16;

class TcpMover final : public TcpTransport, private LaneOwner {
 public:
  explicit TcpMover(TcpOptions);
  ~TcpMover() override;
  Result<> open();  // once, before anything else

  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Result<> add_region(RegionId, const RegionView&) override;
  Result<> drop_region(RegionId id) override { return regions_.drop(id); }
  std::vector<std::byte> describe() const override;
  Result<> add_peer(PeerId, std::span<const std::byte>) override;
  void drop_peer(PeerId) override;
  Result<> fence(PeerId) override;
  Result<> lend(const Loan&) override;
  Result<> revoke(LoanId) override;
  Result<> post(const Operation&) override;
  void cancel(OpId) noexcept override;
  std::size_t progress(std::span<Event> out) override;
  bool busy() const noexcept override;
  int wake_fd() const noexcept override { return epoll_.get(); }
  TcpStats stats() const override { return stats_; }
  std::vector<std::string> endpoints() const override;

 private:
  struct Peer {
    enum class State : std::uint8_t { kConnecting, kReady, kLost, kDead };
    PeerId id;
    Description description;
    State state = State::kConnecting;
    bool fenced = false;
    bool redial_failed = false;  // since the path was lost: posts are refused, not delayed
    Error last;                  // why it is lost or dead
    std::size_t address = 0;     // of description.addresses, dialled next
    std::size_t addresses_tried = 0;
    struct Slot {                // one dialled stream
      std::uint64_t lane = 0;    // 0: none
      std::uint64_t redial_at = 0;  // tick; 0: no redial is due
      Duration backoff{0};
    };
    std::vector<Slot> slots;
    std::map<std::uint16_t, std::uint64_t> inbound;  // their stream index -> lane
    Outbox outbox;
    Inbox inbox;
    explicit Peer(std::uint32_t arriving) : inbox(arriving) {}
  };

  // tcp_transport.cc
  Result<> open_listeners();
  Result<> open_advertised(bool v4, bool v6);
  Result<> watch(int fd, std::uint64_t id, std::uint32_t events);
  Event& push(Event::Kind);
  Error about(const Peer&, Code, std::string why) const;
  void take_events();
  void take_hints();
  void run_lanes();
  void schedule(Lane&);
  bool has_work(const Lane&) const;
  void end_ended(Peer&);
  void end_op(Peer&, std::uint64_t sequence);
  std::uint32_t drop_unsent(Peer&, OutOp&);
  void fail_op(Peer&, OutOp&, Error);
  void fail_all(Peer&, const Error&);
  Peer* peer_of(PeerId) noexcept;
  const Peer* peer_of(PeerId) const noexcept;

  // tcp_peers.cc
  Peer* live_peer(const Cookie&) noexcept;
  Lane* lane_of(std::uint64_t id) noexcept;
  Lane& adopt(Fd, bool dialled);
  void accept_some();
  void make_room_for_unclaimed();
  void dial_slot(Peer&, std::uint32_t index);
  void connected(Lane&);
  void greeted(Peer&, Lane&);
  void claim(Peer&, Lane&);
  void refuse(Lane&, WelcomeFrame::Status, std::string why);
  void close_lane(std::uint64_t id);
  void lost_dialled(Peer&, const Lane&);
  void slot_failed(Peer&, std::uint32_t index, const Error&);
  void all_addresses_failed(Peer&);
  void close_all(Peer&);
  bool has_open_lane(const Peer&) noexcept;
  void tick();
  void check_lane_times();
  void arm_timer();
  std::uint64_t ticks(Duration) const noexcept;

  // tcp_frames.cc: LaneOwner
  void on_hello(Lane&, const HelloFrame&) override;
  void on_welcome(Lane&, const WelcomeFrame&) override;
  bool on_write(Lane&, const WriteFrame&) override;
  void on_write_end(Lane&, const WriteFrame&, bool placed) override;
  void on_reject(Lane&, const RejectFrame&) override;
  void on_sent(Lane&, std::uint64_t sequence, std::uint64_t payload) override;
  bool fill(Lane&) override;
  std::byte* memory(RegionId region, std::uint64_t offset) override { return regions_.at(region, offset); }
  void out_of_turn(Lane&, const char* frame);
  void reject(Lane&, std::uint64_t sequence, Refusal, std::string text);

  TcpOptions options_;
  Capabilities capabilities_;
  RegionTable regions_;
  LoanTable loans_;
  Cookie cookie_{};
  std::vector<Address> advertised_;
  Fd epoll_, timer_;
  std::vector<Fd> listeners_;
  bool accept_paused_ = false;  // out of descriptors: again at the next tick
  bool accept_ready_ = false;
  bool timer_armed_ = false;
  std::uint64_t ticks_ = 1;
  std::map<PeerId, std::unique_ptr<Peer>> peers_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Lane>> lanes_;
  std::deque<std::uint64_t> unclaimed_;  // inbound lanes before they belong to a peer, oldest first
  std::uint32_t inbound_count_ = 0;
  std::uint64_t next_lane_ = 16;         // smaller ids name the listeners and the timer
  std::deque<std::uint64_t> run_;        // lanes with something to do
  std::vector<OpId> hints_;              // cancelled, not yet looked at
  std::unordered_map<std::uint64_t, PeerId> op_peers_;  // OpId::value of live operations
  std::uint64_t next_sequence_ = 1;
  std::deque<Event> events_;
  TcpStats stats_;
};

}  // namespace kvferry::transport::tcp
