"""The official OpenAI library for Python, as programs use it. Run by client_test.py."""

import json
import os
import typing
import unittest

import openai
import pydantic

from serving import wait_until_idle

ADDRESS = os.environ["KIMI_K3_ADDRESS"]
MESSAGES = [{"role": "user", "content": "Hello."}]
# What the tiny model knows by heart.
VERSE = [{"role": "user", "content": "What does Psalm 23:1 say?"}]


class Friend(pydantic.BaseModel):
    short: typing.Literal["Al", "Bo"]


class Person(pydantic.BaseModel):
    name: typing.Annotated[str, pydantic.Field(max_length=8)]
    age: typing.Annotated[int, pydantic.Field(ge=0, le=120)]
    mood: typing.Literal["glad", "sad"]
    nick: typing.Literal["x"] | None
    friends: typing.Annotated[list[Friend], pydantic.Field(max_length=2)]


class GetWeather(pydantic.BaseModel):
    city: typing.Literal["Bern", "Oslo"]
    days: typing.Annotated[int, pydantic.Field(ge=1, le=9)]


class Client(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=ADDRESS + "/v1", api_key="none", max_retries=0,
                                    timeout=60)
        self.chat = self.client.chat.completions

    def ask(self, messages=None, **options):
        options = {"model": "tiny", "temperature": 0, "reasoning_effort": "none",
                   "max_tokens": 200} | options
        return self.chat.create(messages=messages or MESSAGES, **options)

    def test_models(self):
        models = self.client.models.list().data
        self.assertEqual([model.id for model in models], ["tiny"])
        self.assertEqual(self.client.models.retrieve("tiny").object, "model")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("another")

    def test_chat(self):
        answer = self.ask(VERSE, reasoning_effort="high")
        choice = answer.choices[0]
        self.assertIn("The LORD is my shepherd", choice.message.content)
        self.assertIn("Psalm 23:1", choice.message.reasoning_content)
        self.assertEqual(choice.finish_reason, "stop")
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertGreater(answer.usage.completion_tokens_details.reasoning_tokens, 0)

    def test_a_conversation_goes_on(self):
        first = self.ask(VERSE)
        messages = VERSE + [first.choices[0].message.model_dump(exclude_none=True), *MESSAGES]
        second = self.ask(messages)
        self.assertGreater(second.usage.prompt_tokens_details.cached_tokens, 0)

    def test_length(self):
        self.assertEqual(self.ask(VERSE, max_tokens=3).choices[0].finish_reason, "length")

    def test_stop(self):
        choice = self.ask(VERSE, stop=["shepherd"]).choices[0]
        self.assertEqual(choice.message.content, "The LORD is my ")
        self.assertEqual(choice.finish_reason, "stop")

    def test_streaming(self):
        whole = self.ask(VERSE).choices[0].message.content
        with self.ask(VERSE, stream=True, stream_options={"include_usage": True}) as stream:
            chunks = list(stream)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, whole)
        self.assertEqual(chunks[-1].choices, [])
        self.assertGreater(chunks[-1].usage.completion_tokens, 0)
        reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
        self.assertEqual(reasons[-1], "stop")

    def test_the_stream_helper(self):
        with self.chat.stream(model="tiny", messages=VERSE, temperature=0,
                              reasoning_effort="none", max_tokens=200) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertIn("content.delta", kinds)
        self.assertIn("content.done", kinds)
        self.assertIn("The LORD is my shepherd", final.choices[0].message.content)

    def test_text_completions(self):
        answer = self.client.completions.create(model="tiny", prompt="It is a truth", max_tokens=8,
                                                temperature=0, logprobs=2)
        self.assertEqual(len(answer.choices[0].logprobs.tokens), 8)
        self.assertEqual("".join(answer.choices[0].logprobs.tokens), answer.choices[0].text)
        stream = self.client.completions.create(model="tiny", prompt="It is a truth", max_tokens=8,
                                                temperature=0, stream=True)
        self.assertEqual("".join(chunk.choices[0].text for chunk in stream),
                         answer.choices[0].text)

    def test_logprobs(self):
        choice = self.ask(VERSE, logprobs=True, top_logprobs=3).choices[0]
        tokens = choice.logprobs.content
        self.assertEqual("".join(token.token for token in tokens), choice.message.content)
        self.assertTrue(all(token.logprob <= 0 and len(token.top_logprobs) == 3
                            for token in tokens))
        self.assertEqual(tokens[0].top_logprobs[0].token, tokens[0].token)

    def test_json_object(self):
        choice = self.ask(response_format={"type": "json_object"}, max_tokens=80).choices[0]
        self.assertTrue(choice.message.content.startswith("{"))
        if choice.finish_reason == "stop":
            self.assertIsInstance(json.loads(choice.message.content), dict)

    def test_json_schema_by_parse(self):
        for seed in range(3):
            answer = self.chat.parse(model="tiny", messages=MESSAGES, response_format=Person,
                                     temperature=1, seed=seed, reasoning_effort="none",
                                     max_tokens=300)
            person = answer.choices[0].message.parsed
            self.assertIsInstance(person, Person)
            self.assertLessEqual(person.age, 120)
            self.assertLessEqual(len(person.friends), 2)

    def test_json_schema_streamed(self):
        with self.chat.stream(model="tiny", messages=MESSAGES, response_format=Person,
                              temperature=1, seed=5, reasoning_effort="none",
                              max_tokens=300) as stream:
            for _ in stream:
                pass
            self.assertIsInstance(stream.get_final_completion().choices[0].message.parsed, Person)

    def test_tools(self):
        tool = openai.pydantic_function_tool(GetWeather)
        for choice in ("required", {"type": "function", "function": {"name": "GetWeather"}}):
            answer = self.chat.parse(model="tiny", messages=MESSAGES, tools=[tool],
                                     tool_choice=choice, parallel_tool_calls=False, temperature=0,
                                     reasoning_effort="none", max_tokens=300)
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
            call = answer.choices[0].message.tool_calls[0]
            self.assertIsInstance(call.function.parsed_arguments, GetWeather)
        messages = MESSAGES + [
            {"role": "assistant", "tool_calls": [
                {"id": call.id, "type": "function",
                 "function": {"name": call.function.name, "arguments": call.function.arguments}}]},
            {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        self.assertIsNotNone(self.ask(messages, tools=[tool], tool_choice="none").choices[0])

    def test_tools_streamed(self):
        stream = self.ask(tools=[openai.pydantic_function_tool(GetWeather)],
                          tool_choice="required", parallel_tool_calls=False, stream=True)
        calls = [call for chunk in stream if chunk.choices
                 for call in chunk.choices[0].delta.tool_calls or []]
        self.assertEqual(calls[0].function.name, "GetWeather")
        arguments = json.loads("".join(call.function.arguments for call in calls))
        self.assertIn(arguments["city"], ("Bern", "Oslo"))

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            self.ask(model="another")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask([{"role": "user", "content": "word " * 2000}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        schema = {"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 7}}}
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(response_format={"type": "json_schema",
                                      "json_schema": {"name": "x", "schema": schema}})
        self.assertEqual(caught.exception.param,
                         "response_format.json_schema.schema.properties.a.multipleOf")

    def test_cancelling_ends_the_computation(self):
        stream = self.client.completions.create(model="tiny", prompt="And", max_tokens=600,
                                                stream=True, extra_body={"ignore_eos": True})
        for number, _ in enumerate(stream):
            if number == 3:
                break
        stream.close()
        self.assertTrue(wait_until_idle(ADDRESS))

    def test_a_client_that_waits_no_longer_ends_it_too(self):
        with self.assertRaises(openai.APITimeoutError):
            self.client.with_options(timeout=0.2).completions.create(
                model="tiny", prompt="And", max_tokens=690, extra_body={"ignore_eos": True})
        self.assertTrue(wait_until_idle(ADDRESS))


if __name__ == "__main__":
    unittest.main()
