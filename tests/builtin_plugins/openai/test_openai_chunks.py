"""What a stream says beside text and calls: as a whole answer would have it, and nothing lost."""

import base64
import json

import pytest
from hypothesis import given, settings, strategies as st
from openai_server import DONE, STOP, call, chunk, completion, event, reply_of, request, stream_failure
from pluggent_hookspecs import (
    Audio,
    FinishReason,
    ModelParameters,
    ModelRequest,
    ProviderErrorKind as Kind,
    Reasoning,
    Text,
    Usage,
    freeze,
)
from pluggent_openai.chat.reply import read_reply
from pluggent_openai.dialects import Dialect, dialect_for
from pluggent_provider_http.server_errors import Faults

FAULTS = Faults("openai", "http://x/v1", "m")
OPENROUTER = dialect_for("https://openrouter.ai/api/v1")
BEGIN = event(chunk({"role": "assistant", "content": ""}))


def choice(delta=None, finish=None, index=0, **more):
    return event({"choices": [{"index": index, "delta": delta or {}, "finish_reason": finish, **more}]})


def whole(message, finish="stop", dialect=None, **more):
    data = json.dumps(completion(message, finish, **more)).encode()
    return read_reply(data, request(), dialect or Dialect(), FAULTS)


# ---- log-probabilities ------------------------------------------------------------------


def test_log_probabilities_of_all_pieces_are_joined():
    tokens = [{"token": word, "logprob": -0.5, "bytes": [104], "top_logprobs": []} for word in ("Hel", "lo", "!")]
    pieces = [choice({"content": token["token"]}, logprobs={"content": [token], "refusal": None}) for token in tokens]

    reply = reply_of(BEGIN, *pieces, STOP, DONE)

    assert reply.message.text == "Hello!"
    assert reply.extra["logprobs"] == {"content": freeze(tokens)}


def test_log_probabilities_of_a_refusal_are_kept_too():
    pieces = [choice({"refusal": word}, logprobs={"content": None, "refusal": [{"token": word}]}) for word in "no"]

    assert reply_of(BEGIN, *pieces, STOP).extra["logprobs"] == {"refusal": ({"token": "n"}, {"token": "o"})}


# ---- other choices ----------------------------------------------------------------------


def test_other_choices_are_kept_as_the_api_would_have_written_them():
    pieces = [
        choice({"role": "assistant", "content": "o"}, index=1, logprobs={"content": [{"token": "o"}]}),
        choice({"content": "ne"}),
        choice({"content": "ther"}, index=1, logprobs={"content": [{"token": "ther"}]}),
        choice({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "add", "arguments": "{"}}]}, index=2),
        choice({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}, index=2),
        choice({}, "length", index=1) + choice({}, "tool_calls", index=2),
    ]

    reply = reply_of(BEGIN, *pieces, STOP, DONE)

    assert (reply.message.text, reply.finish_reason) == ("ne", FinishReason.STOP)
    assert reply.extra["choices"] == (
        {
            "index": 1,
            "message": {"role": "assistant", "content": "other"},
            "logprobs": {"content": ({"token": "o"}, {"token": "ther"})},
            "finish_reason": "length",
        },
        {
            "index": 2,
            "message": {"tool_calls": ({"index": 0, "id": "c", "function": {"name": "add", "arguments": "{}"}},)},
            "finish_reason": "tool_calls",
        },
    )


def test_other_choices_of_a_whole_answer_are_kept_as_they_are():
    first = {"index": 0, "message": {"content": "this"}, "finish_reason": "stop"}
    answer = {"choices": [first, {"index": 1, "message": {"content": "other"}, "finish_reason": "length"}]}

    reply = read_reply(json.dumps(answer).encode(), request(), Dialect(), FAULTS)

    assert reply.message.text == "this"
    assert reply.extra["choices"] == ({"index": 1, "message": {"content": "other"}, "finish_reason": "length"},)


@pytest.mark.parametrize("index", ["1", 1.5, [1]])
def test_a_choice_without_a_number_is_a_protocol_error(index):
    assert stream_failure(BEGIN, choice({"content": "a"}, index=index)).kind is Kind.PROTOCOL


# ---- sound ------------------------------------------------------------------------------


