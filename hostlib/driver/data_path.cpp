// Posting requests and taking completions.

#include <plait/driver.hpp>

#include "implementation.hpp"

namespace plait {

using namespace regmap;

namespace {

Error no_queue(std::uint32_t number, const char* kind) {
    return {Status::invalid_queue, "queue " + std::to_string(number) + " is not a " + kind + " queue"};
}

}  // namespace

RequestRing* Driver::Implementation::request_ring(std::uint32_t number) const {
    return number < max_queues && queues[number] ? std::get_if<RequestRing>(queues[number].get()) : nullptr;
}

CompletionRing* Driver::Implementation::completion_ring(std::uint32_t number) const {
    return number < max_queues && queues[number] ? std::get_if<CompletionRing>(queues[number].get())
                                                 : nullptr;
}

template <class Record>
Result<void> Driver::Implementation::post(std::uint32_t number, QueueKind kind,
                                          std::span<const Record> requests) {
    if (auto there = device.known(); !there) return there;
    RequestRing* ring = request_ring(number);
    if (ring == nullptr || ring->kind() != kind) return no_queue(number, name(kind));
    if (requests.size() > ring->free_entries())
        return Error{Status::queue_full, "queue " + std::to_string(number) + " has " +
                                             std::to_string(ring->free_entries()) + " free entries, " +
                                             std::to_string(requests.size()) + " needed"};
    if (requests.empty()) return {};
    for (const Record& request : requests) ring->push(&request);
    device.ring_doorbell(number, ring->produced());
    device.statistics().posted += requests.size();
    return {};
}

Result<void> Driver::post_send(std::uint32_t queue, std::span<const WorkRequest> requests) {
    return guarded([&]() -> Result<void> { return implementation_->post(queue, QueueKind::send, requests); });
}
Result<void> Driver::post_receive(std::uint32_t queue, std::span<const ReceiveRequest> requests) {
    return guarded(
        [&]() -> Result<void> { return implementation_->post(queue, QueueKind::receive, requests); });
}
Result<void> Driver::post_collective(std::uint32_t queue, std::span<const EpRequest> requests) {
    return guarded(
        [&]() -> Result<void> { return implementation_->post(queue, QueueKind::collective, requests); });
}
Result<void> Driver::post_send(std::uint32_t queue, const WorkRequest& request) {
    return post_send(queue, std::span(&request, 1));
}
Result<void> Driver::post_receive(std::uint32_t queue, const ReceiveRequest& request) {
    return post_receive(queue, std::span(&request, 1));
}
Result<void> Driver::post_collective(std::uint32_t queue, const EpRequest& request) {
    return post_collective(queue, std::span(&request, 1));
}

Result<std::uint32_t> Driver::free_entries(std::uint32_t queue) const {
    return guarded([&]() -> Result<std::uint32_t> {
        if (auto there = implementation_->device.known(); !there) return there.error();
        const RequestRing* ring = implementation_->request_ring(queue);
        if (ring == nullptr) return no_queue(queue, "request");
        return ring->free_entries();
    });
}

std::size_t Driver::Implementation::take(std::uint32_t number, CompletionRing& ring,
                                         std::span<Completion> completions) {
    std::size_t count = 0;
    while (count < completions.size() && ring.take(completions[count])) {
        const Completion& completion = completions[count++];
        if (RequestRing* requests = request_ring(completion.queue))
            requests->free_through(completion.request_index);
    }
    if (count != 0) device.ring_doorbell(number, ring.consumed());
    device.statistics().completions += count;
    return count;
}

Result<std::size_t> Driver::poll(std::uint32_t completion_queue, std::span<Completion> completions) {
    return guarded([&]() -> Result<std::size_t> {
        if (auto there = implementation_->device.known(); !there) return there.error();
        CompletionRing* ring = implementation_->completion_ring(completion_queue);
        if (ring == nullptr) return no_queue(completion_queue, "completion");
        return implementation_->take(completion_queue, *ring, completions);
    });
}

Result<std::size_t> Driver::wait(std::uint32_t completion_queue, std::span<Completion> completions,
                                 std::uint64_t timeout_ns) {
    return guarded([&]() -> Result<std::size_t> {
        if (auto there = implementation_->device.known(); !there) return there.error();
        CompletionRing* ring = implementation_->completion_ring(completion_queue);
        if (ring == nullptr) return no_queue(completion_queue, "completion");
        if (completions.empty())
            return Error{Status::invalid_parameter, "no room for a completion to wait for"};
        const auto ready = implementation_->device.wait_until(timeout_ns, [&] { return ring->has_new(); });
        if (!ready) return ready.error();
        if (!ready.value())
            return Error{Status::timeout, "no completion in queue " + std::to_string(completion_queue) +
                                              " within " + std::to_string(timeout_ns) + " ns"};
        return implementation_->take(completion_queue, *ring, completions);
    });
}

}  // namespace plait
