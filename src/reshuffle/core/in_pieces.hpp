// Work that is heard of and shared: on threads, piece after piece, and with somebody who may want it to end.
#pragma once
#include <exception>
#include <functional>
#include <thread>

#include "passes.hpp"

namespace reshuffle {

namespace pieces {
inline constexpr Index rows = Index(1) << 13;  // A piece has this many rows: a fraction of a millisecond, so that threads share the work evenly.
inline constexpr double work = double(Index(1) << 25);  // An interruption is looked for after this many products, about every hundredth of a second.
}  // namespace pieces

// Asks now and then, from the thread that called, whether to go on; the answer no is an exception.
struct Listener {
    std::function<void()> ask;
    double done = 0.0, total = 0.0;  // products since the last question, and since a call began

    void worked(double products) {
        done += products, total += products;
        if (done < pieces::work) return;
        done = 0.0;
        if (ask) ask();
    }
};

// The rows in pieces of a fixed size where `threads` is given, so that sums have the same bits whatever their number; in one
// piece where it is 0.
inline std::vector<Range> cut(Index n, Index threads) {
    std::vector<Range> found;
    const Index most = threads == 0 ? std::max<Index>(n, 1) : pieces::rows;
    for (Index i = 0; i < n; i += most) found.push_back({i, std::min(i + most, n)});
    return found;
}

// work(range, slot) for every piece, as many at a time as there are threads, each in a slot of its own; then
// add(range, slot) for each, in order. What fails on a thread is thrown on the one that called.
template <class Work, class Add>
void in_pieces(const std::vector<Range> &ranges, Index threads, Work &&work, Add &&add) {
    const std::size_t slots = std::size_t(std::max<Index>(threads, 1));
    for (std::size_t first = 0; first < ranges.size(); first += slots) {
        const std::size_t count = std::min(slots, ranges.size() - first);
        std::vector<std::exception_ptr> failed(count);
        auto one = [&](std::size_t slot) {
            try {
                work(ranges[first + slot], slot);
            } catch (...) {
                failed[slot] = std::current_exception();
            }
        };
        std::vector<std::thread> others;
        for (std::size_t slot = 1; slot < count; slot++) others.emplace_back(one, slot);
        one(0);
        for (std::thread &other : others) other.join();
        for (std::size_t slot = 0; slot < count; slot++) {
            if (failed[slot]) std::rethrow_exception(failed[slot]);
            add(ranges[first + slot], slot);
        }
    }
}

}  // namespace reshuffle
