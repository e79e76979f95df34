// Draws the visits of a round on the device, from the same random numbers as numpy's PCG64DXSM on the processor.
//
// A state s of 128 bits gives one number and becomes a s + c, modulo 2^128 (O'Neill's PCG family, with the "cheap"
// multiplier and the output function DXSM). So the state after k numbers is A_k s + C_k c, and
//
//     A_k = a^k,   C_k = 1 + a + ... + a^(k-1),
//
// A table holds them for k = digit 256^place, so that a client reaches its own numbers by one jump for each byte of k.
#pragma once
#include "lanes.cuh"

namespace reshuffle::gpu {

struct Wide {  // a number of 128 bits
    std::uint64_t high, low;
};

RESHUFFLE_KERNEL Wide product(Wide a, Wide b) {
    return {high_product(a.low, b.low) + a.low * b.high + a.high * b.low, a.low * b.low};
}
RESHUFFLE_KERNEL Wide sum(Wide a, Wide b) {
    const std::uint64_t low = a.low + b.low;
    return {a.high + b.high + (low < a.low), low};
}

constexpr int bytes = 6;  // Positions are below 256^6: 2^48 random numbers of one round.

struct Jump {
    Wide power, sum;  // A_k and C_k
};

struct Stream {
    Wide state, increment;
    static constexpr std::uint64_t multiplier = 0xda942042e4dd58b5u;

    RESHUFFLE_KERNEL void skip(std::uint64_t numbers, const Jump *jumps) {
        for (int place = 0; place < bytes; place++, numbers >>= 8) {
            if (!(numbers & 255)) continue;
            const Jump jump = jumps[256 * place + int(numbers & 255)];
            state = gpu::sum(product(jump.power, state), product(jump.sum, increment));
        }
    }
    // a number in [0, 1), a multiple of 2^-53
    RESHUFFLE_KERNEL double next() {
        std::uint64_t found = state.high;
        found ^= found >> 32;
        found *= multiplier;
        found ^= found >> 48;
        found *= state.low | 1;
        state = gpu::sum(product(state, Wide{0, multiplier}), increment);
        return double(found >> 11) * (1.0 / 9007199254740992.0);
    }
};

// The samples of client c are rows first[c] ... first[c + 1] - 1, its visits begin at bounds[c], and its random numbers
// at positions[c].
struct Drawn {
    const Index *first, *bounds, *positions;
    Index clients;
    Stream stream;
    const Jump *jumps;
    Visit *visits;

    RESHUFFLE_KERNEL Stream of(Index client) const {
        Stream own = stream;
        own.skip(std::uint64_t(positions[client]), jumps);
        return own;
    }
};

// The Fisher-Yates shuffle, as on the processor: from the last place down, each is exchanged with one drawn up to it.
// The places are shuffled in shared memory, those of a block's clients side by side. Then the threads of a warp write the
// visits of one client after the other, so that neighbouring threads write neighbouring numbers. (A stride that is two
// places larger keeps them from all reading the same bank.)
RESHUFFLE_KERNEL void shuffle_in_shared(const Drawn &d, const Here &here) {
    std::uint16_t *places = static_cast<std::uint16_t *>(here.shared);
    const int stride = here.threads + 2, lane = here.thread % warp;
    for (Index base = here.block * here.threads; base < d.clients; base += here.blocks * here.threads) {
        const Index c = base + here.thread;
        if (c < d.clients) {
            std::uint16_t *own = places + here.thread;
            const int n = int(d.first[c + 1] - d.first[c]);
            Stream stream = d.of(c);
            for (int k = 0; k < n; k++) own[k * stride] = std::uint16_t(k);
            for (int last = n - 1; last > 0; last--) {
                const int other = int(stream.next() * double(last + 1));
                const std::uint16_t kept = own[last * stride];
                own[last * stride] = own[other * stride];
                own[other * stride] = kept;
            }
        }
        together();
        for (int t = here.thread - lane; t < here.thread - lane + warp && base + t < d.clients; t++) {
            const Index first = d.first[base + t], n = d.first[base + t + 1] - first;
            Visit *visits = d.visits + d.bounds[base + t];
            for (int k = lane; k < int(n); k += warp) visits[k] = Visit(first + places[k * stride + t]);
        }
        together();
    }
}

// As shuffle_in_shared, but in the array of visits itself, for clients of any size.
RESHUFFLE_KERNEL void shuffle(const Drawn &d, const Here &here) {
    for (Index c = here.block * here.threads + here.thread; c < d.clients; c += here.blocks * here.threads) {
        const Index first = d.first[c], n = d.first[c + 1] - first;
        Visit *visits = d.visits + d.bounds[c];
        Stream stream = d.of(c);
        for (Index k = 0; k < n; k++) visits[k] = Visit(first + k);
        for (Index last = n - 1; last > 0; last--) {
            const Index other = Index(stream.next() * double(last + 1));
            const Visit kept = visits[last];
            visits[last] = visits[other];
            visits[other] = kept;
        }
    }
}

// Draws samples of each client with replacement, bounds[c + 1] - bounds[c] of them.
RESHUFFLE_KERNEL void draw(const Drawn &d, const Here &here) {
    for (Index c = here.block * here.threads + here.thread; c < d.clients; c += here.blocks * here.threads) {
        const Index first = d.first[c], n = d.first[c + 1] - first, count = d.bounds[c + 1] - d.bounds[c];
        Visit *visits = d.visits + d.bounds[c];
        Stream own = d.of(c);
        for (Index k = 0; k < count; k++) {
            const Index drawn = Index(own.next() * double(n));
            visits[k] = Visit(first + (drawn < n ? drawn : n - 1));
        }
    }
}

}  // namespace reshuffle::gpu
