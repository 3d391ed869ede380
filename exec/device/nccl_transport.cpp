#include "exec/device/nccl_transport.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <string>
#include <thread>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

/// Tag of what ranks tell each other before NCCL connects them; no stream of a list has this number.
constexpr std::uint64_t start_tag = std::uint64_t{0x7ffffffdU} << 32;

std::uint64_t bytes_of(const MemoryView& v) { return v.count * size_of(v.dtype); }

/// Type of elements that are added up or compared.
NcclCalls::Type number_type(DType t) {
  switch (t) {
    case DType::f64: return NcclCalls::f64;
    case DType::f32: return NcclCalls::f32;
    case DType::bf16: return NcclCalls::bf16;
    case DType::f16: return NcclCalls::f16;
    case DType::i32: return NcclCalls::i32;
    case DType::u8: return NcclCalls::u8;
    case DType::f8: break;
  }
  throw Error("NCCL cannot sum over ranks in this program's f8 formats");
}

NcclCalls::Reduction reduction_of(Collective::Reduction r) {
  return r == Collective::Reduction::sum ? NcclCalls::sum : NcclCalls::max;
}

bool come_in_pairs(std::span<const MemoryView> views) {
  return views.size() >= 2 && views[0].use == View::Use::read && views[1].use != View::Use::read;
}

void copy_within(DeviceStream& stream, std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (to != from && bytes > 0) stream.copy(to, from, bytes);
}

/// `to` += `from`.
void add_to(DeviceStream& stream, const MemoryView& to, const std::byte* from, Collective::Reduction reduction) {
  ReductionShare share;
  share.dtype = to.dtype;
  share.reduction = reduction;
  share.count = to.count;
  share.chain.push_back(from);
  share.base = to.data;
  share.results.push_back(to.data);
  stream.reduce(share);
}

}  // namespace

/// One collective, from the view of this rank as a member.
struct NcclTransport::Job {
  NcclTransport& of;
  const Collective& c;
  const Members& members;
  std::span<const MemoryView> views;
  DeviceStream& stream;
  const NcclCommunicator& on;
  bool pairs = come_in_pairs(views);
  /// The views to which a sum is to be added, and where it lies until then.
  std::vector<std::pair<const MemoryView*, std::byte*>> sums{};

  [[nodiscard]] NcclCalls::Stream queue() const { return stream.native(); }
  void require(int code) const { NcclCommunicator::require(of.calls_, code, "take a collective", on.get()); }

  /// Where the result of a view is to be received; scratch where it is added to what is there.
  std::byte* result(const MemoryView& v, std::byte*& room) {
    if (v.use != View::Use::accumulate) return v.data;
    std::byte* const at = room;
    room += (bytes_of(v) + 255) / 256 * 256;
    sums.emplace_back(&v, at);
    return at;
  }
  [[nodiscard]] std::uint64_t room_needed() const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 1; pairs && i < views.size(); i += 2) {
      if (views[i].use == View::Use::accumulate) bytes += (bytes_of(views[i]) + 255) / 256 * 256;
    }
    return bytes;
  }

  void send(const std::byte* data, std::uint64_t bytes, std::uint32_t member) const {
    if (bytes > 0) require(of.calls_.send(data, bytes, NcclCalls::u8, static_cast<int>(member), on.get(), queue()));
  }
  void receive(std::byte* data, std::uint64_t bytes, std::uint32_t member) const {
    if (bytes > 0) require(of.calls_.receive(data, bytes, NcclCalls::u8, static_cast<int>(member), on.get(), queue()));
  }

  /// Runs between the beginning and the end of a group of calls.
  void give() {
    const NcclCalls& calls = of.calls_;
    const int op = reduction_of(c.reduction);
    const auto root = static_cast<int>(index(c.root));
    std::byte* room = nullptr;
    if (const std::uint64_t bytes = room_needed(); bytes > 0) room = of.scratch(stream, bytes);
    switch (c.kind) {
      case Collective::Kind::all_reduce:
        for (const MemoryView& v : views) {
          require(calls.all_reduce(v.data, v.data, v.count, number_type(v.dtype), op, on.get(), queue()));
        }
        break;
      case Collective::Kind::reduce_scatter:
        for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
          require(calls.reduce_scatter(views[i].data, result(views[i + 1], room), views[i + 1].count,
                                       number_type(views[i].dtype), op, on.get(), queue()));
        }
        break;
      case Collective::Kind::all_gather:
        for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
          require(
              calls.all_gather(views[i].data, views[i + 1].data, bytes_of(views[i]), NcclCalls::u8, on.get(), queue()));
        }
        break;
      case Collective::Kind::broadcast:
        for (std::size_t i = 0; i < views.size(); i += pairs ? 2 : 1) {
          require(calls.broadcast(views[i].data, views[pairs ? i + 1 : i].data, bytes_of(views[i]), NcclCalls::u8, root,
                                  on.get(), queue()));
        }
        break;
      case Collective::Kind::reduce: {
        const bool first = members.me == index(c.root);
        for (std::size_t i = 0; i < views.size(); i += pairs ? 2 : 1) {
          // A rank that is not the root does not get written: NCCL looks only at the root's result.
          std::byte* to = !first ? nullptr : pairs ? result(views[i + 1], room) : views[i].data;
          require(calls.reduce(views[i].data, to, views[i].count, number_type(views[i].dtype), op, root, on.get(),
                               queue()));
        }
        break;
      }
      case Collective::Kind::all_to_all:
        for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
          const std::uint64_t part = bytes_of(views[i]) / members.size();
          for (std::uint32_t m = 0; m < members.size(); ++m) {
            if (m == members.me) continue;
            send(views[i].data + m * part, part, m);
            receive(views[i + 1].data + m * part, part, m);
          }
        }
        break;
      case Collective::Kind::permute: {
        const auto [to, from] = neighbours();
        if (to == members.me) break;
        for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
          send(views[i].data, bytes_of(views[i]), to);
          receive(views[i + 1].data, bytes_of(views[i + 1]), from);
        }
        break;
      }
      case Collective::Kind::barrier: {
        std::byte* const none = of.scratch(stream, sizeof(std::int32_t));
        require(calls.all_reduce(none, none, 1, NcclCalls::i32, NcclCalls::max, on.get(), queue()));
        break;
      }
    }
  }

  /// Runs in the same stream, after NCCL's part.
  void add_up() {
    for (const auto& [to, from] : sums) add_to(stream, *to, from, c.reduction);
  }
  /// Parts that stay on this rank are only copied within its own memory.
  void keep_own() {
    for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
      if (c.kind == Collective::Kind::all_to_all) {
        const std::uint64_t part = bytes_of(views[i]) / members.size();
        copy_within(stream, views[i + 1].data + members.me * part, views[i].data + members.me * part, part);
      } else if (c.kind == Collective::Kind::permute && neighbours().first == members.me) {
        copy_within(stream, views[i + 1].data, views[i].data, bytes_of(views[i]));
      }
    }
  }

 private:
  /// For a permute: the member that takes this one's data, and the one whose data this one takes.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> neighbours() const {
    const std::uint32_t width = c.width == 0 ? members.size() : c.width;
    const std::uint32_t first = members.me / width * width;
    const std::uint32_t far = index(c.root) % width;
    return {first + (members.me - first + far) % width, first + (members.me - first + width - far) % width};
  }
};

