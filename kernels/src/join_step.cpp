// An event on a table of a select-join by semijoins, in one call: prosem/types/join/stepping.py.
//
// The row before the event is taken out of the orders of its table, the affected subscriptions are described by the table
// without it, and the row after the event is put in. Orders are compiled join keys, which Python reads too.
#include <optional>

#include "bindings.h"
#include "coded_column.h"
#include "deltas.h"
#include "join_regions.h"

namespace kernels {

namespace {
// Values of a row as a tuple, in an order.
class Positions {
   public:
    explicit Positions(nb::handle numbers) {
        Items items{numbers};
        for (Py_ssize_t at = 0; at < items.count; ++at) all_.push_back(static_cast<Py_ssize_t>(code_of(items.items[at])));
    }
    nb::object of(nb::handle row) const {
        nb::object values = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(all_.size())));
        if (!values.is_valid()) throw nb::python_error();
        for (size_t at = 0; at < all_.size(); ++at) {
            PyObject* value = value_at(row, all_[at]);
            Py_INCREF(value);
            PyTuple_SET_ITEM(values.ptr(), static_cast<Py_ssize_t>(at), value);
        }
        return values;
    }
    bool has_null(nb::handle row) const {
        return std::any_of(all_.begin(), all_.end(), [&](Py_ssize_t at) { return value_at(row, at) == Py_None; });
    }
    bool are_equal(nb::handle one, nb::handle other) const {
        return std::all_of(all_.begin(), all_.end(),
                           [&](Py_ssize_t at) { return ObjectRef::equal(value_at(one, at), value_at(other, at)); });
    }

   private:
    std::vector<Py_ssize_t> all_;

    static PyObject* value_at(nb::handle row, Py_ssize_t at) {
        if (!PyTuple_Check(row.ptr())) throw nb::type_error("a row is a tuple");
        if (at < 0 || at >= PyTuple_GET_SIZE(row.ptr())) throw nb::index_error("a row has too few columns");
        return PyTuple_GET_ITEM(row.ptr(), at);
    }
};

// Rows by a join key, shared with Python.
struct Order {
    Positions key;
    nb::object owner;
    JoinKeys* rows;

    Order(nb::handle key, nb::object rows) : key(key), owner(rows), rows(nb::cast<JoinKeys*>(rows)) {}
};

// From a table to a neighbour: the key that they share, and the rows of both by it.
struct Link {
    Positions key;
    nb::object owner, other_owner;
    JoinKeys *own, *others;
    Routing other_routing;
    size_t other;  // the number of the neighbour

    Link(nb::handle key, nb::object own, nb::object others, Routing routing, size_t other)
        : key(key), owner(own), other_owner(others), own(nb::cast<JoinKeys*>(own)), others(nb::cast<JoinKeys*>(others)),
          other_routing(routing), other(other) {}
};

struct Condition {
    CodedColumn column;
    size_t low, high;
};

struct JoinedTable {
    Positions joined, primary_key;
    std::vector<Condition> conditions;
    std::optional<size_t> routed;  // the condition on its routing column
    std::vector<Order> orders;
    std::optional<Link> partner;
    std::vector<Link> followers;
    bool is_unused = false;  // no subscription holds its semijoin

    Routing routing() const {
        if (!routed) return {};
        return {true, conditions[*routed].low, conditions[*routed].high};
    }
};

// A row as orders hold it: its entry, and the codes of its columns with a condition; none if a NULL keeps it out of every
// answer.
struct Placed {
    nb::object entry;
    nb::handle row;
    std::vector<int64_t> codes;
    int64_t code = 0;  // of its routing column
    bool takes_part = true;

    explicit operator bool() const { return entry.is_valid(); }
};

class JoinStep {
   public:
    // `regions`: those of the same space; `interval` and `placed` are the classes to answer in.
    JoinStep(nb::object regions, nb::object points, int dimensions, nb::object interval, nb::object placed)
        : owner_(regions), regions_(nb::cast<JoinRegions&>(regions)), boxes_(points, dimensions, interval), placed_(placed) {
        if (&regions_.boxes().points() != &boxes_.points()) throw nb::value_error("regions of other points");
    }

