// What subscriptions to many items were notified of one of them, as prosem/index/radii/epochs.py has it.
#include "bindings.h"
#include "notified.h"
#include "radius_epochs.h"
#include "radius_reading.h"

namespace kernels {

namespace {
// The radii of an epoch: the blocks of a `RadiusBlocks` that does not change any more, or of a `PackedRadii`.
template <class T>
class BlockOrder {
   public:
    BlockOrder(nb::handle radii, nb::handle unfit)
        : blocks_(radii.attr("_blocks")), firsts_(radii.attr("_firsts")), unfit_(unfit) {
        if (!size(firsts_)) throw nb::value_error("an epoch has radii");
        if (nb::hasattr(radii, "_packed")) packed_ = radii.attr("_packed");
        nb::handle block = item(blocks_, size(blocks_) - 1);
        first_ = read(item(firsts_, 0));
        last_ = read(item(block, size(block) - 1));
    }
    T first() const { return first_; }
    T last() const { return last_; }

    // Some radius is past the point, and some is not.
    template <class Past>
    void cut(Past past, T& last, T& first) const {
        auto packed_at = [&](Py_ssize_t at) -> const char* {
            nb::handle packed = packed_.is_valid() ? item(packed_, at) : nb::handle();
            return packed.is_valid() && PyBytes_Check(packed.ptr()) ? PyBytes_AS_STRING(packed.ptr()) : nullptr;
        };
        auto number = [](const char* numbers, Py_ssize_t place) {
            T radius;
            std::memcpy(&radius, numbers + place * static_cast<Py_ssize_t>(sizeof(T)), sizeof(T));
            return radius;
        };
        auto in_firsts = [&](Py_ssize_t at) {
            const char* numbers = packed_at(at);
            return numbers ? number(numbers, 0) : read(item(firsts_, at));
        };
        Py_ssize_t at = begin_of(size(firsts_), in_firsts, past) - 1;
        auto search = [&](Py_ssize_t count, auto&& radius) {
            Py_ssize_t place = begin_of(count, radius, past);
            last = radius(place - 1);
            first = place < count ? radius(place) : in_firsts(at + 1);
        };
        nb::handle block = item(blocks_, at);
        if (const char* numbers = packed_at(at))
            search(size(block), [&](Py_ssize_t place) { return number(numbers, place); });
        else
            search(size(block), [&](Py_ssize_t place) { return read(item(block, place)); });
    }

   private:
    nb::object blocks_, firsts_, packed_;
    nb::handle unfit_;
    T first_, last_;

    static Py_ssize_t size(nb::handle list) { return PyList_GET_SIZE(list.ptr()); }
    static nb::handle item(nb::handle list, Py_ssize_t at) { return PyList_GET_ITEM(list.ptr(), at); }
    T read(nb::handle object) const { return read_number<T>(object, unfit_); }
    // The first of so many radii that is past the point; their number if none is.
    template <class Radius, class Past>
    static Py_ssize_t begin_of(Py_ssize_t count, Radius&& radius, Past past) {
        Py_ssize_t low = 0, high = count;
        while (low < high) {
            Py_ssize_t middle = (low + high) / 2;
            if (past(radius(middle)))
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

    Notified<T> event(nb::handle value, int64_t birth, nb::handle radii) {
        T d = read(value);
        if (!epochs_.fits(d)) raise_unfit(unfit_);
        if (birth > epochs_.stop() && nb::len(radii)) {
            BlockOrder<T> order{radii, unfit_};
            if (!epochs_.ends().fits(d, order.last())) raise_unfit(unfit_);
            put(birth, order, {{order.first(), order.last(), epochs_.value, {}}});
        }
        typename Epochs::Pieces pieces;
        epochs_.event(d, pieces);
        return {std::move(pieces), interval_};
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
    nb::object last_notified(nb::handle radius, int64_t birth) const {
        return birth > epochs_.stop() ? value() : as_number(epochs_.last_notified(read(radius), birth));
    }
    Notified<T> all_regions() const {
        typename Epochs::Pieces pieces;
        epochs_.all(pieces);
        return {std::move(pieces), interval_};
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
        epochs_.begin({birth, std::move(order), std::move(runs)});
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
        .def("last_notified", &Epochs::last_notified)
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
    bind_notified<int64_t>(module, "IntegerNotified");
    bind_notified<double>(module, "DoubleNotified");
    bind<int64_t>(module, "IntegerEpochs");
    bind<double>(module, "DoubleEpochs");
}

}  // namespace kernels
