package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/model"
	"github.com/routerfleet/routerfleet/test/data/toymodel"
)

func TestALongChatIsMeasured(t *testing.T) {
	dir := t.TempDir()
	if err := toymodel.Write(dir, toymodel.Plain); err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(model.Files{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	var f figures
	if err := f.long(m, time.Microsecond); err != nil {
		t.Fatal(err)
	}
	if f.Tokens < chatTokens || f.Turns < 3 || f.Long <= 0 || f.Whole <= 0 {
		t.Errorf("%+v", f)
	}
	f.Row.Name = "toy"
	if text := markdown([]figures{f}); !strings.Contains(text, "| toy |") {
		t.Errorf("%s", text)
	}
}

func TestMessagesAreJSONOfTheirRole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for turn, want := range []string{"system", "assistant", "user"} {
		if got := message(r, turn); !strings.HasPrefix(got, `{"role":"`+want+`","content":"`) {
			t.Errorf("turn %d: %.60s", turn, got)
		}
	}
}
