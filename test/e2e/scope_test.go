//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
)

const (
	// testTimeout is the longest a single test may take, its cleanup apart.
	testTimeout = 6 * time.Minute
	// settleTimeout is what anything in the cluster gets to come true on two busy cores. Promises with
	// a number of their own are measured, not awaited with this.
	settleTimeout = 90 * time.Second
	// pollPeriod is the time between two looks of a wait.
	pollPeriod = 150 * time.Millisecond
)

// scope is one test and its namespace.
type scope struct {
	*testing.T
	*environment
	ctx       context.Context
	namespace string
}

// newScope makes a namespace that enforces restricted pod security. It is deleted when the test ends.
func newScope(t *testing.T) *scope {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespaceName(t.Name()),
		Labels: map[string]string{
			"pod-security.kubernetes.io/enforce": "restricted",
			"routerfleet.io/e2e":                 "true",
		},
	}}
	if err := env.client.Create(ctx, namespace); err != nil {
		t.Fatalf("create namespace %s: %v", namespace.Name, err)
	}
	s := &scope{T: t, environment: env, ctx: ctx, namespace: namespace.Name}
	t.Cleanup(func() { s.end(namespace) })
	return s
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// namespaceName shortens a test's name to a DNS label that is not taken by an earlier run.
func namespaceName(test string) string {
	name := notInNames.ReplaceAllString(strings.ToLower(strings.TrimPrefix(test, "Test")), "-")
	if len(name) > 40 {
		name = name[:40]
	}
	return fmt.Sprintf("e2e-%s-%s", strings.Trim(name, "-"), utilrand.String(5))
}

// end tells what the namespace looked like if the test failed, and removes it. Nobody waits for the
// removal: it costs the next test nothing and a graceful router takes its time.
func (s *scope) end(namespace *corev1.Namespace) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if s.Failed() {
		s.dump(ctx)
		if s.keep {
			s.Logf("E2E_KEEP is set: namespace %s is left for you", s.namespace)
			return
		}
	}
	if err := s.client.Delete(ctx, namespace); err != nil {
		s.Errorf("delete namespace %s: %v", s.namespace, err)
	}
}

// in is the scope as a subtest uses it: what fails, fails the subtest.
func (s *scope) in(t *testing.T) *scope {
	sub := *s
	sub.T = t
	return &sub
}

// kubectl runs kubectl in the namespace of the test.
func (s *scope) kubectl(args ...string) (string, error) {
	return s.Kubectl(s.ctx, append([]string{"-n", s.namespace}, args...)...)
}

// mustKubectl is kubectl that may not fail.
func (s *scope) mustKubectl(args ...string) string {
	s.Helper()
	out, err := s.kubectl(args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// apply hands a manifest to `kubectl apply --server-side`, as a user would.
func (s *scope) apply(manifest string) error {
	_, err := s.KubectlWith(s.ctx, manifest, "-n", s.namespace, "apply", "--server-side", "-f", "-")
	return err
}

// eventually looks until check returns nil, and fails the test with its last answer after the timeout.
// It returns how long it took.
func (s *scope) eventually(timeout time.Duration, what string, check func() error) time.Duration {
	s.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return time.Since(start)
		}
		select {
		case <-ctx.Done():
			s.Fatalf("%s: not after %s: %v", what, time.Since(start).Round(time.Millisecond), err)
		case <-tick.C:
		}
	}
}

// await is eventually with the usual timeout.
func (s *scope) await(what string, check func() error) time.Duration {
	s.Helper()
	return s.eventually(settleTimeout, what, check)
}

// consistently looks for the whole duration and fails at the first answer that is not nil.
func (s *scope) consistently(duration time.Duration, what string, check func() error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, duration)
	defer cancel()
	start := time.Now()
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		if err := check(); err != nil {
			s.Fatalf("%s: no longer after %s: %v", what, time.Since(start).Round(time.Millisecond), err)
		}
		select {
		case <-ctx.Done():
			if s.ctx.Err() != nil {
				s.Fatalf("%s: the test ran out of time", what)
			}
			return
		case <-tick.C:
		}
	}
}

// all joins checks: nil if each is.
func all(checks ...error) error { return errors.Join(checks...) }

// same is nil if got is want, and says what was compared otherwise.
func same[T comparable](what string, got, want T) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v", what, got, want)
}
