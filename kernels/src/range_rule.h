// Range MIN: which subscriptions an event affects and their new minimum.
//
// `step` is the rule of prosem/types/extreme/rule.py, `track` that of tracked_rule.py. Regions are the same as those of the
// rules in Python, interval by interval. O((1 + k) log N) for k exposed points; nothing is allocated once the vectors have
// grown.
#pragma once

#include <optional>
#include <vector>

#include "range_tree.h"
#include "sides.h"

namespace kernels {

template <class Ref>
class RangeRule {
   public:
    using Tree = RangeTree<Ref>;
    using Value = typename Ref::Value;
    using End = typename Tree::End;
    using Bound = typename Tree::Bound;

    struct Place {
        int64_t x, y;
    };
    // Subscriptions that get one new minimum: y, attained by `ref` (without `has_y`: no tuple is left).
    struct Piece {
        size_t first_box, boxes;
        bool has_y;
        int64_t y;
        Value ref;
    };

    std::vector<Piece> pieces;
    std::vector<RangeBox> boxes;

    // The pieces of an event by the tree that holds its tuple, and the tuple taken from `old` to `now` in it. False if
    // the tree does not hold it, or holds the new one already; nothing is changed then.
    bool step(Tree& tree, std::optional<Place> old, std::optional<Place> now, Value ref) {
        clear();
        if (!old) {
            if (!now) return true;
            gained(tree, *now, ref);
            return tree.add(now->x, now->y, ref);
        }
        if (now && now->x == old->x) {
            if (now->y == old->y) return true;
            if (!tree.replace_seen(old->x, old->y, ref, now->y, exposure_)) return false;
            if (!exposure_.is_ignorable) exposed(old->x, true, exposure_.peak, exposure_.hull);
            return true;
        }
        if (!tree.remove(old->x, old->y, ref)) return false;
        departed(tree, *old, now, ref);
        if (!now || tree.add(now->x, now->y, ref)) return true;
        tree.add(old->x, old->y, ref);
        return false;
    }

    // The same where edges hold the row of a minimum, so that every range that may hold the row of the event is notified. If
    // `old` and `now` are equal, other columns of the row have changed.
    bool track(Tree& tree, std::optional<Place> old, std::optional<Place> now, Value ref) {
        clear();
        if (old && !tree.remove(old->x, old->y, ref)) return false;
        describe_tracked(tree, old, now, ref);
        if (!now || tree.add(now->x, now->y, ref)) return true;
        if (old) tree.add(old->x, old->y, ref);
        return false;
    }

   private:
    typename Tree::Exposure exposure_;
    typename Tree::Hull gained_;
    std::vector<Piece> some_pieces_;
    std::vector<RangeBox> some_boxes_;

    void clear() {
        pieces.clear();
        boxes.clear();
    }

    static RangeBox box(End outer_left, int64_t inner_left, int64_t inner_right, End outer_right) {
        return {{{outer_left.x, inner_left, outer_left.is_there, true, true, false},
                 {inner_right, outer_right.x, true, outer_right.is_there, false, true}}};
    }

    void add(const RangeBox& region, bool has_y, int64_t y, Value ref) {
        pieces.push_back({boxes.size(), 1, has_y, y, ref});
        boxes.push_back(region);
    }

    void gained(Tree& tree, Place now, Value ref) {
        if (tree.mar(now.x, now.y, gained_))
            add(box(gained_.left_end, now.x, now.x, gained_.right_end), true, now.y, ref);
    }

    // An event that takes the tuple from its x, by the tree without it.
    void departed(Tree& tree, Place old, std::optional<Place> now, Value ref) {
        typename Tree::Point peak{};
        bool has_peak = tree.peak(old.x, peak);
        if (has_peak && peak.y <= old.y) {  // it was the minimum of no range
            if (now) gained(tree, *now, ref);
            return;
        }
        auto& hull = exposure_.hull;
        tree.hull(old.x, has_peak ? Bound{peak.y, false} : Bound{HIGHEST, true}, {old.y, true}, hull);
        exposed(old.x, has_peak, peak, hull);
        if (!now || !tree.mar(now->x, now->y, gained_)) return;
        RangeBox after = box(gained_.left_end, now->x, now->x, gained_.right_end);
        RangeBox before = box(hull.left_end, old.x, old.x, hull.right_end);
        some_pieces_.swap(pieces);
        some_boxes_.swap(boxes);
        clear();
        if (now->y == old.y)  // a minimum that only moves is no change where both points are in the range
            without(after, before, true, now->y, ref);
        else
            add(after, true, now->y, ref);
        for (const Piece& piece : some_pieces_)
            without(some_boxes_[piece.first_box], after, piece.has_y, piece.y, piece.ref);
    }

