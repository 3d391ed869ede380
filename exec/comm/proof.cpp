#include "exec/comm/proof.hpp"

namespace orrery {
namespace {

Digest proof(const std::string& token, const char* whose, const Opening& comer, const Opening& host) {
  return hmac_sha256(token, std::string(whose).append(text_of(comer.nonce)).append(text_of(host.nonce)));
}

}  // namespace

Digest proof_of_comer(const std::string& token, const Opening& comer, const Opening& host) {
  return proof(token, "orrery: who comes", comer, host);
}
Digest proof_of_host(const std::string& token, const Opening& comer, const Opening& host) {
  return proof(token, "orrery: who is come to", comer, host);
}

void prove_to_host(const Socket& s, const std::string& token, tcp::Clock::time_point until) {
  const Opening own = Opening::fresh();
  tcp::send_all(s, &own, sizeof own, until);
  Opening host;
  tcp::receive_all(s, &host, sizeof host, until);
  if (host.kind != Opening::magic) throw tcp::Gone("another program listens there");
  const Digest mine = proof_of_comer(token, own, host);
  tcp::send_all(s, mine.data(), mine.size(), until);
  Digest theirs{};
  try {
    tcp::receive_all(s, theirs.data(), theirs.size(), until);
  } catch (const tcp::Gone& e) {
    throw tcp::Gone(std::string(e.what()) + " when it had seen this rank's proof: it may have another token");
  }
  if (!same_digest(theirs, proof_of_host(token, own, host)))
    throw tcp::Gone("the process that listens there has another token");
}

}  // namespace orrery
