package signed

import "time"

const (
	// Window is how far a signature's time may be from the receiver's clock, either way: rule B1.
	Window = 60 * time.Second
	// DefaultMaxBody bounds the body of a signed request or answer in bytes. Internal documents are small; what is
	// large streams and is signed in its trailer.
	DefaultMaxBody = 1 << 20
	// maxHeaderBytes bounds the header's value: version, id, 20 digits of time and 64 of signature need 97.
	maxHeaderBytes = 128
	// maxTokenBytes bounds one token file; minTokenBytes keeps out tokens that could be guessed from an answer.
	maxTokenBytes = 4096
	minTokenBytes = 16
)