NcclTransport::NcclTransport(const NcclCalls& calls, Device& device, const Program& program, World& world,
                             Communicator& communicator, Rank rank, Seconds limit)
    : calls_(calls),
      device_(device),
      program_(program),
      world_(world),
      communicator_(communicator),
      rank_(rank),
      limit_(limit),
      groups_(nccl_groups(program)) {}

NcclTransport::~NcclTransport() {
  for (const auto& [stream, block] : scratch_) device_.release(block.at);
  for (std::byte* p : old_scratch_) device_.release(p);
  // Parts must end before the whole communicator.
  parts_.clear();
  exchanges_.clear();
}

NcclPatience NcclTransport::patience() {
  return [this, began = std::chrono::steady_clock::now()](const char* what) {
    world_.look();
    if (world_.aborted()) throw Aborted{};
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() < limit_.base()) return;
    world_.abort(fmt::format("rank {} has waited {:g} s for NCCL to {}", index(rank_), limit_.base(), what));
    throw Aborted{};
  };
}

/// Rank 0's id, with which all ranks find each other.
NcclCalls::Id NcclTransport::shared_id() {
  struct Told {
    std::int64_t version = 0;
    NcclCalls::Id id;
  };
  static_assert(sizeof(Told) == 136);
  Told mine;
  mine.version = calls_.version;
  if (rank_ == Rank{0}) NcclCommunicator::require(calls_, calls_.get_unique_id(&mine.id), "begin");
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < program_.mesh.size(); ++r) ranks.push_back(Rank{r});
  std::vector<Told> all(ranks.size());
  const MemoryView views[2] = {
      {reinterpret_cast<std::byte*>(&mine), DType::u8, sizeof mine, View::Use::read},
      {reinterpret_cast<std::byte*>(all.data()), DType::u8, sizeof(Told) * all.size(), View::Use::write}};
  Collective tell;
  tell.kind = Collective::Kind::all_gather;
  CollectiveScratch scratch;
  run_collective(communicator_, tell, {ranks, index(rank_), start_tag}, views, scratch, 0);
  for (const Rank r : ranks) {
    if (all[index(r)].version == all[0].version) continue;
    throw Error("rank 0 has NCCL " + nccl_version_text(static_cast<int>(all[0].version)) + " and rank " +
                std::to_string(index(r)) + " NCCL " + nccl_version_text(static_cast<int>(all[index(r)].version)) +
                "; all ranks need the same");
  }
  return all[0].id;
}

