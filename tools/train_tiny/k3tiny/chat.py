"""Renders conversations in K3's chat format as token ids; every segment is encoded alone (docs/text.md)."""

_EFFORT = (
    "`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), "
    "supported values include `low`, `medium`, `high`, and `max`.\n"
    "Now the system is invoked with `thinking_effort={}`."
)


class Chat:
    """Segments with a tokenizer; each method returns a list of ids."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def _mark(self, name):
        return [self.tokenizer.special[name]]

    def open(self, tag, **attributes):
        ids = self._mark("<|open|>") + self.tokenizer.encode(tag)
        for key, value in attributes.items():
            escaped = value.replace("&", "&amp;").replace('"', "&quot;")
            for segment in (" " + key, '="', escaped, '"'):
                ids += self.tokenizer.encode(segment)
        return ids + self._mark("<|sep|>")

    def close(self, tag):
        return self._mark("<|close|>") + self.tokenizer.encode(tag) + self._mark("<|sep|>")

    def end_message(self):
        return self.close("message") + self._mark("<|end_of_msg|>")

    def message(self, role, body, **attributes):
        return self.open("message", role=role, **attributes) + self.tokenizer.encode(body) + self.end_message()

    @staticmethod
    def effort_text(effort):
        return _EFFORT.format(effort)

    def effort(self, effort):
        return self.message("system", self.effort_text(effort), type="thinking-effort")

    def turn_start(self, thinking):
        """The generation prompt."""
        return self.open("message", role="assistant") + self.open("think" if thinking else "response")

    def answer(self, text, thought=None):
        """What the model writes after the generation prompt; `thought` is None with thinking off."""
        ids = [] if thought is None else self.tokenizer.encode(thought) + self.close("think") + self.open("response")
        return ids + self.tokenizer.encode(text) + self.close("response") + self.end_message()

    def prompt(self, question, effort=None, system=None):
        """The ids that ask one question; `effort` None is thinking off."""
        ids = self.effort(effort) if effort else []
        if system:
            ids += self.message("system", system)
        return ids + self.message("user", question) + self.turn_start(effort is not None)
