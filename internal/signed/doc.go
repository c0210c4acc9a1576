// Package signed signs and checks the internal calls of a fleet: between replicas, and from the operator to them.
//
// # Request
//
// A request carries
//
//	X-RouterFleet-Signature: v1 <key id> <unix time> <hex>
//
// where key id is the first 8 hex digits of SHA-256 of the token, unix time is the sender's clock in seconds, and
// hex is HMAC-SHA256, keyed with the token, over these lines, each ended by \n except the last:
//
//	routerfleet request v1
//	<method>
//	<path and query, exactly as on the request line>
//	<host, lower case, as in the Host header>
//	<unix time>
//	<hex SHA-256 of the body; of nothing when there is none>
//
// Authorization stays the caller's.
//
// # Answer
//
// An answer carries the same header with the time of the request, over
//
//	routerfleet answer v1
//	<the request's header value>
//	<status code, three digits>
//	<hex SHA-256 of the body>
//
// so a pod that merely wears the Service's labels cannot answer in a replica's name, and an answer cannot be moved
// to another request.
//
// # Rules
//
// A time more than Window from the receiver's clock is refused with both clocks, after the signature itself was
// found good: a stranger learns nothing, an operator learns whose clock is wrong. There is no nonce, so within the
// window a call can be replayed: every internal call must be idempotent.
//
// Two tokens are valid at a time. The first of a Keyring signs, all are accepted. While a rotation spreads, a
// receiver may not know the new token yet and answers unknown_key; Transport then tries the next key.
//
// Status codes: 401 for a missing or bad signature, an unknown key and clock skew; 403 for a caller who is known
// but not allowed. GET and HEAD also take "Authorization: Bearer <token>" with the admin or view token; such
// answers are not signed.
//
// Test vectors are in testdata/vectors.json.
package signed
