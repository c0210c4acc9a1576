package tokenizer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestDecodeUndoesEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		if got := Decode(Encode(text)); got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
	})
}

func TestTokensOfAPrefixAreAPrefixOfTheTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		if head := Encode(text[:cut]); !slices.Equal(head, Encode(text)[:len(head)]) {
			t.Fatalf("the tokens of %q do not open those of %q", text[:cut], text)
		}
	})
}

func TestTheNextTurnOfAChatExtendsPromptAndAnswer(t *testing.T) {
	turn := []Message{{Role: "system", Content: "be brief"}, {Role: "user", Content: "hello"}}
	answer := "hi there"
	first := append(Chat(turn), Encode(answer)...)
	second := Chat(append(turn, Message{Role: "assistant", Content: answer}, Message{Role: "user", Content: "more"}))
	if !slices.Equal(second[:len(first)], first) {
		t.Errorf("the second turn does not begin with the first prompt and its answer")
	}
}

// The ids are promised to be stable: tests elsewhere hold prompts made of them.
func TestTheTemplateIsStable(t *testing.T) {
	got := Chat([]Message{{Role: "user", Content: "é"}})
	want := []uint32{256, 'u', 's', 'e', 'r', '\n', 0xc3, 0xa9, 257, '\n', 256,
		'a', 's', 's', 'i', 's', 't', 'a', 'n', 't', '\n'}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestIdsThatAreNoByteHaveNoText(t *testing.T) {
	if got := Decode([]uint32{'a', MessageEnd, 70_000, 'b'}); got != "ab" {
		t.Errorf("got %q, want %q", got, "ab")
	}
}
