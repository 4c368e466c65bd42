#include "transport/loans.h"

#include <limits>

namespace kvferry::transport {
namespace {

__extension__ typedef unsigned __int128 Wide;

std::string loan_name(LoanId id) {
  return "loan " + std::to_string(id.slot) + "/" + std::to_string(id.serial);
}

const char* access_name(Access access) { return access == Access::kRead ? "read" : "write"; }

}  // namespace

const char* name_of(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::kNone: return "none";
    case Refusal::kNoLoan: return "no such loan";
    case Refusal::kStaleLoan: return "stale loan";
    case Refusal::kWrongToken: return "wrong token";
    case Refusal::kWrongPeer: return "lent to another peer";
    case Refusal::kWrongAccess: return "wrong access";
    case Refusal::kOutside: return "outside the loan";
    case Refusal::kBroken: return "contradictory operation";
    case Refusal::kBusy: return "too many operations";
  }
  return "unknown refusal";
}

Error error_of(Refusal refusal, const std::string& what, const Ticket& ticket, const std::string& detail) {
  std::string why = std::string(name_of(refusal)) + ": the peer refused " + loan_name(ticket.loan);
  if (!detail.empty()) why += " (" + detail + ")";
  return Error{Code::kRefused, Who::kPeer,    Next::kNewRoom, static_cast<std::int32_t>(refusal),
               what,           std::move(why)};
}

Result<> LoanTable::lend(const Loan& loan, std::uint8_t offered, RegionTable& regions) {
  const std::string what = mover_ + " " + loan_name(loan.id);
  if (loan.id.slot >= most_) {
    return fail(Code::kExhausted, Who::kLocal, Next::kNever, what,
                "slots run from 0 to " + std::to_string(most_ - 1) + " (max_loans)");
  }
  if ((offered & static_cast<std::uint8_t>(loan.access)) == 0) {
    return fail(Code::kUnsupported, Who::kLocal, Next::kNever, what,
                std::string("this mover does not lend for ") + access_name(loan.access));
  }
  if (loan.id.slot < slots_.size() && slots_[loan.id.slot].has_value()) {
    return fail(Code::kRefused, Who::kLocal, Next::kNever, what,
                "the slot still lends " + loan_name(slots_[loan.id.slot]->id) + "; revoke it first");
  }
  if (loan.id.slot < last_serial_.size() && last_serial_[loan.id.slot] == loan.id.serial) {
    return fail(Code::kRefused, Who::kLocal, Next::kNever, what,
                "this serial was lent before; a serial is used once");
  }
  if (auto ok = regions.check_loan(loan.groups); !ok) return ok;
  if (slots_.size() <= loan.id.slot) {
    slots_.resize(loan.id.slot + 1);
    last_serial_.resize(loan.id.slot + 1);
  }
  slots_[loan.id.slot] = LentLoan{
      loan.id, loan.token, loan.peer, loan.access, Footprint(loan.groups), regions.hold_loan(loan.groups)};
  last_serial_[loan.id.slot] = loan.id.serial;
  ++live_;
  return {};
}

const LentLoan* LoanTable::find(LoanId id) const noexcept {
  if (id.slot >= slots_.size() || !slots_[id.slot] || slots_[id.slot]->id != id) return nullptr;
  return &*slots_[id.slot];
}

Result<> LoanTable::revoke(LoanId id, RegionTable& regions) {
  const LentLoan* loan = find(id);
  if (loan == nullptr) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, mover_ + " " + loan_name(id),
                "this loan is not in force");
  }
  regions.release(loan->hold);
  slots_[id.slot].reset();
  --live_;
  return {};
}

std::vector<LoanId> LoanTable::lent_to(PeerId peer) const {
  std::vector<LoanId> found;
  for (const auto& slot : slots_) {
    if (slot && slot->peer == peer) found.push_back(slot->id);
  }
  return found;
}

Refusal LoanTable::judge(const Ticket& ticket, PeerId peer, Access access, std::span<const PieceGroup> groups,
                         std::string* detail) const {
  const LoanId id = ticket.loan;
  if (id.slot >= slots_.size() || !slots_[id.slot]) return Refusal::kNoLoan;
  const LentLoan& loan = *slots_[id.slot];
  if (loan.id.serial != id.serial) return Refusal::kStaleLoan;
  if (loan.token != ticket.token) return Refusal::kWrongToken;
  if (loan.peer != peer) return Refusal::kWrongPeer;
  if (loan.access != access) return Refusal::kWrongAccess;
  return loan.footprint.covers(groups, detail) ? Refusal::kNone : Refusal::kOutside;
}

Result<> check_operation(const std::string& mover, const Operation& operation, Access offered,
                         const RegionTable& regions) {
  const std::string what = mover + " operation " + std::to_string(operation.op.value);
  if (operation.access != offered) {
    return fail(Code::kUnsupported, Who::kLocal, Next::kNever, what,
                std::string("this mover posts ") + access_name(offered) + "s, not " +
                    access_name(operation.access) + "s");
  }
  if (operation.notice.size > kMaxNotice) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, what,
                "a notice of " + std::to_string(operation.notice.size) + " bytes; at most " +
                    std::to_string(kMaxNotice));
  }
  Wide total = 0;
  for (const PieceGroup& group : operation.groups) {
    Wide items = 0, per_item = 0;
    for (const RunPair& run : group.runs) items += run.count;
    for (const PlanePair& plane : group.planes) per_item += std::uint64_t{plane.bytes} * plane.repeat;
    total += items * per_item;
  }
  if (total > std::numeric_limits<std::int64_t>::max()) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, what, "its pieces add up to more than 2^63 bytes");
  }
  return regions.check_local(operation.groups);
}

}  // namespace kvferry::transport
