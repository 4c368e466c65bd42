// One application of a move: a copy of a state, changed until nothing follows at once. Thread rule: one
// thread.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "sim/explore_model.h"

namespace kvferry::sim {

class ExploreStep {
 public:
  ExploreStep(ExploreModel& model, const ExploreState& from, Laws& laws) : m_(model), s_(from), laws_(laws) {}

  void take(const ExploreMove&, bool answered);
  void link(std::uint32_t dialler, std::uint32_t target, EndpointId);  // a connection comes up at once
  void feed(std::uint32_t node, const core::Input&);
  void deliver(FrameId, bool answered);
  void hand_over(FrameId);
  ExploreState finish();
  SimTransport& mover();                       // copied on first use
  ExploreState& state() { return s_; }

 private:
  void run();                                  // inputs that follow at once
  void act(std::uint32_t node, const core::Outputs&);
  void send(std::uint32_t node, const core::out::Send&);
  void dial(std::uint32_t node, EndpointId);
  void close_link(std::uint32_t node, LinkId);
  void effects(Effects&);
  void mover_move(const ExploreMove&);
  void pending(const ExplorePending&);
  void add_pending(const ExplorePending&);
  void user_move(const ExploreMove&);
  void open(std::uint32_t node, std::uint32_t user);
  void grant(std::uint32_t node, std::uint32_t user);
  void push(std::uint32_t node, std::uint32_t user);
  void fired(std::uint32_t node, std::uint32_t user);
  void write(std::uint32_t node, std::uint32_t user, std::uint32_t chunk);
  void publish(std::uint32_t node, Handle, Poll);
  void failing(std::uint32_t node, Handle, const Error&);
  void terminal(std::uint32_t node, Handle);
  void returned(std::uint32_t node, Handle, std::uint32_t chunk);
  void take_back(std::uint32_t node, std::uint32_t user);
  void receiver_success(std::uint32_t node, std::uint32_t user);
  void sender_success(std::uint32_t node, std::uint32_t user);
  void crash(std::uint32_t node, std::uint32_t stray);
  void restart(std::uint32_t node);
  void cut(std::uint32_t link);
  void forget_dead_links();
  std::string where(std::uint32_t node, std::uint32_t user) const;
  ExploreUser* user_of(std::uint32_t node, Handle);
  std::uint32_t node_of(LifeIndex life) const;

  ExploreModel& m_;
  ExploreState s_;
  Laws& laws_;
  std::shared_ptr<SimTransport> mover_;
  std::deque<std::pair<std::uint32_t, core::Input>> todo_;
  std::deque<FrameId> hellos_;  // handed over at once, unless the shape explores the handshake
  std::vector<FrameId> said_;  // frames sent during the present feed
};

}  // namespace kvferry::sim
