//go:build !linux

package index

// adviseHuge asks for huge pages where an operating system can be asked.
func adviseHuge([]page) {}
