// The laws that are about rooms and books: what a status may say and when, that Success means the right
// content, that pages add up, that tables stay within their limits. (Stranger writes are caught by the mover
// itself.) Thread rule: the world's thread.
#pragma once

#include <cstdint>
#include <string>

#include "kvferry/types.h"

namespace kvferry {
struct Error;
}

namespace kvferry::sim {

class World;
class Users;
struct Participant;

class Checkers {
 public:
  Checkers(World& world, Users& users) : world_(world), users_(users) {}

  void before_publish(std::uint32_t node, Handle, Poll);  // the user has not seen it yet
  void before_failing(std::uint32_t node, Handle, const Error&);
  void before_terminal(std::uint32_t node, Handle);
  void books(std::uint32_t node);                         // S4 and S6 of one process
  void at_rest();                                         // S4 when every handle is closed

 private:
  void receiver_success(const Participant&);
  void sender_success(const Participant&);
  std::string where(const Participant&) const;

  World& world_;
  Users& users_;
};

}  // namespace kvferry::sim
