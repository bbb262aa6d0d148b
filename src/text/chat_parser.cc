// Generated token ids to reasoning, answer and tool calls: one state machine over control ids.
#include "kimi_k3/chat_parser.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "kimi_k3/utf8.h"
#include "text/call_builder.h"
#include "text/python_text.h"
#include "text/tag_header.h"

namespace kimi_k3 {

class ChatParser::Machine {
 public:
  Machine(const Tokenizer& tokenizer, Channel start) : tokenizer_(tokenizer) {
    if (start == Channel::kThink) place_ = Place::kThink;
    if (start == Channel::kResponse) place_ = Place::kResponse;
    kept_place_ = place_;
  }

  ChatDelta Append(TokenId id) {
    const std::string_view bytes = tokenizer_.TokenBytes(id);
    if (place_ != Place::kEnded) {
      const bool is_stop = IsStop(id);
      Take(id, bytes);
      ++taken_ids_;
      if (!is_stop) KeepIds();
    }
    return std::exchange(delta_, {});
  }

  // A tag that was not finished is dropped.
  ChatDelta Finish() {
    header_.reset();
    EndText();
    return std::exchange(delta_, {});
  }

  bool ended() const { return place_ == Place::kEnded; }

  FinishReason finish_reason() const {
    if (!ended()) return FinishReason::kLength;
    return has_calls_ ? FinishReason::kToolCalls : FinishReason::kStop;
  }

  // How many of the ids so far a transcript keeps: without a stop token, an unfinished tag, a call
  // that was cut off, or a tools channel without a call.
  size_t kept_ids() const { return kept_ids_; }

  // The tags that are open after the kept ids, the innermost first.
  std::vector<std::string_view> OpenTags() const {
    if (kept_place_ == Place::kThink) return {"think", "message"};
    if (kept_place_ == Place::kResponse) return {"response", "message"};
    if (kept_place_ == Place::kTools) return {"tools", "message"};
    if (kept_place_ == Place::kBetween) return {"message"};
    return {};
  }

  Channel channel() const {
    if (place_ == Place::kThink) return Channel::kThink;
    return place_ == Place::kResponse ? Channel::kResponse : Channel::kNone;
  }

 private:
  // Where the next text belongs. kBetween, kTools and kCall are gaps, in which the grammar has no
  // text; the places after kCall lie inside a call.
  enum class Place { kThink, kResponse, kBetween, kTools, kCall, kArgument, kJson, kEnded };

  // A tag being read.
  struct Header {
    bool is_open = false;  // opens, or closes
    std::string literal;   // as it came, the marker included
    size_t marker_bytes = 0;
  };

  bool IsGap() const {
    return place_ == Place::kBetween || place_ == Place::kTools || place_ == Place::kCall;
  }
  bool IsInsideValue() const { return place_ == Place::kArgument || place_ == Place::kJson; }
  bool IsInsideCall() const { return place_ == Place::kCall || IsInsideValue(); }

  bool IsStop(TokenId id) const {
    const std::vector<TokenId>& stops = tokenizer_.StopTokens();
    return std::find(stops.begin(), stops.end(), id) != stops.end();
  }

  void KeepIds() {
    if (header_ || IsInsideCall()) return;
    if (place_ == Place::kTools && !tools_have_call_) return;
    kept_ids_ = taken_ids_;
    kept_place_ = place_;
  }

  void Take(TokenId id, std::string_view bytes) {
    const ControlTokens& control = tokenizer_.control_tokens();
    const bool is_marker = id == control.open || id == control.close;
    if (is_marker || id == control.end_of_message) HeaderIsText();
    if (IsStop(id)) {
      header_.reset();
      EndTurn();
    } else if (is_marker) {
      header_ = Header{id == control.open, std::string(bytes), bytes.size()};
    } else if (id == control.sep && header_) {
      TakeTag();
    } else if (header_) {
      header_->literal += bytes;
    } else if (id != control.sep || !IsGap()) {
      Text(bytes);
    }
  }

