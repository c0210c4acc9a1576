// Package simulation replays traces in virtual time through the router's real rooms and engine doubles, without
// sockets: real policies over real ranks with their loads, real indexes fed by what the doubles cache.
//
// Replay runs inside a testing/synctest bubble, so that half an hour of traffic takes seconds. What lies between an engine's
// cache and an index is a Wire: Direct applies each step at once, which is the best a router can know. Pump takes the
// router's own way: bytes of an engine's dialect, decoder, inbox, pump, and the pump's view as the policy reads it.
//
// Runs are reproducible but for what happens at the same instant of virtual time: those goroutines run in any order.
package simulation
