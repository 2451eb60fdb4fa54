// What subscriptions to many items were notified of one of them, as prosem/index/radii/epochs.py has it.
#include "bindings.h"
#include "radius_epochs.h"
#include "radius_reading.h"

namespace kernels {

namespace {
// The radii of an epoch: the lists of a `RadiusBlocks` that does not change any more.
template <class T>
class BlockOrder {
   public:
    BlockOrder(nb::handle radii, nb::handle unfit)
        : blocks_(radii.attr("_blocks")), firsts_(radii.attr("_firsts")), unfit_(unfit) {
        if (!size(firsts_)) throw nb::value_error("an epoch has radii");
        nb::handle block = item(blocks_, size(blocks_) - 1);
        first_ = read(item(firsts_, 0));
        last_ = read(item(block, size(block) - 1));
    }
    T first() const { return first_; }
    T last() const { return last_; }

    // Some radius is past the point, and some is not.
    template <class Past>
    void cut(Past past, T& last, T& first) const {
        Py_ssize_t at = begin_of(firsts_, past) - 1;
        nb::handle block = item(blocks_, at);
        Py_ssize_t place = begin_of(block, past);
        last = read(item(block, place - 1));
        first = read(place < size(block) ? item(block, place) : item(firsts_, at + 1));
    }

   private:
    nb::object blocks_, firsts_;
    nb::handle unfit_;
    T first_, last_;

    static Py_ssize_t size(nb::handle list) { return PyList_GET_SIZE(list.ptr()); }
    static nb::handle item(nb::handle list, Py_ssize_t at) { return PyList_GET_ITEM(list.ptr(), at); }
    T read(nb::handle object) const { return read_number<T>(object, unfit_); }
    // The first place of a list that is past the point; its length if none is.
    template <class Past>
    Py_ssize_t begin_of(nb::handle list, Past past) const {
        Py_ssize_t low = 0, high = size(list);
        while (low < high) {
            Py_ssize_t middle = (low + high) / 2;
            if (past(read(item(list, middle))))
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }
};

template <class T>
class BoundEpochs {
   public:
    using Epochs = RadiusEpochs<T, BlockOrder<T>>;

    // `form` is change, percent or factor; `run`, `interval` and `unfit` are what Python calls a run, an interval, and a
    // number beyond 64 bits.
    BoundEpochs(const std::string& form, int64_t scale, nb::handle value, nb::object run, nb::object interval,
                nb::object unfit)
        : unfit_(unfit), run_(run), interval_(interval), epochs_(RadiusEnds<T>{form_of(form), scale}, read_number<T>(value, unfit)) {}

    nb::object event(nb::handle value, int64_t birth, nb::handle radii) {
        T d = read(value);
        if (!epochs_.fits(d)) raise_unfit(unfit_);
        if (birth > epochs_.stop() && nb::len(radii)) {
            BlockOrder<T> order{radii, unfit_};
            if (!epochs_.ends().fits(d, order.last())) raise_unfit(unfit_);
            put(birth, order, {{order.first(), order.last(), epochs_.value, {}}});
        }
        typename Epochs::Pieces pieces;
        epochs_.event(d, pieces);
        return regions(pieces);
    }
    void begin(int64_t birth, nb::handle radii, nb::handle runs) {
        std::vector<typename Epochs::Run> all;
        for (nb::handle one : nb::iter(runs)) {
            Items items{one};
            all.push_back({read(items.items[0]), read(items.items[1]), read(items.items[2]), {}});
        }
        put(birth, BlockOrder<T>{radii, unfit_}, std::move(all));
    }
    nb::object value() const { return as_number(epochs_.value); }
    // The radius of one that came after all epochs may be of any size.
    nb::object told(nb::handle radius, int64_t birth) const {
        return birth > epochs_.stop() ? value() : as_number(epochs_.told(read(radius), birth));
    }
    nb::object all_regions() const {
        typename Epochs::Pieces pieces;
        epochs_.all(pieces);
        return regions(pieces);
    }
    bool is_plain() const { return epochs_.is_plain(); }
    int64_t visits() const { return epochs_.visits; }
    int64_t stop() const { return epochs_.stop(); }
    nb::list stops() const {
        nb::list found;
        for (const auto& epoch : epochs_.epochs()) found.append(epoch->stop);
        return found;
    }
    nb::list state() const {
        nb::list found;
        for (const auto& epoch : epochs_.epochs()) {
            nb::list runs;
            for (const auto& run : epoch->runs)
                runs.append(run_(as_number(run.low), as_number(run.high), as_number(run.centre)));
            found.append(nb::make_tuple(epoch->stop, runs));
        }
        return found;
    }
    void check() const { epochs_.check(); }

