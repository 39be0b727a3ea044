"""The answers that gRPC's own client gets."""

import asyncio
import os

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from dradriver.node.kubelet.server import MAX_MESSAGE, MAX_METADATA
from tests.unit.node.kubelet.served import Served, eventually, refusal, text


async def test_a_unary_call_is_answered(served: Served) -> None:
    async with served.dial() as client:
        assert await client.unary("Say", text("hello")) == text("hello")
        assert await client.unary("Say", BytesValue()) == BytesValue()


async def test_a_stream_ends_after_its_last_answer(served: Served) -> None:
    async with served.dial() as client:
        call = client.stream(text("ab"))
        assert [answer.value async for answer in call] == [b"ab" * number for number in range(5)]
        assert await call.code() == grpc.StatusCode.OK


async def test_a_stream_may_have_no_answer(served: Served) -> None:
    served.answers = 0
    async with served.dial() as client:
        call = client.stream(text("ab"))
        assert [answer async for answer in call] == []
        assert await call.code() == grpc.StatusCode.OK


async def test_a_stream_may_fail_after_its_answers(served: Served) -> None:
    async with served.dial() as client:
        call = client.stream(text("fail"))
        with pytest.raises(grpc.aio.AioRpcError, match="counted too far") as caught:
            async for _ in call:
                pass
    assert caught.value.code() == grpc.StatusCode.INTERNAL


@pytest.mark.parametrize(
    "message",
    ["", "plain", "100 % of %41", "Zeile 1\nZeile 2\r\n\t\x00", "ä€😀", "quote \" and ' and \\", "a" * 2000],
)
async def test_a_status_has_a_message_of_any_characters(served: Served, message: str) -> None:
    async with served.dial() as client:
        error = await refusal(client.unary("Fail", text(message)))
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, message)


@pytest.mark.parametrize("character", ["a", "ä", "€", "😀", "\n"])
async def test_a_message_too_long_for_header_fields_is_cut(served: Served, character: str) -> None:
    async with served.dial() as client:
        error = await refusal(client.unary("Fail", text(character * 5000)))
    assert error.code() == grpc.StatusCode.NOT_FOUND
    assert error.details() == character * (2000 // len(character.encode()))


async def test_invalid_text_in_a_message_is_replaced(served: Served) -> None:
    """File names that are not UTF-8 are in errors as lone surrogates."""
    async with served.dial() as client:
        request = BytesValue(value="/dev/\udcff".encode(errors="surrogatepass"))
        error = await refusal(client.unary("Fail", request))
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "/dev/?")


async def test_a_defect_is_unknown_and_its_message_is_hidden(served: Served) -> None:
    async with served.dial() as client:
        error = await refusal(client.unary("Fail", text("defect")))
        assert (error.code(), error.details()) == (
            grpc.StatusCode.UNKNOWN,
            "internal error: ValueError; the driver's log has the location",
        )
        assert await client.unary("Say", text("next")) == text("next")


async def test_a_handler_that_cancels_itself_is_a_defect(served: Served) -> None:
    async with served.dial() as client:
        error = await refusal(client.unary("Fail", text("cancelled")))
    assert error.code() == grpc.StatusCode.UNKNOWN


async def test_an_unknown_method_is_unimplemented(served: Served) -> None:
    async with served.dial() as client:
        error = await refusal(client.unary("Missing", text("")))
    assert (error.code(), error.details()) == (
        grpc.StatusCode.UNIMPLEMENTED,
        "Method not found!",
    )


async def test_an_invalid_request_is_internal(served: Served) -> None:
    async with served.dial() as client:
        call = client.channel.unary_unary("/test.Echo/Say", lambda _: b"\xff", BytesValue.FromString)
        error = await refusal(call(b""))
    assert (error.code(), error.details()) == (
        grpc.StatusCode.INTERNAL,
        "the request is not a google.protobuf.BytesValue",
    )


@pytest.mark.parametrize("size", [16379, 16384, 65535, 65536, MAX_MESSAGE - 5])
async def test_messages_of_any_size_go_both_ways(served: Served, size: int) -> None:
    request = BytesValue(value=os.urandom(size))
    async with served.dial() as client:
        assert await client.unary("Say", request) == request


