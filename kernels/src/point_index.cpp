#include "point_index.h"

#include "arrays.h"
#include "bindings.h"

namespace kernels {

namespace {
constexpr int LEAF_SIZE = 64;
constexpr int FAN_OUT = 16;

[[noreturn]] void raise_missing(nb::handle id, nb::handle topic, nb::handle point) {
    raise_key_error(nb::make_tuple(id, topic, point));
}
}  // namespace

PointIndex::PointIndex(int dimensions, int block_size) {
    if (dimensions < 1 || block_size < 4)
        throw nb::value_error("an index needs at least one dimension and blocks of at least four points");
    if (dimensions > MAX_DIMENSIONS) throw nb::value_error("the compiled index has at most 32 dimensions");
    shape_ = {dimensions, std::min(block_size, LEAF_SIZE), std::min(block_size, FAN_OUT)};
    no_ids_ = as_array({});
    no_ids_.attr("flags").attr("writeable") = false;
}

// -- topics ------------------------------------------------------------------------------------------------
PointTree* PointIndex::found(std::string_view topic) {
    auto at = numbers_.find(std::string(topic));
    return at == numbers_.end() ? nullptr : &topics_[at->second].tree;
}

const PointTree* PointIndex::tree(std::string_view topic) const {
    return const_cast<PointIndex*>(this)->found(topic);
}

PointTree& PointIndex::take(std::string_view topic) {
    auto [at, is_new] = numbers_.try_emplace(std::string(topic), 0);
    if (is_new) {
        if (free_.empty()) {
            at->second = static_cast<uint32_t>(topics_.size());
            topics_.push_back({&at->first, PointTree(shape_)});
        } else {
            at->second = free_.back();
            free_.pop_back();
            topics_[at->second].name = &at->first;
        }
    }
    return topics_[at->second].tree;
}

// Forgets a topic without points.
void PointIndex::release(std::string_view topic) {
    auto at = numbers_.find(std::string(topic));
    if (at == numbers_.end() || topics_[at->second].tree.size()) return;
    topics_[at->second].name = nullptr;
    free_.push_back(at->second);
    numbers_.erase(at);
}

// -- changes -----------------------------------------------------------------------------------------------
bool PointIndex::read_point(nb::handle id, nb::handle point, int64_t* columns) const {
    Items codes{point};
    if (codes.count != shape_.dimensions) return false;
    for (int d = 0; d < shape_.dimensions; ++d) columns[d] = code_of(codes.items[d]);
    columns[shape_.dimensions] = code_of(id.ptr());
    return true;
}

void PointIndex::insert(int64_t id, nb::bytes topic, nb::handle point) {
    int64_t columns[MAX_DIMENSIONS + 1];
    if (!read_point(nb::int_(id), point, columns)) {
        PyErr_Format(PyExc_ValueError, "a point of %zd dimensions in a space of %d", Items{point}.count,
                     shape_.dimensions);
        throw nb::python_error();
    }
    take(view(topic)).insert(columns);
    ++size_;
}

void PointIndex::insert_many(nb::handle ids, nb::handle topics, nb::handle points) {
    int width = shape_.width();
    size_t length = nb::len(ids);
    bool is_one_topic = PyBytes_Check(topics.ptr());
    if (nb::len(points) != length || !(is_one_topic || nb::len(topics) == length))
        throw nb::value_error("there must be as many points as ids, and one topic or as many");
    if (!length) return;
    nb::module_ numpy = nb::module_::import_("numpy");
    nb::object int64 = numpy.attr("int64");
    std::vector<int64_t> rows(length * width);
    {
        auto column = nb::cast<ReadColumn>(numpy.attr("ascontiguousarray")(ids, int64));
        for (size_t at = 0; at < length; ++at) rows[at * width + shape_.dimensions] = column(at);
    }
    if (PyTuple_Check(points.ptr()) || PyList_Check(points.ptr())) {
        Items all{points};
        for (size_t at = 0; at < length; ++at) {
            Items codes{all.items[at]};
            if (codes.count != shape_.dimensions) {
                PyErr_Format(PyExc_ValueError, "points must have %d dimensions", shape_.dimensions);
                throw nb::python_error();
            }
            for (int d = 0; d < shape_.dimensions; ++d) rows[at * width + d] = code_of(codes.items[d]);
        }
    } else {
        nb::object array = numpy.attr("asarray")(points);
        array = array.attr("astype")(int64, nb::arg("order") = "C", nb::arg("casting") = "safe");
        auto vectors = nb::cast<nb::ndarray<const int64_t, nb::c_contig, nb::device::cpu>>(array);
        if (vectors.ndim() != 2 || vectors.shape(1) != static_cast<size_t>(shape_.dimensions)) {
            PyErr_Format(PyExc_ValueError, "points must have %d dimensions", shape_.dimensions);
            throw nb::python_error();
        }
        for (size_t at = 0; at < length; ++at)
            std::copy(vectors.data() + at * shape_.dimensions, vectors.data() + (at + 1) * shape_.dimensions,
                      &rows[at * width]);
    }
    auto add = [&](PointTree& tree, std::vector<int64_t>& some) {
        size_t count = some.size() / width;
        if (static_cast<int64_t>(count) > tree.size() && count > 4)
            tree.build(some);
        else
            for (size_t at = 0; at < count; ++at) tree.insert(&some[at * width]);
    };
    if (is_one_topic) {
        add(take(view(topics)), rows);
    } else {
        Items names{topics};
        for (Py_ssize_t at = 0; at < names.count; ++at)
            if (!PyBytes_Check(names.items[at])) throw nb::type_error("a topic is bytes");
        std::unordered_map<std::string_view, std::vector<int64_t>> parts;
        for (size_t at = 0; at < length; ++at) {
            auto& part = parts[view(names.items[at])];
            part.insert(part.end(), &rows[at * width], &rows[at * width] + width);
        }
        for (auto& [name, part] : parts) add(take(name), part);
    }
    size_ += static_cast<int64_t>(length);
}

void PointIndex::remove(nb::handle id, nb::handle topic, nb::handle point) {
    int64_t columns[MAX_DIMENSIONS + 1];
    PointTree* tree = found(view(topic));
    if (!tree || !read_point(id, point, columns) || !tree->remove(columns)) raise_missing(id, topic, point);
    --size_;
    if (!tree->size()) release(view(topic));
}

void PointIndex::move(nb::handle id, nb::handle old_topic, nb::handle old_point, nb::bytes topic,
                      nb::handle point) {
    int64_t before[MAX_DIMENSIONS + 1], after[MAX_DIMENSIONS + 1];
    if (!read_point(id, point, after)) {
        PyErr_Format(PyExc_ValueError, "a point of %zd dimensions in a space of %d", Items{point}.count,
                     shape_.dimensions);
        throw nb::python_error();
    }
    PointTree* tree = found(view(old_topic));
    if (!tree || !read_point(id, old_point, before) || !tree->remove(before))
        raise_missing(id, old_topic, old_point);
    take(view(topic)).insert(after);
    release(view(old_topic));
}

// -- questions ---------------------------------------------------------------------------------------------
template <class Visit>
void PointIndex::search(nb::bytes topic, nb::handle region, Visit&& visit) {
    PointTree* tree = found(view(topic));
    if (!tree) return;
    Items boxes{region};
    Span spans[MAX_DIMENSIONS];
    for (Py_ssize_t at = 0; at < boxes.count; ++at)
        if (read_box(boxes.items[at], shape_.dimensions, spans) && visit(*tree, spans)) return;
}

nb::object PointIndex::find(nb::bytes topic, nb::handle region) {
    std::vector<int64_t> ids;
    search(topic, region, [&](PointTree& tree, const Span* spans) {
        find(&tree, spans, ids);
        return false;
    });
    return ids.empty() ? no_ids_ : as_array(ids);
}

nb::object PointIndex::codes(nb::bytes topic, nb::handle region, int dimension) {
    if (dimension < 0 || dimension >= shape_.dimensions) throw nb::index_error("there is no such dimension");
    std::vector<int64_t> found;
    search(topic, region, [&](PointTree& tree, const Span* spans) {
        tree.search(spans, visits_,
                    [&](const PointLeaf& leaf, int at) { found.push_back(leaf.column(dimension)[at]); });
        return false;
    });
    return as_array(found);
}

nb::object PointIndex::entries(nb::bytes topic, nb::handle region) {
    std::vector<std::vector<int64_t>> columns(shape_.width());
    search(topic, region, [&](PointTree& tree, const Span* spans) {
        tree.search(spans, visits_, [&](const PointLeaf& leaf, int at) {
            for (int d = 0; d < shape_.width(); ++d) columns[d].push_back(leaf.column(d)[at]);
        });
        return false;
    });
    size_t count = columns[0].size();
    std::vector<int64_t> all = std::move(columns[shape_.dimensions]);  // the ids are the first line
    for (int d = 0; d < shape_.dimensions; ++d) all.insert(all.end(), columns[d].begin(), columns[d].end());
        return count ? as_array(all, static_cast<Py_ssize_t>(count))
                 : as_array(all).attr("reshape")(shape_.width(), 0);
}

int64_t PointIndex::count(nb::bytes topic, nb::handle region) {
    int64_t found = 0;
    search(topic, region, [&](PointTree& tree, const Span* spans) {
        found += tree.count(spans, visits_);
        return false;
    });
    return found;
}

bool PointIndex::any(nb::bytes topic, nb::handle region) {
    bool is_found = false;
    search(topic, region,
           [&](PointTree& tree, const Span* spans) { return is_found = tree.any(spans, visits_); });
    return is_found;
}

int64_t PointIndex::population(nb::bytes topic) const {
    const PointTree* here = tree(view(topic));
    return here ? here->size() : 0;
}

// -- listings ----------------------------------------------------------------------------------------------
nb::object PointIndex::as_point(const int64_t* columns) const {
    nb::object point = nb::steal(PyTuple_New(shape_.dimensions));
    for (int d = 0; d < shape_.dimensions; ++d)
        PyTuple_SET_ITEM(point.ptr(), d, PyLong_FromLongLong(columns[d]));
    return point;
}

nb::list PointIndex::items() const {
    nb::list all;
    int64_t columns[MAX_DIMENSIONS + 1];
    for (const Topic& topic : topics_) {
        if (!topic.name) continue;
        nb::bytes name(topic.name->data(), topic.name->size());
        topic.tree.each([&](const PointLeaf& leaf, int at) {
            for (int d = 0; d < shape_.width(); ++d) columns[d] = leaf.column(d)[at];
            all.append(nb::make_tuple(columns[shape_.dimensions], name, as_point(columns)));
        });
    }
    return all;
}

// The points at ascending places of the order of all points.
nb::list PointIndex::points_at(const std::vector<int64_t>& places) const {
    nb::list points;
    int64_t columns[MAX_DIMENSIONS + 1], before = 0;
    auto topic = topics_.begin();
    for (int64_t place : places) {
        while (place - before >= topic->tree.size()) before += (topic++)->tree.size();
        topic->tree.point_at(place - before, columns);
        points.append(as_point(columns));
    }
    return points;
}

nb::list PointIndex::sample(int64_t count, nb::handle source) const {
    std::vector<int64_t> places;
    for (int64_t at = 0; size_ && at < count; ++at)
        places.push_back(nb::cast<int64_t>(source.attr("randrange")(size_)));
    std::sort(places.begin(), places.end());
    return points_at(places);
}

nb::list PointIndex::thinned(int64_t count) const {
    int64_t step = std::max<int64_t>(1, size_ / std::max<int64_t>(1, count));
    std::vector<int64_t> places;
    for (int64_t at = step / 2; at < size_; at += step) places.push_back(at);
    return points_at(places);
}

size_t PointIndex::nbytes() const {
    size_t sum = sizeof(*this) + topics_.capacity() * sizeof(Topic) + free_.capacity() * sizeof(uint32_t);
    sum += numbers_.bucket_count() * sizeof(void*);
    for (const Topic& topic : topics_) sum += topic.tree.nbytes();
    for (const auto& [name, number] : numbers_) sum += 64 + (name.size() > 15 ? name.capacity() : 0);
    return sum;
}

void PointIndex::check() const {
    int64_t sum = 0;
    size_t used = 0;
    for (const Topic& topic : topics_) {
        topic.tree.check();
        sum += topic.tree.size();
        used += topic.name != nullptr;
        require((topic.name != nullptr) == (topic.tree.size() > 0), "a topic is known while it has points");
    }
    require(sum == size_, "the number of points is kept");
    require(used == numbers_.size() && used + free_.size() == topics_.size(), "numbers are used or free");
    for (const auto& [name, number] : numbers_)
        require(topics_[number].name == &name, "a number leads back to its topic");
}

void bind_point_index(nb::module_& module) {
    nb::class_<PointIndex>(module, "PointIndex")
        .def("__init__",
             [](PointIndex* self, int dimensions, bool int64, int block_size) {
                 if (!int64) throw nb::value_error("the compiled index holds 64-bit codes alone");
                 new (self) PointIndex(dimensions, block_size);
             },
             nb::arg("dimensions"), nb::arg("int64") = true, nb::kw_only(), nb::arg("block_size") = 2048)
        .def_prop_ro("dimensions", &PointIndex::dimensions)
        .def_prop_ro("int64", [](const PointIndex&) { return true; })
        .def("__len__", &PointIndex::size)
        .def("insert", &PointIndex::insert)
        .def("insert_many", &PointIndex::insert_many)
        .def("remove", &PointIndex::remove)
        .def("move", &PointIndex::move)
        .def("find", nb::overload_cast<nb::bytes, nb::handle>(&PointIndex::find))
        .def("codes", &PointIndex::codes)
        .def("entries", &PointIndex::entries)
        .def("count", &PointIndex::count)
        .def("any", nb::overload_cast<nb::bytes, nb::handle>(&PointIndex::any))
        .def("items", [](const PointIndex& self) { return nb::iter(self.items()); })
        .def("sample", &PointIndex::sample)
        .def("population", &PointIndex::population)
        .def("thinned", &PointIndex::thinned)
        .def_prop_ro("visits", &PointIndex::visits)
        .def_prop_ro("nbytes", &PointIndex::nbytes)
        .def("check", &PointIndex::check);
}

}  // namespace kernels
