// The control network: links, frames (real codec, real frame reader) and their faults. Every frame is encoded
// and prefixed when it is sent; it arrives as bytes, in one piece or two, and is read and decoded then.
// Thread rule: the world's thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "control/frame_reader.h"
#include "kvferry/types.h"
#include "sim/coverage.h"
#include "sim/event_queue.h"
#include "sim/sim_transport.h"
#include "wire/codec.h"

namespace kvferry::sim {

class World;

class Net {
 public:
  explicit Net(World& world);

  // What engines ask for.
  void dial(std::uint32_t node, EndpointId);
  void close(std::uint32_t node, LinkId);
  void send(std::uint32_t node, LinkId, const wire::Message&);

  // What the world's queue brings back.
  void on_frame(std::uint32_t slot);
  void on_up(std::uint32_t link, std::uint32_t side);
  void on_down(std::uint32_t link, std::uint32_t side);
  std::uint32_t node_of_frame(std::uint32_t slot) const { return frames_[slot].to_node; }
  std::uint32_t node_of_link(std::uint32_t link, std::uint32_t side) const {
    return links_[link].ends[side].node;
  }

  // Faults of the moment.
  void birth(std::uint32_t node);  // a new life: no links yet
  void crash(std::uint32_t node, bool silent);  // silent: nobody is told
  void cut_one();
  void clog_one();
  void partition_one();
  void heal();

 private:
  static constexpr std::uint32_t kNoFrame = ~0U;
  struct End {
    std::uint32_t node = 0;
    LifeIndex life = kNoLife;
    LinkId id;
    bool up = false, gone = false;
    control::FrameReader reader{wire::FrameLimits{}.frame_bytes};
    std::uint32_t torn = kNoFrame;  // the frame whose second piece is still to come
    std::vector<std::uint32_t> waiting;  // frames behind it in the stream
  };
  struct Link {
    std::array<End, 2> ends;  // 0 dialled
    EndpointId endpoint;
    bool broken = false;
    TimePoint clogged_until;
    std::array<TimePoint, 2> last;  // the newest delivery planned towards that side
  };
  struct Frame {
    std::vector<std::byte> bytes;  // with its prefix
    std::size_t cut = 0;  // bytes of the first piece; 0: it comes whole
    bool begun = false;  // the first piece is in the reader
    std::uint32_t link = 0, side = 0;  // the end that it goes to
    std::uint32_t from_node = 0, to_node = 0;
    bool stray = false;
  };

  LinkId new_end(std::uint32_t node, std::uint32_t link, std::uint32_t side);
  std::uint32_t take_frame();
  void plan_frame(std::uint32_t link, std::uint32_t side, std::span<const std::byte> payload, bool stray);
  void plan_bytes(std::uint32_t slot, std::uint32_t link, std::uint32_t side, bool stray);
  void send_bad_prefix(std::uint32_t link, std::uint32_t side);
  void deliver(std::uint32_t slot, std::uint32_t link, std::uint32_t side);
  void lose(std::uint32_t slot);
  void read(std::uint32_t link, std::uint32_t side, std::span<const std::byte> piece,
            std::span<const std::byte> sent);
  void break_link(std::uint32_t link, Duration tell0, Duration tell1);  // negative: that side is not told
  bool cut(std::uint32_t a, std::uint32_t b) const;
  bool usable(const Link&, std::uint32_t side) const;
  std::uint32_t route(const Frame&, std::uint32_t& side) const;  // ~0U: the frame is lost
  Duration hop();
  std::uint32_t random_link();

  World& world_;
  wire::Encoder encoder_;
  std::vector<Link> links_;
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> free_frames_;
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>>
      by_id_;  // [node][LinkId - 1] -> (link, side)
  std::vector<TimePoint> cut_until_;  // [a * nodes + b]
  std::uint32_t nodes_;
};

}  // namespace kvferry::sim