  // Another control token inside a tag: it was none.
  void HeaderIsText() {
    if (!header_) return;
    const Header header = *std::exchange(header_, std::nullopt);
    Text(header.literal);
    KeepIds();
  }

  void TakeTag() {
    const Header header = *std::exchange(header_, std::nullopt);
    const text::TagHeader tag =
        text::ParseTagHeader(std::string_view(header.literal).substr(header.marker_bytes));
    const bool is_structure = header.is_open ? Open(tag) : Close(tag.tag);
    if (!is_structure && !IsGap()) Text(header.literal + "<|sep|>");
  }

  // Whether the tag is structure at this place; if not, it is text inside a channel or value, and
  // nothing in a gap.
  bool Open(const text::TagHeader& tag) {
    if (tag.tag == "think") return OpenChannel(Place::kThink);
    if (tag.tag == "response") return OpenChannel(Place::kResponse);
    if (tag.tag == "tools") return OpenTools();
    if (tag.tag == "call") return OpenCall(tag);
    if (tag.tag == "argument") return OpenArgument(tag);
    if (tag.tag == "json") return OpenJson();
    return false;
  }

  bool OpenChannel(Place channel) {
    if (place_ == channel) return !has_text_;  // an echo of the prompt's opener
    if (IsInsideValue()) return false;
    Enter(channel);
    return true;
  }

  bool OpenTools() {
    if (IsInsideValue()) return false;
    if (place_ == Place::kTools) return true;
    Enter(Place::kTools);
    tools_have_call_ = false;
    return true;
  }

  // A call that is still open is cut off and does not count.
  bool OpenCall(const text::TagHeader& tag) {
    if (place_ == Place::kThink || place_ == Place::kResponse) return false;
    if (place_ == Place::kBetween) tools_have_call_ = false;
    Enter(Place::kCall);
    call_.emplace(tag.Attribute("tool").value_or(""));
    return true;
  }

  bool OpenArgument(const text::TagHeader& tag) {
    if (place_ == Place::kArgument) CloseValue();
    if (place_ != Place::kCall) return false;
    Enter(Place::kArgument);
    key_ = tag.Attribute("key").value_or("");
    type_ = tag.Attribute("type");
    return true;
  }

  bool OpenJson() {
    if (place_ != Place::kCall) return false;
    Enter(Place::kJson);
    return true;
  }

  // As Open. A known tag that is not open closes nothing and is dropped, except inside a value.
  bool Close(std::string_view tag) {
    if (tag.empty()) tag = InnermostTag();
    if (tag == "message") {
      EndTurn();
    } else if (tag == "tools") {
      if (place_ == Place::kTools || IsInsideCall()) Enter(Place::kBetween);
    } else if (tag == "call") {
      if (IsInsideCall()) CloseCall();
    } else if (tag == "argument" || tag == "json") {
      const Place value = tag == "json" ? Place::kJson : Place::kArgument;
      if (place_ == value) {
        CloseValue();
      } else {
        return !IsInsideValue();
      }
    } else if (tag == "think" || tag == "response") {
      const Place channel = tag == "think" ? Place::kThink : Place::kResponse;
      if (place_ == channel) Enter(Place::kBetween);
      return !IsInsideValue();
    } else {
      return false;
    }
    return true;
  }

  // What a closing tag without a name closes.
  std::string_view InnermostTag() const {
    switch (place_) {
      case Place::kThink:
        return "think";
      case Place::kResponse:
        return "response";
      case Place::kTools:
        return "tools";
      case Place::kCall:
        return "call";
      case Place::kArgument:
        return "argument";
      case Place::kJson:
        return "json";
      case Place::kBetween:
      case Place::kEnded:
        break;
    }
    return "message";
  }

  void CloseValue() {
    if (place_ == Place::kJson) {
      call_->SetJsonBlock(value_);
    } else {
      call_->AddArgument(std::move(key_), text::ArgumentJson(value_, type_));
    }
    Enter(Place::kCall);
  }

  void CloseCall() {
    if (IsInsideValue()) CloseValue();
    if (auto call = call_->Build()) {
      delta_.tool_calls.push_back(std::move(*call));
      has_calls_ = true;
      tools_have_call_ = true;
    }
    Enter(Place::kTools);
  }

