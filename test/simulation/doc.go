// Package simulation replays traces in virtual time through the router's real rooms and engine doubles, without
// sockets: real policies over real ranks with their loads, real indexes fed by what the doubles cache.
//
// Replay runs inside a testing/synctest bubble, so that half an hour of traffic takes seconds. What lies between an
// engine's cache and an index is a Wire: Direct applies each step at once; a wire that encodes batches and feeds the
// pump can take its place, with losses, delays and restarts.
//
// Runs are reproducible but for what happens at the same instant of virtual time: those goroutines run in any order.
package simulation