   private:
    nb::object unfit_, run_, interval_;
    Epochs epochs_;

    T read(nb::handle object) const { return read_number<T>(object, unfit_); }
    void put(int64_t birth, BlockOrder<T> order, std::vector<typename Epochs::Run> runs) {
        for (const auto& run : runs)
            if (!epochs_.ends().fits(run.centre, order.last())) raise_unfit(unfit_);
        if (runs.empty()) throw nb::value_error("an epoch has runs");
        epochs_.begin({birth, std::move(order), std::move(runs), {}});
    }
    // A named tuple (low, high, False, False), made without calling its class.
    nb::object interval(nb::object low, nb::object high) const {
        auto* type = reinterpret_cast<PyTypeObject*>(interval_.ptr());
        PyObject* made = type->tp_alloc(type, 4);
        if (!made) throw nb::python_error();
        PyTuple_SET_ITEM(made, 0, low.release().ptr());
        PyTuple_SET_ITEM(made, 1, high.release().ptr());
        PyTuple_SET_ITEM(made, 2, nb::bool_(false).release().ptr());
        PyTuple_SET_ITEM(made, 3, nb::bool_(false).release().ptr());
        return nb::steal(made);
    }
    // [(notified before, ((radii, births), ...)), ...]
    nb::object regions(const typename Epochs::Pieces& pieces) const {
        nb::list groups;
        for (const auto& [before, boxes] : as_boxes(pieces)) {
            nb::object region = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(boxes.size())));
            if (!region.is_valid()) throw nb::python_error();
            for (size_t at = 0; at < boxes.size(); ++at) {
                const auto& box = boxes[at];
                nb::object sides = nb::make_tuple(interval(as_number(box.low), as_number(box.high)),
                                                  interval(as_number(box.first), as_number(box.last)));
                PyTuple_SET_ITEM(region.ptr(), static_cast<Py_ssize_t>(at), sides.release().ptr());
            }
            groups.append(nb::make_tuple(as_number(before), region));
        }
        return groups;
    }
};

template <class T>
void bind(nb::module_& module, const char* name) {
    using Epochs = BoundEpochs<T>;
    nb::class_<Epochs>(module, name)
        .def("__init__",
             [](Epochs* self, nb::str form, int64_t scale, nb::handle value, nb::object run, nb::object interval,
                nb::object unfit) { new (self) Epochs(form.c_str(), scale, value, run, interval, unfit);
             })
        .def("copy", [](const Epochs& self) { return new Epochs(self); }, nb::rv_policy::take_ownership)
        .def("__deepcopy__", [](const Epochs& self, nb::handle) { return new Epochs(self); },
             nb::rv_policy::take_ownership)
        .def("event", &Epochs::event)
        .def("begin", &Epochs::begin)
        .def("told", &Epochs::told)
        .def("all_regions", &Epochs::all_regions)
        .def("state", &Epochs::state)
        .def_prop_ro("value", &Epochs::value)
        .def_prop_ro("stop", &Epochs::stop)
        .def_prop_ro("stops", &Epochs::stops)
        .def_prop_ro("visits", &Epochs::visits)
        .def_prop_ro("is_plain", &Epochs::is_plain)
        .def("check", &Epochs::check);
}
}  // namespace

void bind_epochs(nb::module_& module) {
    bind<int64_t>(module, "IntegerEpochs");
    bind<double>(module, "DoubleEpochs");
}

}  // namespace kernels
