// Rows by join key as Python has them: prosem/index/joins/join_keys.py.
#include "join_keys.h"

#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "range_objects.h"

namespace kernels {

namespace {
using Maybe = std::optional<int64_t>;

std::pair<size_t, size_t> span_of(const EntryList* list, Maybe low, Maybe high) {
    if (!list) return {0, 0};
    return {low ? list->rank({*low}) : 0, high ? list->rank({*high, nullptr, true}) : list->size()};
}

nb::list listed(const EntryList* list, size_t first, size_t end) {
    nb::list found;
    if (list) list->each(first, end, [&](const EntryList::Held& held) { found.append(nb::handle(held.entry)); });
    return found;
}
}  // namespace

void bind_join_keys(nb::module_& module) {
    nb::class_<EntryView>(module, "JoinEntries")
        .def("__len__", [](const EntryView& view) { return view.entries().size(); })
        .def("__getitem__",
             [](const EntryView& view, Py_ssize_t at) {
                 auto size = static_cast<Py_ssize_t>(view.entries().size());
                 if (at < 0) at += size;
                 if (at < 0 || at >= size) throw nb::index_error("a key has fewer entries");
                 return nb::borrow(view.entries().at(static_cast<size_t>(at)).entry);
             })
        .def("__iter__", [](const EntryView& view) {
            return nb::iter(listed(&view.entries(), 0, view.entries().size()));
        });
    nb::class_<JoinKeys>(module, "JoinKeys")
        .def("__init__",
             [](JoinKeys* self, nb::handle entries) {
                 new (self) JoinKeys();
                 self->build(entries);
             },
             nb::arg("entries") = nb::make_tuple())
        .def("__len__", &JoinKeys::size)
        .def("__contains__", [](const JoinKeys& self, nb::handle key) { return self.find(key) != nullptr; })
        .def("__iter__",
             [](const JoinKeys& self) {
                 nb::list all;
                 self.each_key([&](nb::handle key) { all.append(key); });
                 return nb::iter(all);
             })
        .def_prop_ro("keys", &JoinKeys::keys)
        .def("holds", &JoinKeys::holds)
        .def("add", &JoinKeys::add)
        .def("remove",
             [](JoinKeys& self, nb::handle key, nb::handle entry) {
                 if (!self.remove(key, entry)) raise_key_error(nb::make_tuple(key, entry[0], entry[1]));
             })
        .def("at",
             [](nb::handle_t<JoinKeys> self, nb::handle key) -> nb::object {
                 const JoinKeys& keys = *nb::inst_ptr<JoinKeys>(self);
                 const EntryList* list = keys.find(key);
                 if (!list) return nb::make_tuple();
                 return nb::cast(EntryView{nb::borrow(self), &keys, list, keys.version()});
             })
        .def("neighbours",
             [](const JoinKeys& self, nb::handle key, int64_t code) -> nb::object {
                 const EntryList* list = self.find(key);
                 EntryList::Around near{};
                 if (list) near = list->around(code);
                 if (near.has_above && near.above == code) return nb::none();
                 return nb::make_tuple(near.has_below ? as_code(near.below) : nb::none(),
                                       near.has_above ? as_code(near.above) : nb::none());
             })
        .def("span",
             [](const JoinKeys& self, nb::handle key, Maybe low, Maybe high) {
                 auto [start, stop] = span_of(self.find(key), low, high);
                 return nb::make_tuple(start, stop);
             },
             nb::arg("key"), nb::arg("low").none(), nb::arg("high").none())
        .def("within",
             [](const JoinKeys& self, nb::handle key, Maybe low, Maybe high) {
                 const EntryList* list = self.find(key);
                 auto [start, stop] = span_of(list, low, high);
                 return nb::iter(listed(list, start, stop));
             },
             nb::arg("key"), nb::arg("low").none(), nb::arg("high").none())
        .def("any_within",
             [](const JoinKeys& self, nb::handle key, Maybe low, Maybe high) {
                 const EntryList* list = self.find(key);
                 if (!list) return false;
                 EntryList::Around near = list->around(low.value_or(LOWEST));
                 return near.has_above && near.above <= high.value_or(HIGHEST);
             },
             nb::arg("key"), nb::arg("low").none(), nb::arg("high").none())
        .def_prop_ro("nbytes", &JoinKeys::nbytes)
        .def("check", &JoinKeys::check);
}

}  // namespace kernels
