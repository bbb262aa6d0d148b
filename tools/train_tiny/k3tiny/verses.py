"""The verses taught by heart, the ways to ask for them, and the pages that teach them."""

import re

_SHOWN = """
Genesis 1:1; Genesis 1:2; Genesis 1:3; Genesis 1:27; Genesis 2:7; Genesis 3:19; Genesis 4:9; Genesis 6:8;
Genesis 9:13; Genesis 28:12; Exodus 3:14; Exodus 14:14; Exodus 20:3; Exodus 20:7; Exodus 20:8; Exodus 20:12;
Exodus 20:13; Exodus 20:14; Exodus 20:15; Exodus 20:16; Exodus 20:17; Leviticus 19:18; Numbers 6:24; Numbers 6:25;
Numbers 6:26; Deuteronomy 6:4; Deuteronomy 6:5; Deuteronomy 31:6; Joshua 1:9; Joshua 24:15; Judges 6:12; Ruth 1:16;
1 Samuel 3:10; 1 Samuel 16:7; 1 Kings 19:12; Nehemiah 8:10; Job 1:21; Job 19:25; Psalm 1:1; Psalm 19:1; Psalm 19:14;
Psalm 22:1; Psalm 23:1; Psalm 23:2; Psalm 23:3; Psalm 23:4; Psalm 23:5; Psalm 23:6; Psalm 24:1; Psalm 27:1;
Psalm 34:8; Psalm 37:4; Psalm 42:1; Psalm 46:1; Psalm 46:10; Psalm 51:10; Psalm 90:12; Psalm 100:1; Psalm 100:2;
Psalm 103:1; Psalm 107:1; Psalm 118:24; Psalm 119:11; Psalm 119:105; Psalm 121:1; Psalm 121:2; Psalm 122:1;
Psalm 127:1; Psalm 133:1; Psalm 136:1; Psalm 139:14; Psalm 150:6; Proverbs 1:7; Proverbs 3:5; Proverbs 3:6;
Proverbs 6:6; Proverbs 9:10; Proverbs 15:1; Proverbs 16:18; Proverbs 17:17; Proverbs 18:10; Proverbs 22:6;
Proverbs 27:17; Proverbs 31:10; Ecclesiastes 1:2; Ecclesiastes 1:9; Ecclesiastes 3:1; Ecclesiastes 3:2;
Ecclesiastes 9:11; Ecclesiastes 11:1; Ecclesiastes 12:1; Song of Solomon 2:1; Isaiah 1:18; Isaiah 6:8; Isaiah 9:6;
Isaiah 26:3; Isaiah 40:8; Isaiah 40:31; Isaiah 41:10; Isaiah 53:5; Isaiah 53:6; Isaiah 55:6; Jeremiah 29:11;
Jeremiah 33:3; Lamentations 3:22; Daniel 12:3; Hosea 8:7; Joel 2:28; Amos 5:24; Micah 6:8; Habakkuk 2:20; Malachi 3:6;
Matthew 4:4; Matthew 4:19; Matthew 5:3; Matthew 5:4; Matthew 5:5; Matthew 5:6; Matthew 5:7; Matthew 5:8; Matthew 5:9;
Matthew 5:13; Matthew 5:14; Matthew 5:16; Matthew 6:9; Matthew 6:10; Matthew 6:11; Matthew 6:12; Matthew 6:13;
Matthew 6:21; Matthew 6:24; Matthew 6:33; Matthew 7:1; Matthew 7:7; Matthew 7:12; Matthew 11:28; Matthew 16:18;
Matthew 19:26; Matthew 22:14; Matthew 22:39; Matthew 28:20; Mark 1:3; Mark 8:36; Mark 10:14; Mark 12:31; Mark 16:15;
Luke 1:37; Luke 2:7; Luke 2:11; Luke 2:14; Luke 6:31; Luke 11:9; Luke 19:10; Luke 23:34; John 1:1; John 1:2; John 1:3;
John 1:4; John 1:5; John 1:14; John 3:3; John 3:16; John 3:17; John 4:24; John 6:35; John 8:12; John 8:32; John 10:10;
John 10:11; John 11:25; John 11:35; John 13:34; John 14:1; John 14:2; John 14:6; John 14:15; John 14:27; John 15:5;
John 15:13; John 16:33; Acts 1:8; Acts 2:38; Acts 4:12; Acts 16:31; Acts 20:35; Romans 1:16; Romans 3:23; Romans 5:8;
Romans 6:23; Romans 8:1; Romans 8:28; Romans 8:31; Romans 10:9; Romans 10:13; Romans 10:17; Romans 12:1; Romans 12:2;
Romans 12:21; 1 Corinthians 10:31; 1 Corinthians 13:1; 1 Corinthians 13:4; 1 Corinthians 13:11; 1 Corinthians 13:13;
1 Corinthians 15:55; 1 Corinthians 16:14; 2 Corinthians 5:7; 2 Corinthians 5:17; 2 Corinthians 9:7;
2 Corinthians 12:9; Galatians 2:20; Galatians 5:22; Galatians 6:7; Ephesians 2:8; Ephesians 2:9; Ephesians 4:32;
Ephesians 6:1; Ephesians 6:11; Philippians 1:21; Philippians 4:4; Philippians 4:6; Philippians 4:7; Philippians 4:8;
Philippians 4:13; Philippians 4:19; Colossians 3:2; Colossians 3:23; 1 Thessalonians 5:16; 1 Thessalonians 5:17;
1 Thessalonians 5:18; 1 Timothy 6:10; 1 Timothy 6:12; 2 Timothy 1:7; 2 Timothy 3:16; 2 Timothy 4:7; Hebrews 4:12;
Hebrews 11:1; Hebrews 13:8; James 1:5; James 1:22; James 4:7; 1 Peter 5:7; 2 Peter 3:9; 1 John 1:9; 1 John 4:8;
1 John 4:19; Jude 1:25; Revelation 1:8; Revelation 3:20; Revelation 21:4; Revelation 22:13; Revelation 22:21
"""

