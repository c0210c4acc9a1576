// Package component tests the whole router in one process over loopback: flags' options in, HTTP out, with engines
// that are scripted by each test, with the engine double, and with the official OpenAI client.
//
// The numbered tests are the reported faults of other products that the router must not share; the number is that of
// the case list the project started from, the comment names the report.
package component
