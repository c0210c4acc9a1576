// Package controllers reconciles RouterFleets: observe, plan, apply, report, one file a step.
//
// Its invariant: the objects are the memory. What the operator keeps for itself (intents sent, statuses written, tokens
// read, answers of routers) saves requests or restarts a clock when lost, and is never asked what is true. An operator
// that dies after any single write is continued by the next one from what the API server shows.
//
// # One reconcile
//
//   - observe reads the fleet, its ReplicaSets, pods and ControllerRevisions from the cache, and the routers' answers
//     from the prober. Pods count by their controller's uid, never by labels.
//   - plan renders the revision the spec asks for and asks rollout.Plan. When the decision would write a ReplicaSet, or
//     say Complete for the first time, everything is read again from the API server and planned anew; only an equal
//     plan is carried out.
//   - apply brings the steady children to their intent, keeps tokens and revisions, and carries out the decision. An
//     error of one child stops no other.
//   - report derives the status anew and writes it once, if it differs.
//
// # What is written how
//
// Steady children and ControllerRevisions are applied server-side, and only when the intent or the object changed. An
// object of a child's name that the fleet does not control is left alone and reported. ReplicaSets are created with a
// POST, so that nothing can be applied onto an existing one; they retire by one merge patch of replicas 0 with uid and
// resourceVersion, and are deleted (uid) when no pod names them any more. The stable revision is an annotation on its
// ControllerRevision. Secrets are read from the API server at most once a minute a fleet, and never cached.
package controllers
