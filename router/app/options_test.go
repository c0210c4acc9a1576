package app

import (
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func parse(t *testing.T, args ...string) (Options, error) {
	t.Helper()
	var o Options
	parser, err := kong.New(&o, append(Grammar(), kong.Exit(func(int) { t.Error("the parser exited") }))...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return o, err
}

func TestEverythingWrongIsReportedAtOnce(t *testing.T) {
	err := Options{
		Worker: []string{"ftp://x", "UPPER=http://y"}, ServiceDiscovery: true, Port: 9400, Policy: "best",
		RequestTimeoutSecs: 100, StaleRequestTimeoutSecs: 50, CBCoolDownSecs: -3, MaxConcurrentRequests: -1,
		MaxBodyBytes: -1, LogLevel: "loud", LogFormat: "xml", AdminPort: 70000,
	}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{
		"ftp://x", "UPPER", "needs --selector", "needs --service-discovery-namespace", "--admin-port 70000", "best",
		"--stale-request-timeout-secs 50 is below --request-timeout-secs 100", "--cb-cool-down-secs -3",
		"--max-concurrent-requests -1", "--max-body-bytes -1", "loud", "xml",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not mention %q:\n%v", part, err)
		}
	}
}

func TestEqualPortsAreRefusedOnlyOnOverlappingAddresses(t *testing.T) {
	for _, c := range []struct {
		host, admin string
		refused     bool
	}{
		{"0.0.0.0", "0.0.0.0", true}, {"0.0.0.0", "127.0.0.1", true}, {"127.0.0.1", "::", true},
		{"127.0.0.1", "127.0.0.1", true}, {"127.0.0.1", "127.0.0.2", false},
	} {
		err := Options{Worker: []string{"http://x"}, Host: c.host, AdminHost: c.admin, Port: 7000, AdminPort: 7000}.Validate()
		if (err != nil) != c.refused {
			t.Errorf("%s and %s: %v", c.host, c.admin, err)
		}
		if c.refused && !strings.Contains(err.Error(), "need different ports") {
			t.Errorf("%s and %s: %v", c.host, c.admin, err)
		}
	}
}

func TestNoSourceOfWorkersSaysWhatToDo(t *testing.T) {
	if err := (Options{}).Validate(); err == nil || !strings.Contains(err.Error(), "--worker URL") {
		t.Errorf("got %v", err)
	}
	if err := (Options{Worker: []string{"http://x"}, Selector: []string{"a=b"}}).Validate(); err == nil {
		t.Error("a selector without discovery was accepted")
	}
}

func TestFlagsReadSelectorsAndWorkersWhole(t *testing.T) {
	o, err := parse(t, "--worker", "a=http://x:1", "--worker-urls=http://y:2", "--service-discovery",
		"--service-discovery-namespace=ns", "--selector", "app in (a,b),tier!=test", "--selector=x=y")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a=http://x:1", "http://y:2"}; !reflect.DeepEqual(o.Worker, want) {
		t.Errorf("workers %q, want %q", o.Worker, want)
	}
	if want := []string{"app in (a,b),tier!=test", "x=y"}; !reflect.DeepEqual(o.Selector, want) {
		t.Errorf("selectors %q, want %q", o.Selector, want)
	}
}

func TestTheZeroValueMeansTheDefaultsOfTheFlags(t *testing.T) {
	parsed, err := parse(t, "--worker", "http://x")
	if err != nil {
		t.Fatal(err)
	}
	zero := Options{Worker: []string{"http://x"}}.withDefaults()
	a, b, alone := reflect.ValueOf(parsed.withDefaults()), reflect.ValueOf(zero), reflect.ValueOf(parsed)
	compared := 0
	for _, field := range reflect.VisibleFields(a.Type()) {
		if field.Tag.Get("name") == "" {
			continue
		}
		compared++
		flag, means, tag := a.FieldByIndex(field.Index), b.FieldByIndex(field.Index), alone.FieldByIndex(field.Index)
		if !reflect.DeepEqual(flag.Interface(), means.Interface()) {
			t.Errorf("%s: flag default %v, zero value means %v", field.Name, flag, means)
		}
		if field.Tag.Get("default") != "" && !reflect.DeepEqual(tag.Interface(), means.Interface()) {
			t.Errorf("%s: the tag says %v, withDefaults %v", field.Name, tag, means)
		}
	}
	if compared < 40 {
		t.Errorf("%d flags were compared", compared)
	}
}

func TestTheEnvironmentNamesNamespaceAndPod(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "ns")
	t.Setenv("POD_UID", "uid-1")
	t.Setenv("ROUTERFLEET_REVISION", "rev-1")
	t.Setenv("ROUTER_MODEL_ID", "m")
	o, err := parse(t, "--service-discovery", "--selector=app=engine")
	if err != nil {
		t.Fatal(err)
	}
	if o.ServiceDiscoveryNamespace != "ns" || o.PodUID != "uid-1" || o.Revision != "rev-1" || o.ModelID != "m" {
		t.Errorf("got %+v", o)
	}
}