    // A table: its id, the columns of its join keys, of its primary key, (column, encoder, dimensions) of each condition, which of them
    // is the routing one (-1: none), and its orders with their keys. Tables have numbers in the order in which they are added.
    void add_table(nb::object id, nb::handle joined, nb::handle primary_key, nb::handle conditions, Py_ssize_t routed,
                   nb::handle orders) {
        JoinedTable table{Positions(joined), Positions(primary_key), {}, {}, {}, {}, {}, false};
        for (nb::handle one : nb::iter(conditions)) {
            Items items{one};
            if (items.count != 3) throw nb::value_error("a condition is (column, encoder, dimensions)");
            Routing sides = boxes_.routing(items.items[2]);
            CodedColumn column(static_cast<Py_ssize_t>(code_of(items.items[0])), nb::borrow(items.items[1]));
            table.conditions.push_back({column, sides.low, sides.high});
        }
        if (routed >= static_cast<Py_ssize_t>(table.conditions.size())) throw nb::value_error("there is no such condition");
        if (routed >= 0) table.routed = static_cast<size_t>(routed);
        for (nb::handle one : nb::iter(orders)) {
            Items items{one};
            if (items.count != 2) throw nb::value_error("an order is (columns, rows)");
            table.orders.emplace_back(nb::handle(items.items[0]), nb::borrow(items.items[1]));
        }
        numbers_[id] = tables_.size();
        tables_.push_back(std::move(table));
    }
    // From table number `number` to its partner, number `other`: the columns of their key in rows of the table, the rows of
    // both by it, and the dimensions of the partner's routing column (None: it has none).
    void set_partner(size_t number, size_t other, nb::handle key, nb::object own, nb::object others, nb::handle routing) {
        tables_.at(number).partner.emplace(key, own, others, boxes_.routing(routing), existing(other));
    }
    // The same to a table whose partner it is.
    void add_follower(size_t number, size_t other, nb::handle key, nb::object own, nb::object others, nb::handle routing) {
        tables_.at(number).followers.emplace_back(key, own, others, boxes_.routing(routing), existing(other));
    }
    // The tables whose semijoins no subscription holds: nothing is said of their rows.
    void set_unused(nb::handle numbers) {
        for (JoinedTable& table : tables_) table.is_unused = false;
        for (nb::handle number : nb::iter(numbers)) tables_.at(nb::cast<size_t>(number)).is_unused = true;
    }