void NcclTransport::start() {
  const NcclCalls::Id id = shared_id();
  const std::uint32_t me = index(rank_);
  const auto ranks = static_cast<int>(program_.mesh.size());
  all_ = std::make_unique<NcclCommunicator>(calls_, id, ranks, static_cast<int>(me), patience());
  try {
    for (const RankParts& parts : groups_.parts) {
      parts_.push_back(all_->split(parts.color[me], parts.key[me], patience()));
    }
    for (const std::uint32_t key : groups_.exchanges) {
      exchanges_[key] = all_->split(0, static_cast<int>(me), patience());
    }
  } catch (...) {
    abort();  // else each waits for partners before it ends
    throw;
  }
}

std::byte* NcclTransport::scratch(DeviceStream& stream, std::uint64_t bytes) {
  Scratch& block = scratch_[&stream];
  if (block.bytes >= bytes) return block.at;
  std::byte* const more = device_.allocate(bytes);
  if (more == nullptr)
    throw Error("no device memory for " + std::to_string(bytes) + " bytes that sums are received in");
  if (block.at != nullptr) old_scratch_.push_back(block.at);
  scratch_bytes_ += bytes - block.bytes;
  block = {more, bytes};
  return more;
}

void NcclTransport::finish(NcclGroup& group, const NcclCommunicator& on) {
  group.end();
  on.settle(patience(), "carry out what it was asked");
}

/// Does what a ring of one member would.
void NcclTransport::by_itself(const Collective& c, std::span<const MemoryView> views, DeviceStream& stream) {
  if (!come_in_pairs(views)) return;
  for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
    if (views[i + 1].use == View::Use::accumulate) {
      add_to(stream, views[i + 1], views[i].data, c.reduction);
    } else {
      copy_within(stream, views[i + 1].data, views[i].data, bytes_of(views[i]));
    }
  }
}

void NcclTransport::collective(const Collective& c, const Members& members, std::span<const MemoryView> views,
                               DeviceStream& stream, DeviceEvent& start) {
  for (const MemoryView& v : views) ORRERY_ASSERT(v.dtype == views[0].dtype, v.dtype);
  stream.record(start);
  const std::optional<std::uint32_t> part = groups_.of_group[index(c.group)];
  if (members.size() == 1 || !part) return by_itself(c, views, stream);
  const NcclCommunicator& on = *parts_[*part];
  Job job{*this, c, members, views, stream, on};
  job.keep_own();
  NcclGroup group(calls_);
  job.give();
  finish(group, on);
  job.add_up();
}

void NcclTransport::exchange(std::span<const DeviceTransfer> transfers, DeviceStream& stream, DeviceEvent& start) {
  stream.record(start);
  if (transfers.empty()) return;
  const auto key = [&](const DeviceTransfer& t) { return exchange_key(groups_.split, t.channel, t.sender); };
  const NcclCommunicator& on = *exchanges_.at(key(transfers.front()));
  // NCCL knows no tags: both sides issue messages between the same ranks in the order of their tags.
  std::vector<const DeviceTransfer*> order;
  for (const DeviceTransfer& t : transfers) {
    ORRERY_ASSERT(key(t) == key(transfers.front()), t.channel, t.sender);
    if (t.bytes > 0) order.push_back(&t);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->tag < b->tag; });
  NcclGroup group(calls_);
  for (const DeviceTransfer* t : order) {
    const auto peer = static_cast<int>(index(t->peer));
    const int code = t->send ? calls_.send(t->data, t->bytes, NcclCalls::u8, peer, on.get(), stream.native())
                             : calls_.receive(t->data, t->bytes, NcclCalls::u8, peer, on.get(), stream.native());
    NcclCommunicator::require(calls_, code, "take a message", on.get());
  }
  finish(group, on);
}

void NcclTransport::look() {
  world_.look();
  if (world_.aborted()) throw Aborted{};
  try {
    if (all_) all_->look();
    for (const auto& part : parts_) {
      if (part) part->look();
    }
    for (const auto& [key, exchange] : exchanges_) exchange->look();
  } catch (const Error&) {
    world_.look();  // NCCL's error may be that a partner is gone, which is that partner's fault
    if (world_.aborted()) throw Aborted{};
    throw;
  }
}

/// Aborts all communicators at once, each in a thread. NCCL's abort flags its own communicator and then waits for the
/// device's work on it. That work may wait, in the stream, for the kernel of another communicator, which ends only when
/// that one is flagged.
void NcclTransport::abort() {
  std::vector<NcclCommunicator*> all;
  for (const auto& part : parts_) {
    if (part) all.push_back(part.get());
  }
  for (const auto& [key, exchange] : exchanges_) all.push_back(exchange.get());
  if (all_) all.push_back(all_.get());
  std::vector<std::thread> threads;
  threads.reserve(all.size());
  for (NcclCommunicator* one : all) threads.emplace_back([one] { one->abort(); });
  for (std::thread& t : threads) t.join();
}

void NcclTransport::begin_again() {
  for (std::byte* p : old_scratch_) device_.release(p);
  old_scratch_.clear();
}

}  // namespace orrery
