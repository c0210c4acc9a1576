// Package models says which models a router serves: by which names requests ask for them, which workers serve each, with
// which tokenizer its prompts are read, and how a name is divided between models.
//
// Its invariant: a Set is immutable, and every question to it is answered alike on every replica that was given the same
// file. The zero of *Set, nil, is the set of a router without a file: it knows no name, and every name stands for itself.
package models
