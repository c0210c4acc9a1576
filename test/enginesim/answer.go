package enginesim

// Answer returns n tokens that depend only on the prompt and on choice, the
// index among several answers to it: words of lower-case letters, one byte a
// token (package tokenizer). The same question gets the same answer from every
// engine.
func Answer(prompt []uint32, choice, n int) []uint32 {
	state := uint64(choice) + 1
	for _, token := range prompt {
		state = mix(state ^ uint64(token))
	}
	tokens := make([]uint32, n)
	for i := range tokens {
		draw := mix(state + uint64(i))
		tokens[i] = 'a' + uint32(draw%26)
		if i > 0 && i < n-1 && tokens[i-1] != ' ' && draw>>32%5 == 0 { // words of five letters or so
			tokens[i] = ' '
		}
	}
	return tokens
}

// mix is splitmix64's output function (Steele, Lea, Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