def heard(*pieces, asked=None):
    return reply_of(BEGIN, *(choice({"audio": piece}) for piece in pieces), STOP, DONE, asked=asked)


def test_sound_becomes_one_part_with_its_words():
    reply = heard(
        {"id": "a1", "transcript": "Hel"}, {"id": "a1", "data": "QUJD"}, {"transcript": "lo"}, {"data": "REVG"},
        {"expires_at": 7},
    )  # fmt: skip

    assert reply.message.content == (Audio("QUJDREVG", "pcm16", "Hello"),)
    assert reply.message.extra == {"openai": {"audio": {"id": "a1"}}}
    assert reply.extra == {"audio": {"expires_at": 7}}


@given(st.lists(st.binary(max_size=9), max_size=6))
@settings(deadline=None)
def test_sound_that_was_encoded_piece_by_piece_is_the_same_bytes(pieces):
    reply = heard(*({"data": base64.b64encode(piece).decode(), "transcript": "x"} for piece in pieces), {"id": "a"})

    sound = [base64.b64decode(part.data) for part in reply.message.content if isinstance(part, Audio)]
    assert b"".join(sound) == b"".join(pieces)


def test_sound_that_was_cut_after_encoding_is_joined():
    assert heard({"data": "QU"}, {"data": "JDR"}, {"data": "A=="}).message.content == (Audio("QUJDRA==", "pcm16"),)


@pytest.mark.parametrize("pieces", [("QQ=", "QUI="), ("QQ==", "!!!!")])
def test_sound_that_cannot_be_put_together_is_a_protocol_error(pieces):
    stream = [choice({"audio": {"data": piece}}) for piece in pieces]

    assert stream_failure(BEGIN, *stream, STOP).kind is Kind.PROTOCOL


def test_sound_has_the_format_that_was_asked_for():
    asked = ModelRequest("m", (), parameters=ModelParameters(extra={"audio": {"format": "mp3", "voice": "ash"}}))
    data = json.dumps(completion({"content": None, "audio": {"id": "a", "data": "QQ=="}})).encode()

    assert heard({"data": "QQ=="}, asked=asked).message.content == (Audio("QQ==", "mp3"),)
    assert read_reply(data, asked, Dialect(), FAULTS).message.content == (Audio("QQ==", "mp3"),)
    assert read_reply(data, request(), Dialect(), FAULTS).message.content == (Audio("QQ==", "wav"),)


# ---- thinking, citations, pictures ------------------------------------------------------


def test_details_of_thinking_are_put_together_and_belong_to_the_message():
    def detail(**more):
        return {"type": "reasoning.text", "format": "google-gemini-v1", "index": 0, **more}

    reply = reply_of(
        BEGIN,
        choice({"reasoning": "Let ", "reasoning_details": [detail(text="Let ")]}),
        choice({"reasoning": "me", "reasoning_details": [detail(text="me")]}),
        choice({"reasoning_details": [detail(signature="sig")]}),
        choice({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 1}]}),
        choice({"content": "hi"}),
        STOP, DONE, dialect=OPENROUTER,
    )  # fmt: skip

    assert reply.message.content == (Reasoning("Let me"), Text("hi"))
    assert reply.message.extra == {
        "openai": {
            "reasoning_details": (
                detail(text="Let me", signature="sig"),
                {"type": "reasoning.encrypted", "data": "x", "index": 1},
            )
        }
    }


def test_citations_of_all_pieces_belong_to_the_message():
    cited = [{"type": "url_citation", "url_citation": {"url": f"https://x/{n}", "start_index": n}} for n in range(2)]

    reply = reply_of(BEGIN, *(choice({"content": "a", "annotations": [each]}) for each in cited), STOP)

    assert reply.message.extra == {"openai": {"annotations": tuple(cited)}}
    assert reply.message.text == "aa"


def test_thinking_after_text_is_a_part_of_its_own():
    pieces = [choice({"reasoning_content": "a"}), choice({"content": "b"}), choice({"reasoning_content": "c"})]

    assert reply_of(BEGIN + b"".join(pieces) + STOP).message.content == (Reasoning("a"), Text("b"), Reasoning("c"))


