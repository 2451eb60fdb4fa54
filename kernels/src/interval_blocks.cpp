// Intervals in blocks, and their binding: the protocol of prosem/index/joins/interval_blocks.py.
#include "interval_blocks.h"

#include "arrays.h"
#include "bindings.h"

namespace kernels {

// -- blocks ------------------------------------------------------------------------------------------------
int64_t IntervalBlocks::least_high(const Block& block) {
    int64_t least = HIGHEST;
    for (const Held& held : block) least = std::min(least, held.high);
    return least;
}

IntervalBlocks::Block::const_iterator IntervalBlocks::behind(const Block& block, int64_t code) {
    return std::upper_bound(block.begin(), block.end(), code,
                            [](int64_t code, const Held& held) { return code < held.low; });
}

IntervalBlocks::Block::const_iterator IntervalBlocks::not_before(const Block& block, int64_t code) {
    return std::lower_bound(block.begin(), block.end(), code,
                            [](const Held& held, int64_t code) { return held.low < code; });
}

// The last block whose first interval is not behind one; there are blocks.
size_t IntervalBlocks::block_for(const Held& held) const {
    auto found = std::upper_bound(blocks_.begin(), blocks_.end(), held,
                                  [](const Held& held, const Block& block) { return held < block.front(); });
    return found == blocks_.begin() ? 0 : static_cast<size_t>(found - blocks_.begin()) - 1;
}

// The first block that may hold an interval with low > after.
size_t IntervalBlocks::block_behind(int64_t after) const {
    auto found = std::upper_bound(first_lows_.begin(), first_lows_.end(), after);
    return found == first_lows_.begin() ? 0 : static_cast<size_t>(found - first_lows_.begin()) - 1;
}

// The first block, from one on, that holds no interval with low < before.
size_t IntervalBlocks::block_not_before(int64_t before, size_t from) const {
    auto start = first_lows_.begin() + static_cast<std::ptrdiff_t>(from);
    return static_cast<size_t>(std::lower_bound(start, first_lows_.end(), before) - first_lows_.begin());
}

// Puts intervals, in order, in the place of some blocks: in parts if they are too many for one.
void IntervalBlocks::put(size_t at, size_t count, std::vector<Held> some) {
    size_t parts = (some.size() + block_size_ - 1) / block_size_;
    std::vector<Block> fresh;
    for (size_t part = 0; part < parts; ++part)
        fresh.emplace_back(some.begin() + static_cast<std::ptrdiff_t>(some.size() * part / parts),
                           some.begin() + static_cast<std::ptrdiff_t>(some.size() * (part + 1) / parts));
    std::vector<int64_t> minima, lows;
    for (const Block& block : fresh) {
        minima.push_back(least_high(block));
        lows.push_back(block.front().low);
    }
    auto replace = [&](auto& column, auto& by) {
        auto start = column.erase(column.begin() + static_cast<std::ptrdiff_t>(at),
                                  column.begin() + static_cast<std::ptrdiff_t>(at + count));
        column.insert(start, std::make_move_iterator(by.begin()), std::make_move_iterator(by.end()));
    };
    replace(blocks_, fresh);
    replace(minima_, minima);
    replace(first_lows_, lows);
}

// -- changes -----------------------------------------------------------------------------------------------
void IntervalBlocks::add(const Held& held) {
    ++count_;
    if (blocks_.empty()) return put(0, 0, {held});
    size_t at = block_for(held);
    Block& block = blocks_[at];
    block.insert(std::upper_bound(block.begin(), block.end(), held), held);
    minima_[at] = std::min(minima_[at], held.high);
    first_lows_[at] = block.front().low;
    if (block.size() > block_size_) put(at, 1, Block(block));
}

void IntervalBlocks::add_many(std::vector<Held> some) {
    each([&](const Held& held) { some.push_back(held); });
    std::sort(some.begin(), some.end());
    count_ = some.size();
    size_t blocks = blocks_.size();
    size_t full = block_size_;
    block_size_ = std::max<size_t>(1, full * 3 / 4);  // leaves room in every block
    put(0, blocks, std::move(some));
    block_size_ = full;
}

bool IntervalBlocks::remove(const Held& held) {
    if (blocks_.empty()) return false;
    size_t at = block_for(held);
    Block& block = blocks_[at];
    auto place = std::lower_bound(block.begin(), block.end(), held);
    if (place == block.end() || !(*place == held)) return false;
    block.erase(place);
    --count_;
    if (block.empty()) {
        put(at, 1, {});
        return true;
    }
    first_lows_[at] = block.front().low;
    if (held.high == minima_[at]) minima_[at] = least_high(block);
    if (block.size() >= block_size_ / 4) return true;
    for (size_t left : {at, at - 1}) {
        if (left >= blocks_.size() || left + 1 >= blocks_.size()) continue;
        if (blocks_[left].size() + blocks_[left + 1].size() > block_size_ / 2) continue;
        Block both = blocks_[left];
        both.insert(both.end(), blocks_[left + 1].begin(), blocks_[left + 1].end());
        put(left, 2, std::move(both));
        break;
    }
    return true;
}

// -- questions ---------------------------------------------------------------------------------------------
bool IntervalBlocks::first_end(std::optional<int64_t> after, std::optional<int64_t> before, Ends& found) const {
    size_t first = after ? block_behind(*after) : 0;
    size_t stop = before ? block_not_before(*before, first) : blocks_.size();
    bool is_found = false;
    auto look = [&](size_t at) {
        const Block& block = blocks_[at];
        auto start = after ? behind(block, *after) : block.begin();
        auto end = before ? not_before(block, *before) : block.end();
        for (; start < end; ++start)
            if (!is_found || start->high < found.second) {
                found = {start->low, start->high};
                is_found = true;
            }
    };
    if (first >= stop) return false;
    look(first);
    size_t best = stop;  // of the blocks between: all their intervals count
    for (size_t at = first + 1; at + 1 < stop; ++at)
        if ((best == stop && (!is_found || minima_[at] < found.second)) || (best != stop && minima_[at] < minima_[best]))
            best = at;
    if (best != stop) look(best);
    if (stop - first > 1) look(stop - 1);
    return is_found;
}

bool IntervalBlocks::inside(int64_t after, int64_t before, size_t limit, std::vector<Held>& found) const {
    size_t first = block_behind(after);
    size_t stop = block_not_before(before, std::min(first, blocks_.size()));
    if (stop > first + NEAR) return false;
    for (size_t at = first; at < stop; ++at) {
        const Block& block = blocks_[at];
        auto end = not_before(block, before);
        for (auto held = behind(block, after); held < end; ++held) {
            if (held->high >= before) continue;
            if (found.size() == limit) return false;
            found.push_back(*held);
        }
    }
    return true;
}

// -- invariants --------------------------------------------------------------------------------------------
void IntervalBlocks::check() const {
    require(minima_.size() == blocks_.size() && first_lows_.size() == blocks_.size(), "the columns are parallel");
    size_t count = 0;
    const Held* before = nullptr;
    for (size_t at = 0; at < blocks_.size(); ++at) {
        const Block& block = blocks_[at];
        require(!block.empty() && block.size() <= block_size_, "no block is empty or too large");
        require(minima_[at] == least_high(block), "the least upper end of a block is known");
        require(first_lows_[at] == block.front().low, "the first lower end of a block is known");
        count += block.size();
        for (const Held& held : block) {
            require(!before || !(held < *before), "intervals ascend");
            before = &held;
        }
    }
    require(count == count_, "the count is kept");
}

// -- binding -----------------------------------------------------------------------------------------------
namespace {
std::optional<int64_t> end_or_none(nb::handle end) {
    if (end.is_none()) return std::nullopt;
    return code_of(end.ptr());
}

void add_many(IntervalBlocks& blocks, nb::handle intervals, nb::handle refs) {
    nb::object numpy = nb::module_::import_("numpy"), int64 = numpy.attr("int64");
    auto ends = nb::cast<ReadColumn>(
        numpy.attr("ascontiguousarray")(numpy.attr("asarray")(intervals, int64).attr("reshape")(-1)));
    auto owners = nb::cast<ReadColumn>(numpy.attr("ascontiguousarray")(numpy.attr("asarray")(refs, int64)));
    if (ends.shape(0) != 2 * owners.shape(0)) throw nb::value_error("each interval has a ref");
    std::vector<IntervalBlocks::Held> some(owners.shape(0));
    for (size_t at = 0; at < some.size(); ++at)
        some[at] = {ends.data()[2 * at], ends.data()[2 * at + 1], owners.data()[at]};
    blocks.add_many(std::move(some));
}
}  // namespace

void bind_interval_blocks(nb::module_& module) {
    nb::class_<IntervalBlocks>(module, "IntervalBlocks")
        .def("__init__",
             [](IntervalBlocks* self, bool int64, size_t block_size) {
                 if (!int64) throw nb::value_error("codes are 64-bit integers");
                 new (self) IntervalBlocks(block_size);
             },
             nb::arg("int64"), nb::kw_only(), nb::arg("block_size") = 1024)
        .def("__len__", &IntervalBlocks::size)
        .def("__iter__",
             [](const IntervalBlocks& self) {
                 nb::list all;
                 self.each([&](const auto& held) { all.append(nb::make_tuple(held.low, held.high, held.ref)); });
                 return nb::iter(all);
             })
        .def("add", [](IntervalBlocks& self, int64_t low, int64_t high, int64_t ref) { self.add({low, high, ref}); })
        .def("add_many", &add_many)
        .def("remove",
             [](IntervalBlocks& self, int64_t low, int64_t high, int64_t ref) {
                 if (!self.remove({low, high, ref})) raise_key_error(nb::make_tuple(low, high, ref));
             })
        .def("first_end",
             [](const IntervalBlocks& self, nb::handle after, nb::handle before) -> nb::object {
                 IntervalBlocks::Ends found;
                 if (!self.first_end(end_or_none(after), end_or_none(before), found)) return nb::none();
                 return nb::make_tuple(found.first, found.second);
             },
             nb::arg("after").none(), nb::arg("before").none() = nb::none())
        .def("inside",
             [](const IntervalBlocks& self, int64_t after, int64_t before, size_t limit) -> nb::object {
                 std::vector<IntervalBlocks::Held> found;
                 if (!self.inside(after, before, limit, found)) return nb::none();
                 nb::list refs;
                 for (const auto& held : found) refs.append(held.ref);
                 return refs;
             })
        .def_prop_ro("nbytes", &IntervalBlocks::bytes)
        .def("check", &IntervalBlocks::check);
}

}  // namespace kernels