  void EndTurn() { Enter(Place::kEnded); }

  void Enter(Place place) {
    EndText();
    place_ = place;
    has_text_ = false;
    value_.clear();
  }

  void Text(std::string_view bytes) {
    has_text_ = true;
    if (IsInsideValue()) {
      value_ += bytes;
    } else {
      Show(stream_.Append(bytes));
    }
  }

  // The end of a channel or gap.
  void EndText() {
    Show(stream_.Flush());
    gap_space_.clear();
    gap_has_text_ = false;
  }

  void Show(const std::string& text) {
    if (place_ == Place::kThink) {
      delta_.reasoning += text;
    } else if (place_ == Place::kResponse) {
      delta_.content += text;
    } else if (gap_has_text_ || !text::IsBlank(text)) {
      delta_.content += gap_space_ + text;
      gap_space_.clear();
      gap_has_text_ = true;
    } else {
      gap_space_ += text;
    }
  }

  const Tokenizer& tokenizer_;
  Place place_ = Place::kBetween;
  ChatDelta delta_;               // of the token being taken
  std::optional<Header> header_;  // a tag that has begun
  Utf8Stream stream_;             // text of the present channel or gap
  bool has_text_ = false;         // of the present place
  std::string gap_space_;         // white space of a gap, shown only if text follows in it
  bool gap_has_text_ = false;
  std::optional<text::CallBuilder> call_;
  std::string key_;  // of the argument
  std::optional<std::string> type_;
  std::string value_;  // bytes of the argument or json block
  bool has_calls_ = false;
  bool tools_have_call_ = false;  // the tools channel that is open
  size_t taken_ids_ = 0;
  size_t kept_ids_ = 0;
  Place kept_place_ = Place::kBetween;
};

ChatParser::ChatParser(const Tokenizer& tokenizer, Channel start)
    : machine_(std::make_unique<Machine>(tokenizer, start)) {}
ChatParser::ChatParser(ChatParser&&) noexcept = default;
ChatParser& ChatParser::operator=(ChatParser&&) noexcept = default;
ChatParser::~ChatParser() = default;

ChatDelta ChatParser::Append(TokenId id) { return machine_->Append(id); }
ChatDelta ChatParser::Finish() { return machine_->Finish(); }
bool ChatParser::ended() const { return machine_->ended(); }
FinishReason ChatParser::finish_reason() const { return machine_->finish_reason(); }
Channel ChatParser::channel() const { return machine_->channel(); }

std::vector<TokenId> ChatParser::CompleteTurn(const Tokenizer& tokenizer,
                                              std::span<const TokenId> ids, Channel start) {
  Machine machine(tokenizer, start);
  for (const TokenId id : ids) machine.Append(id);
  const ControlTokens& control = tokenizer.control_tokens();
  const std::span<const TokenId> kept = ids.first(machine.kept_ids());
  std::vector<TokenId> turn(kept.begin(), kept.end());
  for (const std::string_view tag : machine.OpenTags()) {
    turn.push_back(control.close);
    tokenizer.Encode(tag, SpecialText::kPlain, turn);
    turn.push_back(control.sep);
  }
  turn.push_back(control.end_of_message);
  return turn;
}

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kToolCalls:
      return "tool_calls";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kStop:
      break;
  }
  return "stop";
}

ParsedTurn ParseTurn(const Tokenizer& tokenizer, std::span<const TokenId> ids, Channel start) {
  ChatParser parser(tokenizer, start);
  ParsedTurn turn;
  const auto add = [&turn](ChatDelta delta) {
    turn.reasoning += delta.reasoning;
    turn.content += delta.content;
    std::move(delta.tool_calls.begin(), delta.tool_calls.end(),
              std::back_inserter(turn.tool_calls));
  };
  for (const TokenId id : ids) add(parser.Append(id));
  add(parser.Finish());
  turn.finish_reason = parser.finish_reason();
  return turn;
}

}  // namespace kimi_k3