def test_text_and_thinking_in_one_piece_are_both_read():
    assert reply_of(BEGIN, choice({"reasoning": "a", "content": "b"}), STOP).message.content == (
        Reasoning("a"),
        Text("b"),
    )


# ---- Azure ------------------------------------------------------------------------------


def test_the_results_of_azures_filter_are_kept():
    results = [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}]
    filtered = {"hate": {"filtered": False, "severity": "safe"}}
    empty = event({"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": results})

    reply = reply_of(
        empty, BEGIN, choice({"content": "hi"}, content_filter_results=filtered),
        event({"choices": [{"index": 0, "content_filter_offsets": {"end_offset": 2}, "finish_reason": None,
                            "content_filter_results": filtered}]}),
        STOP, DONE,
    )  # fmt: skip

    assert (reply.message.text, reply.id, reply.model) == ("hi", "c1", "m-1")
    assert reply.extra["prompt_filter_results"] == freeze(results)
    assert reply.extra["content_filter_results"] == filtered
    assert reply.extra["content_filter_offsets"] == {"end_offset": 2}


# ---- usage ------------------------------------------------------------------------------


def test_counters_without_a_place_are_kept_as_they_were_written():
    usage = {
        "prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 20, "cost": 0.25,
        "completion_tokens_details": {"accepted_prediction_tokens": 3, "rejected_prediction_tokens": 0},
    }  # fmt: skip
    kept = {"total_tokens": 20, "cost": 0.25, "completion_tokens_details": {"accepted_prediction_tokens": 3}}

    in_pieces = reply_of(BEGIN, choice({"content": "a"}), STOP, event({"choices": [], "usage": usage}), DONE)

    for reply in (in_pieces, whole({"content": "a"}, usage=usage)):
        assert reply.usage == Usage(input=9, output=5)
        assert reply.extra["usage"] == kept


def test_a_price_in_dollars_is_the_cost():
    usage = {"prompt_tokens": 9, "cost": 0.25}

    assert whole({"content": "a"}, dialect=OPENROUTER, usage=usage).usage == Usage(input=9, cost_usd=0.25)


def test_counters_that_are_no_numbers_are_not_known():
    usage = {"prompt_tokens": "9", "completion_tokens": True, "prompt_tokens_details": [], "x": {"y": 0}}

    assert whole({"content": "a"}, usage=usage).usage == Usage()


# ---- the quick way and the careful one --------------------------------------------------


DELTAS = st.one_of(
    st.fixed_dictionaries({"content": st.sampled_from(["", "a", "b\u2028"])}),
    st.fixed_dictionaries(
        {"reasoning_content": st.sampled_from(["", "r"]), "content": st.sampled_from(["", "c", None])}
    ),
    st.fixed_dictionaries({"reasoning": st.just("s"), "role": st.just("assistant")}),
    st.fixed_dictionaries({"refusal": st.just("n")}),
    st.fixed_dictionaries({"annotations": st.just([{"u": 1}]), "content": st.just("d")}),
    st.fixed_dictionaries({"reasoning_details": st.just([{"index": 0, "text": "t"}])}),
    st.just(call(0, "c1", "add", '{"a"')),
    st.just(call(0, arguments=":1,")),
    st.just(call(0, None, "add", "1")),
    st.just(call(1, "c2", "sub", "")),
    st.just(call(1, arguments="{}")),
    st.just(call(None, arguments="2")),
    st.just({}),
)
MORE = st.sampled_from([{}, {}, {}, {"logprobs": {"content": [{"token": "t"}]}}, {"logprobs": None}, {"index": 1}])


@given(st.lists(st.tuples(DELTAS, MORE), max_size=12))
@settings(deadline=None)
def test_the_quick_way_of_reading_pieces_finds_what_the_careful_one_finds(pieces):
    def stream(careful):
        chunks = [{"index": 0, "delta": delta, "finish_reason": None, **more} for delta, more in pieces]
        slow = {"unheard_of": None} if careful else {}
        events = [event({"id": "c1", "model": "m", "choices": [each], **slow}) for each in chunks]
        return b"".join([BEGIN, *events, STOP, DONE])

    def found(careful):
        try:
            return reply_of(stream(careful))
        except Exception as error:  # noqa: BLE001 (both ways have to fail alike)
            return str(error)

    assert found(careful=False) == found(careful=True)
