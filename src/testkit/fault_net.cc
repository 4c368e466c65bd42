// FaultNet and the Channel that it hands out; the network itself is net.h.
#include <utility>

#include "kvferry/testkit.h"
#include "testkit/net.h"

namespace kvferry::testkit {

class NetChannel final : public Channel {
 public:
  NetChannel(std::string manager, std::shared_ptr<Clock> clock, std::shared_ptr<Net> net)
      : manager_(std::move(manager)), clock_(std::move(clock)), net_(std::move(net)) {
    net_->attach(manager_, this);
  }
  ~NetChannel() override { net_->detach(manager_, this); }

  Result<LinkId> dial(std::string_view endpoint) override {
    return net_->dial(manager_, std::string(endpoint), clock_->now());
  }
  bool send(LinkId link, std::span<const std::byte> frame) override {
    return net_->send(manager_, link, frame, clock_->now());
  }
  void close(LinkId link) override { net_->close(manager_, link, clock_->now()); }
  std::size_t poll(std::vector<ChannelEvent>& out, std::size_t most) override {
    const std::size_t before = out.size();
    net_->take(manager_, clock_->now(), out, most);
    return out.size() - before;
  }
  int wake_fd() const noexcept override { return -1; }
  std::string endpoint() const override { return manager_ + ":1"; }

 private:
  const std::string manager_;
  const std::shared_ptr<Clock> clock_;
  const std::shared_ptr<Net> net_;
};

struct FaultNet::Rep {
  std::shared_ptr<Net> net = std::make_shared<Net>();
};

FaultNet::FaultNet() : rep_(std::make_unique<Rep>()) {}
FaultNet::~FaultNet() = default;

std::unique_ptr<Channel> FaultNet::channel(const std::string& manager, std::shared_ptr<Clock> clock) {
  return std::make_unique<NetChannel>(manager, std::move(clock), rep_->net);
}

std::size_t FaultNet::add(FrameRule rule) { return rep_->net->add(std::move(rule)); }
void FaultNet::remove(std::size_t id) { rep_->net->remove(id); }
void FaultNet::cut(const std::string& a, const std::string& b) { rep_->net->cut(a, b); }
void FaultNet::mend(const std::string& a, const std::string& b) { rep_->net->mend(a, b); }
std::uint64_t FaultNet::dropped() const { return rep_->net->counts().dropped; }
std::uint64_t FaultNet::delayed() const { return rep_->net->counts().delayed; }
std::uint64_t FaultNet::duplicated() const { return rep_->net->counts().duplicated; }
std::uint64_t FaultNet::truncated() const { return rep_->net->counts().truncated; }
std::optional<TimePoint> FaultNet::next_delivery() const { return rep_->net->next_delivery(); }

}  // namespace kvferry::testkit
