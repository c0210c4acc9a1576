// Package prober reads what the routers of a fleet say of themselves at GET /internal/bootstrap.
//
// Its invariant: an answer belongs to one container. It is kept under pod UID and container id, refused when it names
// another pod, and gone as soon as nobody tracks that container; a restarted container has not answered, although pod
// and address are the same. A failed read erases nothing: it only starts the clock of silence.
//
// Who is asked how often:
//
//	not settled, or silent          every second (settlingInterval), after a minute of silence every 10 s
//	settled, the fleet's scout      every 10 s (scoutInterval)
//	settled, all others             every 5 min (settledInterval)
//
// The scout is one settled replica of each fleet. It notices workers that come and go while nothing else moves: engines
// are not the operator's objects, so no watch tells of them. When its answer changes, the whole fleet is read again at
// once. Ten seconds are the most a condition lags behind; a thousand fleets cost a hundred small requests a second, and
// none to the API server.
//
// The owner of a fleet is told (Options.Wake) only when an answer changed in a way that may change a plan or a
// condition, never because time passed. State is guarded by one mutex; one loop starts the reads, at most maxConcurrent
// at a time, each in a goroutine of its own that Run waits for.
package prober
