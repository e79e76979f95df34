// Bindings of readers of text.
#include "bound.hpp"
#include "libsvm.hpp"

namespace reshuffle {

// The vector as an array of numpy, which owns it from now on.
template <class T>
static nb::object handed_over(std::vector<T> &&given) {
    auto *kept = new std::vector<T>(std::move(given));
    nb::capsule owner(kept, [](void *v) noexcept { delete static_cast<std::vector<T> *>(v); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

void bind_text(nb::module_ &m) {
    m.def(
        "parse_libsvm",
        [](nb::bytes text, std::int32_t most) {
            require(most >= 0, "most must not be negative");
            LibsvmRows rows;
            {
                const std::string_view whole(text.c_str(), text.size());  // bytes do not change
                Free free;
                rows = LibsvmParser(whole, most).read();
            }
            return nb::make_tuple(handed_over(std::move(rows.values)), handed_over(std::move(rows.indices)),
                                  handed_over(std::move(rows.ends)), handed_over(std::move(rows.labels)),
                                  name_of(rows.fault), rows.line, rows.at);
        },
        nb::arg("text").noconvert(), nb::arg("most"));
}

}  // namespace reshuffle
