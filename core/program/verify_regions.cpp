#include "core/program/verify_regions.hpp"

#include <algorithm>

namespace orrery::verifying {

AxisBits bits(const Mesh& mesh, const AxisList& axes) {
  AxisBits out = 0;
  for (const Axis a : axes) {
    if (mesh.size(a) > 1) out = static_cast<AxisBits>(out | bit(a));
  }
  return out;
}

std::string names(AxisBits set) {
  std::string out;
  for (std::size_t a = 0; a < axis_count; ++a) {
    if ((set & bit(static_cast<Axis>(a))) == 0) continue;
    if (!out.empty()) out += " and ";
    out += name_of(static_cast<Axis>(a));
  }
  return out;
}

AxisBits cuts(const Program& p, const Shard& s, std::size_t from, std::size_t to) {
  AxisBits out = 0;
  for (std::size_t i = from; i < std::min<std::size_t>(to, s.rank); ++i) {
    out = static_cast<AxisBits>(out | bits(p.mesh, s.dims[i].split));
  }
  return out;
}

AxisBits sums(const Program& p, const Shard& s, std::size_t from, std::size_t to) {
  return static_cast<AxisBits>(cuts(p, s, from, to) & ~bits(p.mesh, p.class_axes));
}

AxisBits cuts_of_experts(const Program& p, const ParameterSlice& s) {
  return contains(s.shard.dims[0].split, Axis::expert) ? cuts(p, s.shard, 0, 1) : AxisBits{0};
}

const ParameterSlice* slice_of(const Program& p, const View& v) {
  const Buffer& b = p[v.buffer];
  if (!b.parameters || !b.flat_split.empty()) return nullptr;
  for (const ParameterSlice& s : p.parameter_tables[*b.parameters].slices) {
    if (s.offset == v.offset && v.count == local_count(s.shard, p.mesh)) return &s;
  }
  return nullptr;
}

std::size_t InstanceHash::operator()(const Instance& i) const {
  Hash h;
  h.add(index(i.buffer));
  h.add((std::uint64_t{i.layer} << 32) | i.microbatch);
  return h.value;
}

bool Regions::covered(const OpRun& run, const View& v) {
  std::vector<Region> sorted = of(run, v);
  std::sort(sorted.begin(), sorted.end(), [](const Region& a, const Region& b) { return a.low < b.low; });
  std::uint64_t at = low(v);
  for (const Region& r : sorted) {
    if (r.low <= at) at = std::max(at, r.high);
  }
  return at >= low(v) + v.count;
}

std::uint64_t Regions::content(const OpRun& run, const View& v) {
  auto& list = of(run, v);
  const std::uint64_t from = low(v), to = from + v.count;
  if (list.size() == 1 && list[0].low <= from && to <= list[0].high) return list[0].content;
  Hash h;
  h.add(InstanceHash()(instance(run, v)));
  std::sort(list.begin(), list.end(), [](const Region& a, const Region& b) { return a.low < b.low; });
  for (const Region& r : list) {
    if (r.high <= from || to <= r.low) continue;
    if (r.low <= from && to <= r.high) return r.content;
    h.add(r.low);
    h.add(r.content);
  }
  return h.value;
}

std::uint64_t Regions::origin(const OpRun& run, const View& v) {
  const std::uint64_t from = low(v), to = from + v.count;
  for (const Region& r : of(run, v)) {
    if (r.low <= from && to <= r.high && r.origin != 0) return r.origin;
  }
  return content(run, v);
}

AxisBits Regions::partial_of(const OpRun& run, const View& v) {
  AxisBits partial = 0;
  for (const Region& r : of(run, v)) {
    if (touches(r, v)) partial = static_cast<AxisBits>(partial | r.partial);
  }
  return partial;
}

void Regions::copy_partials(const OpRun& run, const View& from, const View& to) {
  const std::uint64_t begin = low(from), end = begin + from.count;
  std::vector<Region> parts;
  bool alike = true;
  for (const Region& r : of(run, from)) {
    if (!touches(r, from)) continue;
    parts.push_back(r);
    alike = alike && r.partial == parts.front().partial;
  }
  if (alike) return;
  auto& list = of(run, to);
  const Region whole = list.back();  // as put() left it
  list.pop_back();
  const auto add = [&](std::uint64_t first, std::uint64_t last, AxisBits partial) {
    if (first >= last) return;
    Region& copy = list.emplace_back(whole);
    copy.low = whole.low + first - begin;
    copy.high = whole.low + last - begin;
    copy.partial = partial;
  };
  std::sort(parts.begin(), parts.end(), [](const Region& a, const Region& b) { return a.low < b.low; });
  std::uint64_t at = begin;
  for (const Region& r : parts) {
    add(at, r.low, 0);  // a gap: no op wrote there, but the copy did at the other end
    add(std::max(r.low, begin), std::min(r.high, end), r.partial);
    at = r.high;
  }
  add(at, end, 0);
}

void Regions::put(const OpRun& run, const View& v, AxisBits partial, std::uint64_t content, const Blocks& blocks,
                  const Attended& attended, std::uint64_t origin) {
  auto& list = of(run, v);
  const std::uint64_t from = low(v), to = from + v.count;
  std::vector<Region> next;
  next.reserve(list.size() + 2);
  for (const Region& r : list) {
    if (r.high <= from || to <= r.low) {
      next.push_back(r);
      continue;
    }
    if (r.low < from) {
      next.push_back(r);
      next.back().high = from;
    }
    if (to < r.high) {
      next.push_back(r);
      next.back().low = to;
    }
  }
  next.push_back({from, to, stamp_, false, partial, content, origin, blocks, attended});
  list = std::move(next);
}

}  // namespace orrery::verifying
