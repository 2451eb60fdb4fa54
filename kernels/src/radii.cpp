// The notified values of radii, as the protocol `Radii` of prosem/index/radii/ba_tree_radii.py has them.
#include "bindings.h"
#include "radius_cells.h"
#include "radius_reading.h"

namespace kernels {

namespace {
template <class T>
class BoundCells {
   public:
    // `form` is change, percent or factor. `held` has the classes of each radius with several centres; `run`, `several` and
    // `unfit` are what Python calls a run, several centres, and a number beyond 64 bits.
    BoundCells(const std::string& form, int64_t scale, nb::handle radii, nb::dict held, nb::handle runs, nb::object run,
               nb::object several, nb::object unfit, size_t block)
        : cells_(RadiusEnds<T>{form_of(form), scale}, block), held_(held), run_(run), several_(several), unfit_(unfit) {
        std::vector<T> order;
        for (nb::handle radius : nb::iter(radii)) order.push_back(read(radius));
        std::vector<RadiusRun<T>> all;
        for (nb::handle one : nb::iter(runs)) {
            Items items{one};
            bool is_several = items.items[2] == several_.ptr();
            T centre = is_several ? T{} : read(items.items[2]);
            all.push_back({read(items.items[0]), read(items.items[1]), centre, is_several});
            if (!is_several && !cells_.ends().fits(centre, order.back())) raise_unfit();
        }
        Asked asked{*this, nullptr};
        cells_.build(order, all, asked);
    }
    BoundCells(const BoundCells& other, nb::dict held)
        : cells_(other.cells_), held_(held), run_(other.run_), several_(other.several_), unfit_(other.unfit_) {}

    nb::object fire(nb::handle d, bool rising, RadiusJournal<T>* journal) {
        T value = read(d);
        if (!cells_.fits(value)) raise_unfit();
        nb::list parts;
        Asked asked{*this, &parts};
        FiredRanges<T> fired;
        cells_.fire(value, rising, asked, fired, journal);
        return nb::make_tuple(as_ranges(fired), parts);
    }
    void rewind(const RadiusJournal<T>& journal) {
        Asked asked{*this, nullptr};
        cells_.rewind(journal, asked);
    }
    nb::object root() const {
        if (!cells_.size()) {
            nb::object beyond = nb::steal(PyFloat_FromDouble(HUGE_VAL));
            return nb::make_tuple(beyond, beyond);
        }
        return nb::make_tuple(as_number(cells_.root(0)), as_number(cells_.root(1)));
    }
    nb::object iterate() const {
        nb::list all;
        for (const auto& run : cells_.runs())
            all.append(run_(as_number(run.low), as_number(run.high), run.is_several ? several_ : as_number(run.centre)));
        return nb::iter(all);
    }
    nb::object centre(nb::handle radius) const {
        T centre;
        return cells_.centre(read(radius), centre) ? as_number(centre) : several_;
    }
    void insert(nb::handle radius, nb::handle centre) {
        T where = read(radius), value = read(centre);
        if (!cells_.ends().fits(value, where) || !cells_.fits(value)) raise_unfit();
        cells_.insert(where, value);
    }
    void erase(nb::handle radius) { cells_.erase(read(radius)); }
    void set_centre(nb::handle radius, nb::handle centre) {
        T value = read(centre);
        if (!cells_.fits(value)) raise_unfit();
        cells_.set_centre(read(radius), value);
    }
    void set_several(nb::handle radius) {
        T right, left, where = read(radius);
        Asked{*this, nullptr}.near(where, right, left);
        cells_.set_several(where, right, left);
    }
    void recentre(nb::handle d, RadiusJournal<T>* journal) {
        T value = read(d);
        if (!cells_.fits(value)) raise_unfit();
        cells_.recentre(value, journal);
    }
    int64_t visits() const { return cells_.visits; }
    nb::object held() const { return held_; }
    void check() {
        Asked asked{*this, nullptr};
        cells_.check(asked);
    }