    // A row of a table goes from `old_row` to `new_row`. Gives None if that affects no subscription; else the row before and
    // after as far as subscriptions may see it, and for each follower that loses or gains rows its number among them, the
    // row that has the key, the region, and whether they are gained.
    nb::object step(size_t number, nb::handle old_row, nb::handle new_row) {
        JoinedTable& table = tables_.at(number);
        if (!table.partner) throw nb::value_error("a table has a partner");
        Placed old = place(table, old_row), now = place(table, new_row);
        if (!old && !now) return nb::none();
        if (old)
            for (Order& order : table.orders)
                if (!order.key.has_null(old_row) && !order.rows->remove(order.key.of(old_row), old.entry))
                    raise_key_error(old.entry);
        nb::object description = nb::none();
        if (boxes_.points().size()) description = describe(table, old, now);
        if (now)
            for (Order& order : table.orders)
                if (!order.key.has_null(new_row)) order.rows->add(order.key.of(new_row), now.entry);
        return description;
    }
    // Has the rows in the orders that are shared, by table and order, as before these deltas: see `JoinTable.rewind`.
    void rewind(nb::handle deltas, nb::handle shared) {
        struct Ends {
            size_t number;
            nb::handle before, after;
        };
        Items all{deltas}, flags{shared};
        if (static_cast<size_t>(flags.count) != tables_.size()) throw nb::value_error("every table has orders");
        std::vector<Ends> ends;
        nb::dict known;  // the row of a table, by its key → where it is among them
        for (Py_ssize_t at = 0; at < all.count; ++at) {
            ReadDelta delta(all.items[at]);
            nb::object number = numbers_[nb::handle(PyTuple_GET_ITEM(all.items[at], 1)).attr("id")];
            nb::object row = nb::make_tuple(number, delta.key);
            if (known.contains(row)) {
                ends[nb::cast<size_t>(known[row])].after = delta.new_row;
            } else {
                known[row] = ends.size();
                ends.push_back({nb::cast<size_t>(number), delta.old_row, delta.new_row});
            }
        }
        for (const Ends& one : ends) {
            JoinedTable& table = tables_.at(one.number);
            Items is_shared{nb::handle(flags.items[one.number])};
            if (static_cast<size_t>(is_shared.count) != table.orders.size()) throw nb::value_error("every order is named");
            Placed was = place(table, one.before), now = place(table, one.after);
            for (size_t at = 0; at < table.orders.size(); ++at) {
                if (is_shared.items[at] != Py_True) continue;
                Order& order = table.orders[at];
                if (now && !order.key.has_null(now.row)) order.rows->remove(order.key.of(now.row), now.entry);
                if (!was || order.key.has_null(was.row)) continue;
                nb::object key = order.key.of(was.row);
                if (!order.rows->holds(key, was.entry)) order.rows->add(key, was.entry);
            }
        }
    }
    // Where subscriptions select a row of a table, (entry, codes), and have a range with the code of a joining row of its
    // partner, which has a routing column: under the skyline -Clu, or -Clu+ if it is merged.
    nb::object visible(size_t number, nb::handle placed, nb::handle clusters, bool is_merged) {
        const JoinedTable& table = tables_.at(number);
        if (!table.partner || !table.partner->other_routing.is_there) throw nb::value_error("a partner is routed");
        Items parts{placed}, entry{nb::handle(parts.items[0])}, codes{nb::handle(parts.items[1])};
        if (entry.count != 3 || static_cast<size_t>(codes.count) != table.conditions.size())
            throw nb::value_error("a row is placed by (entry, codes)");
        const EntryList* rows = table.partner->others->find(table.partner->key.of(entry.items[2]));
        if (!rows) return nb::make_tuple();
        Sides around(boxes_.dimensions());
        Span spans[MAX_DIMENSIONS];
        for (size_t at = 0; at < table.conditions.size(); ++at) {
            int64_t code = code_of(codes.items[at]);
            around[table.conditions[at].low] = Side::up_to(code);
            around[table.conditions[at].high] = Side::from(code);
        }
        for (size_t at = 0; at < around.size(); ++at) around[at].span(spans[at]);
        nb::object own = boxes_.as_box(around);
        return regions_.visible(own, spans, Entries(*rows), table.partner->other_routing, clusters, is_merged);
    }

   private:
    nb::object owner_;
    JoinRegions& regions_;
    JoinBoxes boxes_;
    nb::object placed_;
    std::vector<JoinedTable> tables_;
    nb::dict numbers_;  // of tables, by id