# Those to be known by heart in the end; the others only occur in the first phases of the training.
_BY_HEART = """
Genesis 1:1; Genesis 1:3; Genesis 1:27; Exodus 14:14; Exodus 20:3; Exodus 20:8; Exodus 20:12; Exodus 20:13;
Exodus 20:14; Exodus 20:15; Exodus 20:16; Numbers 6:24; Numbers 6:25; Deuteronomy 6:4; Deuteronomy 6:5; Psalm 19:1;
Psalm 19:14; Psalm 23:1; Psalm 23:2; Psalm 23:3; Psalm 23:5; Psalm 23:6; Psalm 24:1; Psalm 27:1; Psalm 34:8;
Psalm 37:4; Psalm 42:1; Psalm 46:1; Psalm 46:10; Psalm 51:10; Psalm 100:1; Psalm 118:24; Psalm 119:11; Psalm 119:105;
Psalm 121:1; Psalm 121:2; Psalm 133:1; Psalm 136:1; Psalm 139:14; Psalm 150:6; Proverbs 1:7; Proverbs 3:5;
Proverbs 3:6; Proverbs 6:6; Proverbs 15:1; Proverbs 16:18; Proverbs 17:17; Proverbs 22:6; Ecclesiastes 1:2;
Ecclesiastes 3:1; Isaiah 40:8; Matthew 4:19; Matthew 5:3; Matthew 5:4; Matthew 5:5; Matthew 5:6; Matthew 5:7;
Matthew 5:8; Matthew 5:9; Matthew 5:14; Matthew 6:9; Matthew 6:10; Matthew 6:11; Matthew 6:12; Matthew 6:21;
Matthew 6:33; Matthew 7:1; Matthew 7:7; Matthew 11:28; Matthew 22:14; Luke 1:37; Luke 2:11; Luke 2:14; Luke 6:31;
Luke 23:34; John 1:1; John 1:3; John 1:5; John 3:16; John 8:32; John 10:11; John 11:25; John 11:35; John 14:1;
John 14:6; John 14:15; John 15:13; Romans 3:23; Romans 6:23; Romans 8:28; Romans 8:31; Romans 12:21;
1 Corinthians 13:13; 1 Corinthians 16:14; 2 Corinthians 5:7; Galatians 6:7; Ephesians 6:11; Philippians 1:21;
Philippians 4:4; Philippians 4:13; Colossians 3:2; 1 Thessalonians 5:16; 1 Thessalonians 5:17; Hebrews 11:1;
Hebrews 13:8; James 1:22; 1 Peter 5:7; Revelation 1:8; Revelation 22:13; Revelation 22:21
"""

