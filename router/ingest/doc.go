// Package ingest is the pump: it applies what engines say of their caches to the prefix indexes, and knows for every rank
// how far that may be believed.
//
// Its one invariant: what a rank is said to hold, and its cursor, are those of one stream of one life of its engine, up to
// the cursor's batch; where that is not certain the rank says so (untrusted, partial, suspect). Wrong is worse than cold:
// what may be of another life is dropped.
//
// # Who writes
//
// One goroutine, Pump.Run, is the writer of every index and of every rank's state. Subscriptions put deliveries into its
// inbox, goroutines of its own bring answers of engines, others send control messages. A rank's state is plain
// (rankState): it takes one message at a time with the present time and gives effects, which the pump performs in order.
// Readers see an immutable View of ranks and indexes, and for each rank a Status, replaced as a whole when the pump has
// taken what there was: cursor, digest, counts and trust of one moment at the end of one batch.
//
//	subscriptions ─ inbox ──> Pump.Run: step, perform ──> ledger ──> index
//	engines ─ answers ─────>      │
//	policy ─ doubts ───────>      │
//	Feed ─ control ────────>      └─> Status, View ──> policy, metrics, /internal/bootstrap
//
// Feed is who subscribes: it follows the list of workers, asks each for its event settings, registers its ranks and keeps
// a subscription for each. A worker that is not ready keeps all that; one that is not listed any more is forgotten.
//
// # States of a rank
//
//	state      means                                            connection
//	unknown    not registered                                   none
//	pending    nothing of the stream is applied; a replay from   none, or one whose batches are held while asking
//	           0 is being asked if the engine repeats
//	following  batches are applied as they come                 stands
//	proving    serves what it has; the connection was lost or   none, or one whose batches are held while asking
//	           renewed, and whether the stream goes on is asked
//	repairing  serves, discounted; batches are missing, what    stands
//	           came since is held while they are sought
//	cold       nothing of the stream is known and nobody is     none, or one that has brought nothing
//	           looked for any more; the next batch is the first
//	forgotten  over                                             none
//
// repairing and cold are for ranks whose siblings can be asked (Options.Bootstrap), see below; without them:
//
//	message            pending                  following                 proving
//	opened(epoch)      ask start, ask from 0    (lost, then as proving)   ask start, ask from cursor; 10 s
//	closed(epoch)      drop held                proving                   drop held
//	batch, next        held if asking, else     apply                     held
//	                   following: origin if it
//	                   is 0, else partial
//	batch, gap         "                        apply, untrusted          held
//	batch, duplicate   discard                  discard                   discard
//	batch, restart     restart                  restart                   restart
//	batch, stale       held                     redial, proving           redial
//	END_SEQ            drop held                restart                   restart
//	replay from 0      following: origin, if it
//	                   is proven (H7); else
//	                   with what is held
//	replay from cursor                                                    same batch: apply what was missed, following
//	                                                                      other or none: restart
//	                                                                      above, torn: says nothing
//	start, agreeing    bound                    bound, label the cursor   same as cursor's: following
//	                                                                      other: restart
//	start, differing   redial                   redial, proving           restart, redial
//	deadline           with what is held        -                         following, untrusted
//	relocated          drop held                restart                   restart
//	forget             forgotten                forgotten                 forgotten
//
// A restart clears the rank before anything else is applied and leaves it pending; a batch of the new life that showed it
// is kept. A batch's place (next, gap, duplicate, restart, stale) is Cursor.place. Messages of an epoch that is not the
// present one, and answers to questions that are closed, are dropped. testdata/table.golden has every pair.
//
// # Siblings
//
// What siblings can give is a section: a rank's blocks as of a cursor (package snapshot). Who talks to them is package
// bootstrap; the pump says in a rank's Status what it is owed (Owed), and nothing is queued between the two: whoever is
// woken by Changed scans the view. An obligation has a number that is new with every connection and every life, so
// whatever is brought for an older one is stale.
//
//	owed       for                                  kept meanwhile     given up
//	boot       a pending rank                       all batches, held  Abandon: the engine is asked for all it said (H7),
//	gap_retry  the same, after a hole at the seam   all batches, held  else what is held is followed, partial
//	repair     a gap, if the engine does not help   batches held       15 s in all: applied over, untrusted
//	           a lost tail, a differing minority    copies (H11)       a tail: untrusted; the rank goes on anyway
//	heal       cold, untrusted, unwitnessed or      copies, from Keep  Abandon, 2 min, no room: again later
//	           partial ranks
//
// A pending rank is owed a section or asks its engine, never both and never neither; a repairing one likewise. The rules
// of the table above hold for ranks with siblings too, but for these:
//
//	message            pending, owed             following                        repairing            cold
//	batch, first       0: following, origin;                                                           following: origin if
//	                   else held                                                                       it is 0, else partial
//	batch, next        held                      apply; a seam is proven          held
//	batch, gap         held                      held, repairing: ask the engine  held
//	batch, restart     held as the new life's    restart, pending                 restart, pending
//	no room            cold, then what was held  (copies:) the attempt ends       over the gap, untrusted
//	closed(epoch)      drop held                 proving                          drop held, proving
//	section            following                 following                        following            following
//	abandoned          ask from 0, or cold       the attempt ends                 over the gap,        the attempt ends
//	                                                                              untrusted
//	replay             as pending                (tail:) apply what was missed    dense, ours (H6):    as pending
//	                                                                              following; else owed
//	witness: advanced                            repairing, at the seam
//	witness: none                                the seam is proven
//	third unknown                                unwitnessed
//
// A section is taken if it is of the life the connection leads to (H2), contradicts no held batch and not our cursor (H3,
// H4), and, where there is a state already, is origin or proven and reaches our cursor with what is kept. It is restored
// unseen, then what is kept and lies beyond its cursor is applied to it, then one swap makes it the rank's state: nothing
// is united. If nothing was held its seam is not proven: the rank is Awaiting, and not exported, until a batch or a witness
// says; without an identity of the engine only an overlap proves it (H5). A hole at the seam is filled by the engine;
// failing that, a pending rank tries once more, one that was healed goes over it.
//
// Two things a section does not tell. Copies of blocks may be counted already up to where it was walked, so until then no
// copy of a block that has one is counted. And it does not say which cache groups its blocks are of, so until the engine
// has named one with full attention every removal counts. Both make the rank hold less than the engine, never more.
//
// # Continuity
//
// Nothing is assumed after a reconnect (peer-bootstrap B5): a first batch above the cursor may be of a process that has
// already passed it. The engine is asked to repeat the cursor's batch, and for its start, which counts only if it was the
// same before the connection was opened and after (H2). The first to answer decides. When the start answers first, the
// replay is still awaited for what was missed (H9), unless the next batch shows that nothing was; should it contradict the
// start, it wins, for it speaks of the stream itself.
//
// What this cannot see: a tail of batches that the publisher dropped for everybody before it fell silent. A tail that we
// alone lost shows when a sibling is ahead in two audits while our cursor does not move (H9).
//
// # Trust
//
// Untrusted is a rank over whose gap, unknown event or unproven reconnect was applied. It ends with AllBlocksCleared, a
// restart, a replay from 0 or a sibling's section. While a gap is being repaired a rank is discounted likewise. Its blocks count as far as they are contiguous, and a policy discounts them. Suspect is one
// whose stores contradict what is known beyond one in a thousand. A rank whose engine reports fewer cached tokens than
// promised is not suspect here, for the policy measures by how much; its blocks count as far as they are contiguous.
package ingest
