#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "exec/comm/proof.hpp"
#include "exec/comm/tcp.hpp"

namespace orrery {

/// What a rank says about itself once both sides have shown that they are of one job.
struct Hello {
  std::uint32_t rank = 0, ranks = 0;
  std::uint64_t job = 0, program = 0, host = 0;
  std::uint32_t port = 0;  ///< at which it listens for higher ranks
  std::uint32_t rest = 0;
};

/// Accepts connections, all at once, until one of them has shown that it holds the token and said who it is.
///
/// A guest that takes longer than a few seconds, says something else or leaves is turned away without a word, counted,
/// and reported once. It holds nobody up.
class Reception {
 public:
  struct Guest {
    Socket socket;
    Hello hello;
    std::uint32_t address = 0;  ///< IPv4, network order
  };

  /// `warn` is called for the first guest that is turned away; it may be empty.
  Reception(Socket listening, std::string token, std::function<void(const std::string&)> warn);

  /// The next guest; empty once time is over. Throws Error where no connection can be taken.
  [[nodiscard]] std::optional<Guest> next(tcp::Clock::time_point until);
  /// Turns away a guest that `next` gave, after all.
  void turn_away(const Guest&, const std::string& why);
  /// A text such as "; 3 connections were turned away, the last from 10.0.0.7: it said nothing"; empty where none was.
  [[nodiscard]] std::string turned_away_text() const;

 private:
  /// A guest that has not yet said everything that it is asked.
  struct Waiting {
    Socket socket;
    std::uint32_t address = 0;
    tcp::Clock::time_point until;
    enum class Asked : std::uint8_t { opening, proof, hello } asked = Asked::opening;
    Opening theirs, own;
    Digest proof{};
    Hello hello;
    std::size_t got = 0;  ///< bytes of what it is asked
  };
  enum class Step : std::uint8_t { waits, goes_on, is_done, is_wrong };

  void take_all();
  /// Moves one guest on as far as its bytes reach, or says what is wrong with it.
  [[nodiscard]] Step advance(Waiting&, std::string& why) const;
  [[nodiscard]] Step answer(Waiting&, std::string& why) const;
  void count(std::uint32_t address, const std::string& why);

  Socket listening_;
  std::string token_;
  std::function<void(const std::string&)> warn_;
  std::list<Waiting> waiting_;  ///< who has waited longest comes first
  std::uint64_t turned_away_ = 0;
  std::string last_;  ///< of those
};

}  // namespace orrery
