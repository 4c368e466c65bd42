// Every operation between out::Post and its quiescence: which mover has it, or that it still waits here
// because the mover said "would block". Makes true what the engine is promised: Completed once, Quiesced
// once, never before it. Thread rule: progress thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/io.h"

namespace kvferry::runtime {

class Operations {
 public:
  enum class Tried : std::uint8_t { kTaken, kBlocked, kRefused };
  // Hands one operation to its mover; an error that is not back-pressure is put in `why`.
  using Try = std::function<Tried(const core::out::Post&, Error& why)>;

  // In order behind what waits for the same peer and mover already.
  void post(core::out::Post, const Try&, std::vector<core::Input>& feed);
  bool retry(const Try&,
             std::vector<core::Input>& feed);  // one round over the peers; true: something was taken
  // True: it waited here and is gone (Completed and Quiesced are fed). False: its mover has it, or nobody
  // knows it.
  bool cancel_waiting(OpId, std::vector<core::Input>& feed);
  void drop_waiting(PeerId, std::uint32_t mover, const Error& why, std::vector<core::Input>& feed);

  void completed(OpId, Error,
                 std::vector<core::Input>& feed);  // a second word about the same operation is counted
  void quiesced(OpId, std::vector<core::Input>& feed);
  std::size_t in_flight(std::uint32_t mover) const noexcept;    // taken by that mover and not quiet
  std::size_t waiting() const noexcept { return waiting_; }
  std::uint64_t repeated() const noexcept { return repeated_; }

 private:
  struct State {
    std::uint32_t mover = 0;
    bool completed = false;
  };
  using Lane = std::pair<std::uint32_t, std::uint32_t>;  // peer, mover

  bool try_one(const core::out::Post&, const Try&, std::vector<core::Input>& feed);
  static void end(OpId, Error, std::vector<core::Input>& feed);

  std::unordered_map<std::uint64_t, State> taken_;
  std::vector<std::size_t> per_mover_;
  std::map<Lane, std::deque<core::out::Post>> lanes_;  // only lanes in which something waits
  std::size_t waiting_ = 0;
  std::uint64_t repeated_ = 0;
};

}  // namespace kvferry::runtime
