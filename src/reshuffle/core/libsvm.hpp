// LIBSVM's text format, a block of whole lines at a time, read strictly:
//
//     line:    [label [qid:digits] {index:value}] [# remark] end
//     label, value:   [+-] (digits [. [digits]] | . digits) [(e | E) [+-] digits]
//     index:   digits, rising within a line
//     end:     \n, \r\n, or the end of the text, with or without \r
//
// Words are separated by blanks and tabs. Nothing else is a number: neither 1_0, nor nan, nor 0x10, nor digits of other
// scripts. Numbers are converted by std::from_chars, which rounds correctly and ignores the locale. A number below the
// smallest is read as 0; a number above the largest is refused. A line without a label is not a row.
#pragma once
#include <charconv>
#include <cstring>
#include <string_view>

#include "arrays.hpp"

namespace reshuffle {

// Faults of a line. Reading ends at the first faulty line; a fault of form is reported before any other fault
// of the same line.
enum class Fault { none, form, order, index, label, value };

inline const char *name_of(Fault fault) {
    constexpr const char *names[] = {"", "form", "order", "index", "label", "value"};
    return names[int(fault)];
}

// Rows i = 0, 1, ... have the labels labels[i] and the entries ends[i] ... ends[i + 1] - 1; column j is the index j as it
// is written.
struct LibsvmRows {
    std::vector<double> values, labels;
    std::vector<std::int32_t> indices;
    std::vector<Index> ends{0};
    Fault fault = Fault::none;
    Index line = 0;  // The number of lines, or the number of the faulty line, counted from 1.
    Index at = 0;    // where this line starts
};

class LibsvmParser {
    const char *at, *const end;
    const std::int32_t most;
    LibsvmRows rows;

   public:
    // Indices beyond `most` are faults.
    LibsvmParser(std::string_view text, std::int32_t most) : at(text.data()), end(at + text.size()), most(most) {
        // Bytes that an index and its value take in a usual file, as in `123:0.5 `; more pairs make the room grow.
        constexpr std::size_t pair = 8;
        rows.values.reserve(text.size() / pair);
        rows.indices.reserve(text.size() / pair);
    }

    LibsvmRows read() {
        const char *const begin = at;
        while (at < end) {
            const char *const start = at;
            ++rows.line;
            rows.fault = line();
            if (rows.fault != Fault::none) {
                rows.at = start - begin;
                break;
            }
        }
        return std::move(rows);
    }

   private:
    static bool is_digit(char c) { return c >= '0' && c <= '9'; }
    bool sees(char c) const { return at < end && *at == c; }

    // Skips blanks and tabs; returns whether there were any.
    bool blanks() {
        const char *const start = at;
        while (at < end && (*at == ' ' || *at == '\t')) ++at;
        return at > start;
    }

    // Returns whether the line ends here, perhaps after a remark, and if so goes to the next line.
    bool line_ends() {
        if (sees('#')) {
            const void *found = std::memchr(at, '\n', std::size_t(end - at));
            at = found ? static_cast<const char *>(found) : end;
        }
        if (sees('\r')) ++at;
        if (at == end) return true;
        if (*at != '\n') return false;
        ++at;
        return true;
    }

    bool digits() {
        const char *const start = at;
        while (at < end && is_digit(*at)) ++at;
        return at > start;
    }

    // Reads a number; returns whether there is one. It is infinite if it is too large.
    bool number(double &value) {
        bool negative = false;
        if (sees('+') || sees('-')) negative = *at++ == '-';
        const bool begins = at < end && (is_digit(*at) || *at == '.');  // neither inf, nor nan, nor a second sign
        if (!begins) return false;
        const char *const start = at;
        const auto [stop, error] = std::from_chars(start, end, value);
        if (error == std::errc::invalid_argument) return false;
        at = stop;
        if (error == std::errc::result_out_of_range) value = exponent(start, stop) > 0 ? infinity : 0.0;
        if (negative) value = -value;
        return true;
    }

    // The decimal exponent of the first nonzero digit of a number that is out of range: far above 0 if the number is too
    // large, far below 0 if it is too small.
    static double exponent(const char *start, const char *stop) {
        const char *mark = std::find_if(start, stop, [](char c) { return c == 'e' || c == 'E'; });
        const char *point = std::find(start, mark, '.');
        const char *first = std::find_if(start, mark, [](char c) { return c >= '1' && c <= '9'; });
        const double place = first < point ? double(point - first - 1) : -double(first - point);
        double written = 0.0;  // as a floating-point number, which has room for any
        bool negative = false;
        for (const char *p = std::min(mark + 1, stop); p < stop; ++p)
            if (is_digit(*p))
                written = 10.0 * written + double(*p - '0');
            else
                negative = *p == '-';
        return place + (negative ? -written : written);
    }

    // Reads an index; returns whether there is one. An index that is too large becomes most + 1.
    bool index(Index &value) {
        const char *const start = at;
        for (value = 0; at < end && is_digit(*at); ++at)
            value = std::min(10 * value + Index(*at - '0'), Index(most) + 1);
        return at > start;
    }

    bool query() {
        if (end - at < 4 || std::memcmp(at, "qid:", 4) != 0) return false;
        at += 4;
        return digits();
    }

    Fault line() {
        blanks();
        if (at == end || *at == '#' || *at == '\r' || *at == '\n') return line_ends() ? Fault::none : Fault::form;
        double label;
        if (!number(label)) return Fault::form;
        Fault fault = std::isinf(label) ? Fault::label : Fault::none;
        Index last = -1;
        for (bool beginning = true;; beginning = false) {
            const bool apart = blanks();
            if (at == end || *at == '#' || *at == '\r' || *at == '\n') break;
            if (!apart) return Fault::form;
            if (beginning && *at == 'q') {
                if (!query()) return Fault::form;
                continue;
            }
            Index j;
            double value;
            if (!index(j) || !sees(':')) return Fault::form;
            ++at;
            if (!number(value)) return Fault::form;
            if (fault != Fault::none) continue;
            if (j > most)
                fault = Fault::index;
            else if (j <= last)
                fault = Fault::order;
            else if (std::isinf(value))
                fault = Fault::value;
            last = j;
            rows.indices.push_back(std::int32_t(j));
            rows.values.push_back(value);
        }
        if (!line_ends()) return Fault::form;
        if (fault == Fault::none) {
            rows.labels.push_back(label);
            rows.ends.push_back(Index(rows.values.size()));
        }
        return fault;
    }
};

}  // namespace reshuffle