    size_t existing(size_t number) const {
        if (number >= tables_.size()) throw nb::index_error("there is no such table");
        return number;
    }
    static Placed place(const JoinedTable& table, nb::handle row) {
        Placed found;
        if (row.is_none()) return found;
        found.takes_part = !table.joined.has_null(row);
        for (size_t at = 0; at < table.conditions.size(); ++at) {
            int64_t code;
            bool is_there = table.conditions[at].column.read(row, code), is_routing = table.routed && *table.routed == at;
            if (is_routing && !is_there) return found;
            if (is_routing) found.code = code;
            if (is_there) found.codes.push_back(code);
            found.takes_part = found.takes_part && is_there;
        }
        if (!found.takes_part) found.codes.clear();
        found.row = row;
        found.entry = nb::make_tuple(as_code(found.code), table.primary_key.of(row), row);
        return found;
    }
    nb::object describe(JoinedTable& table, const Placed& old, const Placed& now) {
        bool stays = old && now && old.codes == now.codes && old.takes_part == now.takes_part && old.code == now.code &&
                     table.joined.are_equal(old.row, now.row);
        nb::list shifts;
        if (!stays)
            for (size_t at = 0; at < table.followers.size(); ++at)
                if (!tables_[table.followers[at].other].is_unused) shift(table, at, old, now, shifts);
        bool is_old_seen = !stays && is_seen(table, old), is_new_seen = is_seen(table, now);
        if (!is_old_seen && !is_new_seen && !shifts.size()) return nb::none();
        return nb::make_tuple(is_old_seen ? as_placed(old) : nb::none(), is_new_seen ? as_placed(now) : nb::none(), shifts);
    }
    void shift(const JoinedTable& table, size_t at, const Placed& old, const Placed& now, nb::list& shifts) {
        const Link& link = table.followers[at];
        nb::object keys[2];
        JoinBoxes::Alone alone[2];
        const Placed* rows[2] = {&old, &now};
        for (int one = 0; one < 2; ++one) {
            if (!*rows[one]) continue;
            keys[one] = link.key.of(rows[one]->row);
            const EntryList *others = link.others->find(keys[one]), *own = link.own->find(keys[one]);
            if (!others) continue;
            EntryList::Around near{};
            if (own) near = own->around(rows[one]->code);
            alone[one] = boxes_.alone(table.routing(), link.other_routing, rows[one]->code, near, others->first().code,
                                      others->last().code);
        }
        if (!alone[0].is_there && !alone[1].is_there) return;
        bool is_one_key = old && now && ObjectRef::equal(keys[0].ptr(), keys[1].ptr());
        auto [losing, gaining] = boxes_.shifted(alone[0], alone[1], is_one_key);
        if (nb::len(losing)) shifts.append(nb::make_tuple(at, old.row, losing, false));
        if (nb::len(gaining)) shifts.append(nb::make_tuple(at, now.row, gaining, true));
    }
    // Whether a row joins with one of the partner, and a subscription selects it.
    bool is_seen(const JoinedTable& table, const Placed& placed) {
        if (!placed || !placed.takes_part || table.is_unused || !table.partner->others->find(table.partner->key.of(placed.row))) return false;
        Sides around(boxes_.dimensions());
        for (size_t at = 0; at < placed.codes.size(); ++at) {
            around[table.conditions[at].low] = Side::up_to(placed.codes[at]);
            around[table.conditions[at].high] = Side::from(placed.codes[at]);
        }
        return boxes_.any(around);
    }
    nb::object as_placed(const Placed& placed) const {
        nb::object codes = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(placed.codes.size())));
        if (!codes.is_valid()) throw nb::python_error();
        for (size_t at = 0; at < placed.codes.size(); ++at)
            PyTuple_SET_ITEM(codes.ptr(), static_cast<Py_ssize_t>(at), as_code(placed.codes[at]).release().ptr());
        return named(placed_, placed.entry, codes, placed.takes_part);
    }
};
}  // namespace

void bind_join_step(nb::module_& module) {
    nb::class_<JoinStep>(module, "JoinStep")
        .def(nb::init<nb::object, nb::object, int, nb::object, nb::object>(), nb::arg("regions"), nb::arg("points"),
             nb::arg("dimensions"), nb::arg("interval"), nb::arg("placed"))
        .def("add_table", &JoinStep::add_table)
        .def("set_partner", &JoinStep::set_partner, nb::arg("number"), nb::arg("other"), nb::arg("key"), nb::arg("own"),
             nb::arg("others"), nb::arg("routing").none())
        .def("add_follower", &JoinStep::add_follower, nb::arg("number"), nb::arg("other"), nb::arg("key"), nb::arg("own"),
             nb::arg("others"), nb::arg("routing").none())
        .def("set_unused", &JoinStep::set_unused)
        .def("step", &JoinStep::step, nb::arg("number"), nb::arg("old_row").none(), nb::arg("new_row").none())
        .def("rewind", &JoinStep::rewind)
        .def("visible", &JoinStep::visible);
}

}  // namespace kernels
