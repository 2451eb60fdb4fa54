// The range-min events of `prosem bench range-min` without Python: what C++ alone takes.
//
// Reads 64-bit integers from its input: the numbers of tuples, updates and subscriptions, x and y of each tuple, key and new
// y of each update, the ends of each subscription's range. Prints the nanoseconds of CPU time per update and the number of
// pieces, of tree and rule alone, and of both with the search for pieces that hold a subscription.
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <vector>

#include "point_tree.h"
#include "range_rule.h"

namespace {
struct Number {
    using Value = int64_t;
    static int64_t hash(int64_t number) { return number; }
    static bool equal(int64_t one, int64_t other) { return one == other; }
    static void keep(int64_t) {}
    static void let_go(int64_t) {}
};
using Rule = kernels::RangeRule<Number>;
using Tree = kernels::RangeTree<Number>;

bool read(std::vector<int64_t>& into, size_t count) {
    into.resize(count);
    return fread(into.data(), sizeof(int64_t), count, stdin) == count;
}

double cpu_ns() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e9 * now.tv_sec + now.tv_nsec;
}

bool holds_any(const kernels::PointTree& ranges, const Rule& rule, const Rule::Piece& piece) {
    int64_t visits = 0;
    for (size_t at = piece.first_box; at < piece.first_box + piece.boxes; ++at) {
        kernels::Span spans[2];
        const auto& box = rule.boxes[at];
        if (box.sides[0].span(spans[0]) && box.sides[1].span(spans[1]) && ranges.any_range(spans, visits)) return true;
    }
    return false;
}

// All updates on a tree of its own; `ranges`: null where pieces are only counted.
bool walk(std::vector<int64_t> tuples, const std::vector<int64_t>& updates, const kernels::PointTree* ranges) {
    std::vector<Tree::Point> points;
    for (size_t at = 0; at < tuples.size(); at += 2)
        points.push_back({tuples[at], tuples[at + 1], static_cast<int64_t>(at / 2)});
    Tree tree;
    tree.build(points);
    Rule rule;
    size_t pieces = 0;
    int64_t visits = 0;
    kernels::Span nowhere[2] = {{0, 0}, {0, 0}};
    if (ranges) ranges->any_range(nowhere, visits);  // what is made when it is first asked for is made
    double begun = cpu_ns();
    for (size_t at = 0; at < updates.size(); at += 2) {
        int64_t key = updates[at], y = updates[at + 1], x = tuples[2 * key];
        if (!rule.step(tree, Rule::Place{x, tuples[2 * key + 1]}, Rule::Place{x, y}, key)) return false;
        tuples[2 * key + 1] = y;
        if (!ranges) pieces += rule.pieces.size();
        else
            for (const auto& piece : rule.pieces) pieces += holds_any(*ranges, rule, piece);
    }
    printf("%.1f %zu\n", (cpu_ns() - begun) / (updates.size() / 2), pieces);
    return true;
}
}  // namespace

int main() {
    std::vector<int64_t> sizes, tuples, updates, ranges;
    if (!read(sizes, 3) || !read(tuples, 2 * sizes[0]) || !read(updates, 2 * sizes[1]) || !read(ranges, 3 * sizes[2])) return 1;
    kernels::PointShape shape{2, 64, 16};  // as in kernels/src/point_index.cpp
    kernels::PointTree subscriptions(shape);
    subscriptions.build(ranges);
    return walk(tuples, updates, nullptr) && walk(tuples, updates, &subscriptions) ? 0 : 2;
}
