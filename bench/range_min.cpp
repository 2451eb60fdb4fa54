// The range-min events of `prosem bench range-min` on the bare tree and rule, without Python: what C++ alone takes.
//
// Reads 64-bit integers from its input: the number of tuples and of updates, x and y of each tuple, key and new y of each
// update. Prints the nanoseconds of CPU time per update and the number of pieces that the rule made.
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <vector>

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

bool read(std::vector<int64_t>& into, size_t count) {
    into.resize(count);
    return fread(into.data(), sizeof(int64_t), count, stdin) == count;
}

double cpu_ns() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e9 * now.tv_sec + now.tv_nsec;
}
}  // namespace

int main() {
    std::vector<int64_t> sizes, tuples, updates;
    if (!read(sizes, 2) || !read(tuples, 2 * sizes[0]) || !read(updates, 2 * sizes[1])) return 1;
    std::vector<kernels::RangeTree<Number>::Point> points;
    for (int64_t key = 0; key < sizes[0]; ++key) points.push_back({tuples[2 * key], tuples[2 * key + 1], key});
    kernels::RangeTree<Number> tree;
    tree.build(points);
    Rule rule;
    size_t pieces = 0;
    double begun = cpu_ns();
    for (int64_t at = 0; at < sizes[1]; ++at) {
        int64_t key = updates[2 * at], y = updates[2 * at + 1], x = tuples[2 * key];
        if (!rule.step(tree, Rule::Place{x, tuples[2 * key + 1]}, Rule::Place{x, y}, key)) return 2;
        tuples[2 * key + 1] = y;
        pieces += rule.pieces.size();
    }
    printf("%.1f %zu\n", (cpu_ns() - begun) / sizes[1], pieces);
}
