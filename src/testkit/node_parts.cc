#include "testkit/node_parts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "transport/cursor.h"

namespace kvferry::testkit {
namespace {

tl::unexpected<Error> gone() {
  return fail(Code::kPeerLost, Who::kLocal, Next::kNever, "test kit node", "this process has crashed");
}

constexpr std::size_t kIdBytes = 8;

class NodeMover final : public Transport, public Lander {
 public:
  NodeMover(std::unique_ptr<Transport> inner, Alive alive, std::shared_ptr<MemoryMap> map)
      : inner_(std::move(inner)), alive_(std::move(alive)), map_(std::move(map)), id_(map_->next++) {
    map_->lives[id_].alive = alive_;
  }
  ~NodeMover() override { map_->lives.erase(id_); }

  const Capabilities& capabilities() const noexcept override { return inner_->capabilities(); }
  Result<> add_region(RegionId id, const RegionView& view) override;
  Result<> drop_region(RegionId id) override { return *alive_ ? inner_->drop_region(id) : Result<>(gone()); }
  std::vector<std::byte> describe() const override;
  Result<> add_peer(PeerId, std::span<const std::byte> description) override;
  void drop_peer(PeerId) override;
  Result<> fence(PeerId) override;
  Result<> lend(const Loan&) override;
  Result<> revoke(LoanId loan) override { return *alive_ ? inner_->revoke(loan) : Result<>(gone()); }
  Result<> post(const Operation& operation) override {
    return *alive_ ? inner_->post(operation) : Result<>(gone());
  }
  void cancel(OpId op) noexcept override {
    if (*alive_) inner_->cancel(op);
  }
  std::size_t progress(std::span<Event> out) override { return *alive_ ? inner_->progress(out) : 0; }
  bool busy() const noexcept override { return *alive_ && inner_->busy(); }
  int wake_fd() const noexcept override { return inner_->wake_fd(); }

  Result<> land(const Operation&) override;

 private:
  std::unique_ptr<Transport> inner_;
  Alive alive_;
  std::shared_ptr<MemoryMap> map_;
  const std::uint64_t id_;
  std::map<PeerId, std::uint64_t> peers_;  // which life each is
};

Result<> NodeMover::add_region(RegionId id, const RegionView& view) {
  if (!*alive_) return gone();
  std::vector<RegionView>& regions = map_->lives[id_].regions;
  if (regions.size() <= id.value) regions.resize(id.value + std::size_t{1});
  regions[id.value] = view;
  return inner_->add_region(id, view);
}

std::vector<std::byte> NodeMover::describe() const {
  std::vector<std::byte> description(kIdBytes);
  Writer(description).u64(id_);
  const std::vector<std::byte> inner = inner_->describe();
  description.insert(description.end(), inner.begin(), inner.end());
  return description;
}

Result<> NodeMover::add_peer(PeerId peer, std::span<const std::byte> description) {
  if (!*alive_) return gone();
  if (description.size() < kIdBytes) {
    return fail(Code::kBadMessage, Who::kPeer, Next::kNever, "test kit mover",
                "the peer's description is too short");
  }
  peers_[peer] = Reader(description.first(kIdBytes)).u64();
  return inner_->add_peer(peer, description.subspan(kIdBytes));
}

void NodeMover::drop_peer(PeerId peer) {
  if (!*alive_) return;
  peers_.erase(peer);
  inner_->drop_peer(peer);
}

Result<> NodeMover::fence(PeerId peer) {
  if (!*alive_) return gone();
  if (const auto found = peers_.find(peer); found != peers_.end()) {
    MemoryMap::Life& here = map_->lives[id_];
    here.fenced[found->second] = here.newest_loan;  // what is lent later belongs to a new path
  }
  return inner_->fence(peer);
}

Result<> NodeMover::lend(const Loan& loan) {
  if (!*alive_) return gone();
  std::uint64_t& newest = map_->lives[id_].newest_loan;
  newest = std::max(newest, loan.id.serial);
  return inner_->lend(loan);
}

Result<> NodeMover::land(const Operation& operation) {
  const auto peer = peers_.find(operation.peer);
  const auto target = peer == peers_.end() ? map_->lives.end() : map_->lives.find(peer->second);
  bool dead = !*alive_ || target == map_->lives.end() || !*target->second.alive;
  if (!dead) {
    const auto fence = target->second.fenced.find(id_);
    dead = fence != target->second.fenced.end() && operation.ticket.loan.serial <= fence->second;
  }
  if (dead) {
    return fail(Code::kPeerLost, Who::kPeer, Next::kNewRoom, "test kit mover",
                "the target is gone or has fenced us");
  }
  const std::vector<RegionView>& here = map_->lives[id_].regions;
  for (const transport::Segment& segment : transport::pieces_listed(operation.groups)) {
    auto* local = static_cast<std::byte*>(here.at(segment.local_region.value).address) + segment.local;
    auto* remote = static_cast<std::byte*>(target->second.regions.at(segment.remote_region.value).address) +
                   segment.remote;
    const bool writes = operation.access == Access::kWrite;
    std::memcpy(writes ? remote : local, writes ? local : remote, segment.bytes);
  }
  return {};
}

class NodeChannel final : public Channel {
 public:
  NodeChannel(std::unique_ptr<Channel> inner, Alive alive)
      : inner_(std::move(inner)), alive_(std::move(alive)) {}

  Result<LinkId> dial(std::string_view endpoint) override {
    return *alive_ ? inner_->dial(endpoint) : Result<LinkId>(gone());
  }
  bool send(LinkId link, std::span<const std::byte> frame) override {
    return *alive_ && inner_->send(link, frame);
  }
  void close(LinkId link) override {
    if (*alive_) inner_->close(link);
  }
  std::size_t poll(std::vector<ChannelEvent>& out, std::size_t most) override {
    return *alive_ ? inner_->poll(out, most) : 0;
  }
  int wake_fd() const noexcept override { return inner_->wake_fd(); }
  std::string endpoint() const override { return inner_->endpoint(); }

 private:
  std::unique_ptr<Channel> inner_;
  Alive alive_;
};

}  // namespace

std::unique_ptr<Transport> node_mover(std::unique_ptr<Transport> inner, Alive alive,
                                      std::shared_ptr<MemoryMap> map) {
  return std::make_unique<NodeMover>(std::move(inner), std::move(alive), std::move(map));
}

std::unique_ptr<Channel> node_channel(std::unique_ptr<Channel> inner, Alive alive) {
  return std::make_unique<NodeChannel>(std::move(inner), std::move(alive));
}

}  // namespace kvferry::testkit
