from headwise.experiments.words import repeated, split_words, vocabulary


def test_words_are_known_by_what_they_say():
    sentence = "The charge, she said, DON'T exceed: the mother-in-law\u2019s refund!"
    words = split_words(sentence)
    assert [word.identity for word in words] == [
        "the", "charge", "she", "said", "don't", "exceed", "the", "mother-in-law\u2019s", "refund",
    ]  # fmt: skip
    assert all(sentence[word.start : word.stop].lower() == word.identity for word in words)


def test_combining_marks_do_not_end_a_word():
    decomposed = (
        "cafe\u0301 \u0939\u093f\u0928\u094d\u0926\u0940 bites"  # cafe with an accent, the word Hindi
    )
    assert len(split_words(decomposed)) == 3


def test_vocabulary_keeps_the_order_of_first_appearance():
    assert vocabulary(split_words("b a b"), split_words("c a")) == ["b", "a", "c"]


def test_repeated_words_are_found_in_either_sentence():
    assert repeated(split_words("a b a"), split_words("c c b")) == ["a", "c"]
    assert repeated(split_words("a b"), split_words("b a")) == []