    // By the tree without the tuple: the ranges with the old point and none strictly below it, and those whose minimum
    // becomes the new one.
    void describe_tracked(Tree& tree, std::optional<Place> old, std::optional<Place> now, Value ref) {
        if (!old) {
            if (now) gained(tree, *now, ref);
            return;
        }
        auto& hull = exposure_.hull;
        typename Tree::Point peak{};
        bool has_peak = tree.peak(old->x, peak);
        bool was_minimum = !has_peak || peak.y >= old->y;
        if (now && now->x == old->x && now->y == old->y) {
            if (!was_minimum) return;
            tree.hull(old->x, {old->y, false}, {old->y, false}, hull);
            add(box(hull.left_end, old->x, old->x, hull.right_end), true, old->y, ref);
            return;
        }
        bool is_gained = now && tree.mar(now->x, now->y, gained_);
        RangeBox after{};
        if (is_gained) {
            after = box(gained_.left_end, now->x, now->x, gained_.right_end);
            add(after, true, now->y, ref);
        }
        if (!was_minimum) return;
        some_pieces_.swap(pieces);
        some_boxes_.swap(boxes);
        clear();
        tree.hull(old->x, has_peak ? Bound{peak.y, false} : Bound{HIGHEST, true}, {old->y, false}, hull);
        exposed(old->x, has_peak, peak, hull);
        if (!is_gained) return;
        some_pieces_.swap(pieces);
        some_boxes_.swap(boxes);
        for (const Piece& piece : some_pieces_)
            without(some_boxes_[piece.first_box], after, piece.has_y, piece.y, piece.ref);
    }

    // A piece less a box.
    void without(const RangeBox& region, const RangeBox& hole, bool has_y, int64_t y, Value ref) {
        size_t first = boxes.size();
        if (apart(region.sides[0], hole.sides[0]) || apart(region.sides[1], hole.sides[1]))
            boxes.push_back(region);
        else
            difference(region, hole, boxes);
        if (boxes.size() > first) pieces.push_back({first, boxes.size() - first, has_y, y, ref});
    }

    // Whether two intervals, each with one open end, have no code in common.
    static bool apart(const Side& side, const Side& other) {
        return (side.has_low && other.has_high && other.high <= side.low) ||
               (side.has_high && other.has_low && side.high <= other.low);
    }

    // The old range parted by the hull: the peak, the left points, the right points; ties go left.
    void exposed(int64_t x, bool has_peak, const typename Tree::Point& peak, const typename Tree::Hull& hull) {
        const auto &left = hull.left, &right = hull.right;
        auto left_x = [&](size_t at) { return at < left.size() ? End{left[at].x, true} : hull.left_end; };
        auto right_x = [&](size_t at) { return at < right.size() ? End{right[at].x, true} : hull.right_end; };
        add(box(left_x(0), x, x, right_x(0)), has_peak, peak.y, peak.ref);
        size_t ahead = 0;
        for (size_t at = 0; at < left.size(); ++at) {
            while (ahead < right.size() && right[ahead].y >= left[at].y) ++ahead;
            add(box(left_x(at + 1), left[at].x, x, right_x(ahead)), true, left[at].y, left[at].ref);
        }
        ahead = 0;
        for (size_t at = 0; at < right.size(); ++at) {
            while (ahead < left.size() && left[ahead].y > right[at].y) ++ahead;
            add(box(left_x(ahead), x, right[at].x, right_x(at + 1)), true, right[at].y, right[at].ref);
        }
    }
};

}  // namespace kernels
