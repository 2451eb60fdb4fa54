// One tree for each key, as Python objects: a key is a topic (the equality values of its subscriptions), or a topic and a group.
// No tree is empty.
#pragma once

#include "bindings.h"

namespace kernels {

template <class Tree>
class KeyedTrees {
   public:
    static Tree& of(nb::handle tree) { return *nb::inst_ptr<Tree>(tree); }
    static nb::object make() { return nb::cast(new Tree(), nb::rv_policy::take_ownership); }

    PyObject* find(nb::handle key) const {
        PyObject* tree = PyDict_GetItemWithError(trees_.ptr(), key.ptr());
        if (!tree && PyErr_Occurred()) throw nb::python_error();
        return tree;
    }
    // A new tree; one without rows is not kept.
    void put(nb::handle key, const nb::object& tree) {
        if (of(tree).size()) trees_[key] = tree;
    }
    // A tree has lost rows: without any it goes, and its visits still count.
    void tidy(nb::handle key, nb::handle tree) {
        if (of(tree).size()) return;
        gone_visits_ += of(tree).visits;
        nb::del(trees_[key]);
    }
    // From {key: entries}, each key for the first time.
    template <class Build>
    void build(nb::handle entries, Build&& build) {
        for (nb::handle key : nb::iter(entries)) {
            nb::object tree = make();
            build(of(tree), nb::steal(PyObject_GetItem(entries.ptr(), key.ptr())));
            put(key, tree);
        }
    }
    int64_t visits() const {
        int64_t sum = gone_visits_;
        for (auto [key, tree] : trees_) sum += of(tree).visits;
        return sum;
    }
    void check() const {
        for (auto [key, tree] : trees_) {
            require(of(tree).size() > 0, "a key is known while it has rows");
            of(tree).check();
        }
    }

   private:
    nb::dict trees_;
    int64_t gone_visits_ = 0;
};

}  // namespace kernels
