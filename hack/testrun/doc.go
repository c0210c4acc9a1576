// Command testrun runs every test of the project and says what each stage cost.
//
//	go run ./hack/testrun               everything, what "make test" and .ci/run call
//	go run ./hack/testrun unit race     only these stages and what they need
//	go run ./hack/testrun --list        the stages in order, with one line each
//
// Stages run in two lanes. The builds lane starts at second 0 with the longest
// job there is, the Kubernetes binaries, and goes on to the images and the
// linter; the tests lane runs whatever needs no build first and waits when it
// reaches a stage that does. One local cluster serves all end-to-end tests and
// is taken down whatever happens, also after an interrupt.
//
// A stage that ran no test at all has failed: a suite that skips itself is not a
// suite that passes. A stage whose needs failed counts as failed too, and the
// others go on, so that one run tells as much as it can. Every stage logs to
// bin/test-logs/STAGE.log; the end of a failed stage's log is printed. The last
// line reads "N passed, N failed" and the exit code is 1 when N failed is not 0.
package main
