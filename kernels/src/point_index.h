// The points of one space by topic: the compiled form of cn.match.point_index.PointIndex.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "point_tree.h"
#include "reading.h"

namespace kernels {

class PointIndex {
   public:
    PointIndex(int dimensions, int block_size);
    PointIndex(const PointIndex&) = delete;

    int dimensions() const { return shape_.dimensions; }
    int64_t size() const { return size_; }
    int64_t visits() const { return visits_; }

    void insert(int64_t id, nb::bytes topic, nb::handle point);
    void insert_many(nb::handle ids, nb::handle topics, nb::handle points);
    void remove(nb::handle id, nb::handle topic, nb::handle point);
    void move(nb::handle id, nb::handle old_topic, nb::handle old_point, nb::bytes topic, nb::handle point);

    nb::object find(nb::bytes topic, nb::handle region);
    nb::object codes(nb::bytes topic, nb::handle region, int dimension);
    nb::object entries(nb::bytes topic, nb::handle region);
    int64_t count(nb::bytes topic, nb::handle region);
    bool any(nb::bytes topic, nb::handle region);
    // The tree of a topic, for kernels that ask by spans; null if it has no point.
    const PointTree* tree(std::string_view topic) const;
    bool any(const PointTree* tree, const Span* spans) { return tree && tree->any(spans, visits_); }
    // The same of ranges, points of two dimensions: see PointTree::any_range.
    bool any_range(const PointTree* tree, const Span* spans) { return tree && tree->any_range(spans, visits_); }
    void find(const PointTree* tree, const Span* spans, std::vector<int64_t>& ids) {
        int last = shape_.dimensions;
        tree->search(spans, visits_, [&](const PointLeaf& leaf, int at) { ids.push_back(leaf.column(last)[at]); });
    }

    nb::list items() const;
    nb::list sample(int64_t count, nb::handle source) const;
    nb::list thinned(int64_t count) const;
    int64_t population(nb::bytes topic) const;
    size_t nbytes() const;
    void check() const;

   private:
    struct Topic {
        const std::string* name;  // the key of the map; null if the number is free
        PointTree tree;
    };

    PointShape shape_;
    int64_t size_ = 0, visits_ = 0;
    std::unordered_map<std::string, uint32_t> numbers_;
    std::vector<Topic> topics_;
    std::vector<uint32_t> free_;
    nb::object no_ids_;

    PointTree& take(std::string_view topic);
    PointTree* found(std::string_view topic);
    void release(std::string_view topic);
    bool read_point(nb::handle id, nb::handle point, int64_t* columns) const;  // false: of other dimensions
    nb::object as_point(const int64_t* columns) const;
    nb::list points_at(const std::vector<int64_t>& places) const;
    template <class Visit>
    void search(nb::bytes topic, nb::handle region, Visit&& visit);
};

inline std::string_view view(nb::handle bytes) {
    return {PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

}  // namespace kernels