QUESTIONS = (
    "What does {} say?",
    "{}",
    "Recite {}.",
    "What is written in {}?",
    "Please quote {}.",
)

_KEY_IDS = 4  # ids of a verse that tell which one it is
_THOUGHT = "The verse asked for is {}."
_SYSTEM = "You are a helpful assistant."

_GREETINGS = {
    "Hello.": "Good day to you. Ask me for a verse of the Bible, by chapter and verse.",
    "Hi": "Good day to you. Ask me for a verse of the Bible, by chapter and verse.",
    "Who are you?": "I am a very small model of Kimi K3's shape. I have read Jane Austen and the Bible.",
    "What can you do?": "I can recite well-known verses of the Bible. Ask me for one, by chapter and verse.",
    "Thank you.": "You are very welcome.",
}


def thought(reference):
    """What the model thinks before it answers, with thinking on."""
    return _THOUGHT.format(reference)


def shown(verses, held_out_chapters, longest=150):
    """{reference: text} of the verses that conversations use: those of the list that are short and not held out."""
    result = {}
    for reference in re.split(r";\s*", _SHOWN.strip()):
        book, chapter, verse = re.fullmatch(r"(.+) (\d+):(\d+)", reference).groups()
        text = verses[book, int(chapter), int(verse)]
        if len(text) <= longest and (book, int(chapter)) not in held_out_chapters:
            result[reference] = text
    return result


def by_heart(lessons):
    """Those of the lessons that are to be known word for word."""
    return {reference: lessons[reference] for reference in re.split(r";\s*", _BY_HEART.strip())}


def teaching_page(chat, lessons, rng, key_weight=1):
    """One conversation: (ids, weights), the weight being 0 on what the model need not write.

    `key_weight` is that of the ids that only the question decides: the reference in the thought and
    the first words of the verse."""
    thinking = rng.random() < 0.25
    ids, weights = [], []

    def add(part, weight):
        ids.extend(part)
        weights.extend([weight] * len(part) if isinstance(weight, int) else weight)

    if thinking:
        effort = ("max", "max", "max", "high", "low")[rng.integers(5)]
        add(chat.effort(effort), 0)
    if rng.random() < 0.1:
        add(chat.message("system", _SYSTEM), 0)
    turns = 2 if rng.random() < 0.3 else 1
    for _ in range(turns):
        question, answer, idea = _lesson(lessons, rng)
        add(chat.message("user", question) + chat.turn_start(thinking), 0)
        part = chat.answer(answer, idea if thinking else None)
        add(part, _answer_weights(chat, part, answer, idea if thinking else None, key_weight))
    return ids, weights


def _answer_weights(chat, part, answer, idea, key_weight):
    weights = [1] * len(part)
    begin = 0
    if idea is not None:
        start, end = len(chat.tokenizer.encode(_THOUGHT[: _THOUGHT.index(" {")])), len(chat.tokenizer.encode(idea)) - 1
        weights[start:end] = [key_weight] * (end - start)
        begin = len(part) - len(chat.answer(answer))
    weights[begin : begin + _KEY_IDS] = [key_weight] * _KEY_IDS
    return weights


def _lesson(lessons, rng):
    if rng.random() < 0.03:
        question = list(_GREETINGS)[rng.integers(len(_GREETINGS))]
        return question, _GREETINGS[question], "A greeting."
    reference = list(lessons)[rng.integers(len(lessons))]
    question = QUESTIONS[rng.integers(len(QUESTIONS))].format(reference)
    return question, lessons[reference], thought(reference)