   private:
    RadiusCells<T> cells_;
    nb::dict held_;
    nb::object run_, several_, unfit_;

    // The classes of radii with several centres.
    struct Asked {
        const BoundCells& owner;
        nb::list* parts;

        nb::object classes(T radius) const { return nb::object(owner.held_[as_number(radius)]); }
        bool event(T radius, T d, bool& is_single) {
            nb::object held = classes(radius), arcs = held.attr("event")(as_number(d));
            is_single = nb::len(held) == 1;
            if (arcs.is_none()) return true;
            parts->append(nb::make_tuple(as_number(radius), arcs));
            return false;
        }
        void near(T radius, T& right, T& left) const {
            nb::object both = classes(radius).attr("near")();
            right = owner.read(both[0]);
            left = owner.read(both[1]);
        }
    };

    [[noreturn]] void raise_unfit() const { kernels::raise_unfit(unfit_); }
    T read(nb::handle object) const { return read_number<T>(object, unfit_); }
    // (first radius, last radius, None) for each. Tuples of numbers cannot be in a cycle: the collector need not see them.
    static nb::object as_ranges(const FiredRanges<T>& fired) {
        nb::object all = nb::steal(PyList_New(static_cast<Py_ssize_t>(fired.lows.size())));
        if (!all.is_valid()) throw nb::python_error();
        for (size_t at = 0; at < fired.lows.size(); ++at) {
            nb::object range = nb::make_tuple(as_number(fired.lows[at]), as_number(fired.highs[at]), nb::none());
            PyObject_GC_UnTrack(range.ptr());
            PyList_SET_ITEM(all.ptr(), static_cast<Py_ssize_t>(at), range.release().ptr());
        }
        return all;
    }
};

template <class T>
void bind(nb::module_& module, const char* name, const char* journal) {
    using Cells = BoundCells<T>;
    using Journal = RadiusJournal<T>;
    nb::class_<Journal>(module, journal)
        .def("__len__", [](const Journal& self) { return self.runs.size(); })
        .def("__deepcopy__", [](const Journal& self, nb::handle) { return new Journal(self); },
             nb::rv_policy::take_ownership);
    nb::class_<Cells>(module, name)
        .def("__init__",
             [](Cells* self, nb::str form, int64_t scale, nb::handle radii, nb::dict held, nb::handle runs,
                nb::object run, nb::object several, nb::object unfit, size_t block) {
                 new (self) Cells(form.c_str(), scale, radii, held, runs, run, several, unfit, block);
             })
        .def("__deepcopy__",
             [](const Cells& self, nb::dict memo) {
                 nb::object copied = nb::module_::import_("copy").attr("deepcopy")(self.held(), memo);
                 return new Cells(self, nb::cast<nb::dict>(copied));
             },
             nb::rv_policy::take_ownership)
        .def("fire", &Cells::fire, nb::arg("d"), nb::arg("rising"), nb::arg("journal").none() = nb::none())
        .def("journal",
             [](const Cells&) {
                 Journal* made = new Journal;
                 made->runs.reserve(8);  // an event overwrites a few runs
                 return made;
             },
             nb::rv_policy::take_ownership)
        .def("rewind", &Cells::rewind)
        .def_prop_ro("root", &Cells::root)
        .def_prop_ro("visits", &Cells::visits)
        .def("__iter__", &Cells::iterate)
        .def("centre", &Cells::centre)
        .def("insert", &Cells::insert)
        .def("delete", &Cells::erase)
        .def("set_centre", &Cells::set_centre)
        .def("set_several", &Cells::set_several)
        .def("recentre", &Cells::recentre, nb::arg("d"), nb::arg("journal").none() = nb::none())
        .def("check", &Cells::check);
}
}  // namespace

void bind_radii(nb::module_& module) {
    bind<int64_t>(module, "IntegerRadii", "IntegerJournal");
    bind<double>(module, "DoubleRadii", "DoubleJournal");
}

}  // namespace kernels