async def test_large_messages_are_sent_concurrently(served: Served) -> None:
    async with served.dial() as client:
        requests = [BytesValue(value=bytes([number]) * 3_000_000) for number in range(6)]
        answers = await asyncio.gather(*(client.unary("Say", request) for request in requests))
        assert answers == requests


async def test_a_message_over_the_limit_is_rejected_and_the_connection_continues(served: Served) -> None:
    async with served.dial() as client:
        error = await refusal(client.unary("Say", BytesValue(value=bytes(2 * MAX_MESSAGE))))
        assert (error.code(), error.details()) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "SERVER: Received message larger than max (8388613 vs. 4194304)",
        )
        assert await client.unary("Say", text("next")) == text("next")


async def test_metadata_within_the_limit_is_accepted(served: Served) -> None:
    async with served.dial() as client:
        fields = (("name", "v" * (MAX_METADATA - 1000)),)
        assert await client.unary("Say", text("hello"), metadata=fields) == text("hello")


async def test_metadata_over_the_limit_is_rejected_and_the_connection_continues(served: Served) -> None:
    """Each time: grpcio rejects at random between its two limits."""
    async with served.dial() as client:
        fields = (("name", "v" * MAX_METADATA),)
        calls = [client.unary("Say", text(""), metadata=fields) for _ in range(20)]
        errors = await asyncio.gather(*map(refusal, calls))
        assert {error.code() for error in errors} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert await client.unary("Say", text("next")) == text("next")


async def test_a_compressed_message_is_unimplemented(served: Served) -> None:
    """A few bytes could become many."""
    async with served.dial() as client:
        call = client.unary("Say", BytesValue(value=bytes(10_000)), compression=grpc.Compression.Gzip)
        error = await refusal(call)
    assert (error.code(), error.details()) == (
        grpc.StatusCode.UNIMPLEMENTED,
        "Compression algorithm 'gzip' is disabled.",
    )


async def test_a_call_whose_time_is_over_ends_and_its_handler_is_cancelled_once(served: Served) -> None:
    """The client cancels its stream at the same moment."""
    async with served.dial() as client:
        assert await client.unary("Say", text("first")) == text("first")  # the client is connected
        while not served.waiting:  # on a busy machine, the time may be over before the handler begins
            error = await refusal(client.unary("Cling", text(""), timeout=2))
            assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await eventually(lambda: served.cancelled > 0)
        assert await client.unary("Say", text("next")) == text("next")
        await eventually(lambda: len(served.calls) == served.waiting <= served.cancelled)
        assert served.cancelled == served.waiting
        served.gate.set()
        await eventually(lambda: not served.calls)


@pytest.mark.parametrize("seconds", [60.0, 8 * 365 * 86400.0])
async def test_a_deadline_that_has_not_passed_changes_nothing(served: Served, seconds: float) -> None:
    async with served.dial() as client:
        assert await client.unary("Say", text("hello"), timeout=seconds) == text("hello")


async def test_a_call_that_the_client_cancels_is_cancelled_in_its_handler(served: Served) -> None:
    async with served.dial() as client:
        call = client.unary("Wait", text(""))
        await eventually(lambda: served.waiting == 1)
        call.cancel()
        await eventually(lambda: served.cancelled == 1)
        assert await client.unary("Say", text("next")) == text("next")


async def test_a_client_that_vanishes_cancels_its_calls(served: Served) -> None:
    async with served.dial() as client:
        calls = [client.unary("Wait", text("")) for _ in range(10)]
        await eventually(lambda: served.waiting == 10)
    await eventually(lambda: served.cancelled == 10)
    assert all(call.done() for call in calls)
    await eventually(lambda: not served.calls)


async def test_a_stream_that_is_read_slowly_is_produced_slowly(served: Served) -> None:
    served.answers = 10_000
    async with served.dial() as client:
        call = client.stream(BytesValue(value=b"x" * 1000))
        for number in range(3):
            assert await call.read() == BytesValue(value=b"x" * 1000 * number)
        await client.unary("Say", text(""))
        assert served.produced < 1000
        call.cancel()
    await eventually(lambda: not served.calls)


async def test_a_client_connects_again_to_the_next_server(served: Served) -> None:
    async with served.dial() as client:
        assert await client.unary("Say", text("first")) == text("first")
        await served.server.stop(5)
        served.__post_init__()
        await served.server.start()
        assert await client.unary("Say", text("second"), wait_for_ready=True) == text("second")
