package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

var jsonSamples = []string{
	`{}`, `[]`, `""`, `0`, `-0.5e+10`, `null`, ` { "a" : [ 1 , { "b" : [ ] } ] } `, `{"a":1,"a":2}`,
	`{"stop":"×Δ°","x":"\ud83d"}`, "{\"a\":\"\xff\xfe\"}", `{"mo\u0064el":"m"}`, `[[[[]]]]`, `{"a":{}}`, `[{},{}]`,
	``, ` `, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `[1,]`, `[1 2]`, `{"a" 1}`, `{a:1}`, `{"a":1}}`,
	`01`, `1.`, `1e`, `-`, `tru`, `nul`, `"\x"`, `"\u12"`, "\"\n\"", `"open`, `{"a":1} x`, `[}`, `{]`, "\x00", `{"a":+1}`,
	`{"a":[1,{"b":2},"c",true,false,null,-1.5E-3]}`,
}

func scanAll(data []byte) error {
	_, err := members(data, func(_, _ []byte) {})
	return err
}

// FuzzTheScannerAcceptsExactlyWhatEncodingJSONAccepts compares with the dumb twin, and checks that members cut out
// the values the twin decodes.
func FuzzTheScannerAcceptsExactlyWhatEncodingJSONAccepts(f *testing.F) {
	for _, sample := range jsonSamples {
		f.Add([]byte(sample))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := scanAll(data)
		if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) >= maxJSONDepth {
			return // Here the two may differ: encoding/json allows 10,000 levels.
		}
		if valid := json.Valid(data); valid != (err == nil) {
			t.Fatalf("scanner: %v, encoding/json valid: %v, for %q", err, valid, data)
		}
		if err != nil {
			return
		}
		got := map[string]string{}
		object, _ := members(data, func(key, value []byte) { got[strings.ToValidUTF8(string(key), "\ufffd")] = string(value) })
		if !object {
			return
		}
		for _, value := range got {
			if !json.Valid([]byte(value)) {
				t.Fatalf("member value %q of %q is not JSON by itself", value, data)
			}
		}
		// readCall must cope with whatever is valid.
		_, _ = readCall(data, []string{"messages", "prompt"}, &tokenIDs{})
	})
}

func TestMembersCutsOutTheTopLevelValuesOnly(t *testing.T) {
	body := `{ "model" : "m" , "nested":{"model":"x"}, "mo\u0064el2":[1, 2] }`
	var got []string
	object, err := members([]byte(body), func(key, value []byte) { got = append(got, string(key)+"="+string(value)) })
	if err != nil || !object {
		t.Fatalf("object %v, err %v", object, err)
	}
	want := `model="m" nested={"model":"x"} model2=[1, 2]`
	if strings.Join(got, " ") != want {
		t.Fatalf("got %s, want %s", strings.Join(got, " "), want)
	}
}

func TestASyntaxErrorSaysWhere(t *testing.T) {
	for _, c := range []struct {
		body              string
		offset, line, col int
		what              string
	}{
		{"{\"a\": 1,\n \"b\" 2}", 14, 2, 6, "expected ':'"},
		{`{"a": tru}`, 6, 1, 7, "expected true"},
		{`{"a": "x`, 8, 1, 9, "but the body ends here"},
		{`{"a":1}}`, 7, 1, 8, "unexpected text"},
	} {
		err := scanAll([]byte(c.body))
		syntax, ok := errors.AsType[*SyntaxError](err)
		if !ok {
			t.Fatalf("%q: got %v, want a SyntaxError", c.body, err)
		}
		if syntax.Offset != c.offset || syntax.Line != c.line || syntax.Column != c.col || !strings.Contains(syntax.What, c.what) {
			t.Errorf("%q: got %+v, want offset %d line %d column %d %q", c.body, *syntax, c.offset, c.line, c.col, c.what)
		}
	}
}

func TestNestingIsBoundedBeforeItCostsAStack(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(`{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}")
	}
	if err := scanAll(nested(maxJSONDepth)); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if err := scanAll(nested(maxJSONDepth + 1)); err == nil || !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("past the limit: %v, want an error about nesting", err)
	}
	if err := scanAll(bytes.Repeat([]byte("["), 4<<20)); err == nil {
		t.Error("4 Mi opening brackets were accepted")
	}
}

func TestObjectsAndArraysNestedInEachOtherKeepTheirClosingBrackets(t *testing.T) {
	deep := strings.Repeat(`[{"k":`, 200) + "1" + strings.Repeat("}]", 200)
	if err := scanAll([]byte(deep)); err != nil {
		t.Errorf("valid nesting: %v", err)
	}
	if err := scanAll([]byte(strings.Replace(deep, "}]}]", "}]]}", 1))); err == nil {
		t.Error("swapped closing brackets were accepted")
	}
}
