// A non-owning reference to a callable: a parameter type that costs no allocation.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace kimi_k3 {

template <typename Signature>
class FunctionRef;

// Refers to a callable that must outlive the call it is passed to; never store one.
template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<Result, F&, Args...>)
      // A parameter type, meant to convert; the constraint keeps it from hiding the copy
      // constructor.
      // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload)
      FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace kimi_k3
