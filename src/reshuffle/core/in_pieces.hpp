// Divides work into pieces for several threads, and checks for interruption in between.
#pragma once
#include <exception>
#include <functional>
#include <thread>

#include "passes.hpp"

namespace reshuffle {

namespace pieces {
inline constexpr Index rows = Index(1) << 13;  // A piece has this many rows: a fraction of a millisecond, so that threads share the work evenly.
inline constexpr double work = double(Index(1) << 25);  // Interruption is checked after this many products, about every hundredth of a second.
}  // namespace pieces

// Checks from time to time, on the calling thread, whether to continue; an interruption raises an exception.
struct Listener {
    std::function<void()> ask;
    double done = 0.0, total = 0.0;  // products since the last check, and since the call began

    void worked(double products) {
        done += products, total += products;
        if (done < pieces::work) return;
        done = 0.0;
        if (ask) ask();
    }
};

// Cuts the rows into pieces. With `threads` > 0 pieces have a fixed size, so that the bits of sums do not depend on the number of
// threads; with 0 there is one piece.
inline std::vector<Range> cut(Index n, Index threads) {
    std::vector<Range> found;
    const Index most = threads == 0 ? std::max<Index>(n, 1) : pieces::rows;
    for (Index i = 0; i < n; i += most) found.push_back({i, std::min(i + most, n)});
    return found;
}

// Calls work(range, slot) for every piece, as many at a time as there are threads, each in its own slot, and then
// add(range, slot) for each, in order. An exception on a thread is rethrown on the calling thread.
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
