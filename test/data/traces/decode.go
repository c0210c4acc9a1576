package traces

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Request is one request of a trace.
type Request struct {
	At           time.Duration // since the start of the trace
	InputLength  int           // tokens of the prompt
	OutputLength int           // tokens of the answer
	Blocks       []uint32      // ids of the prompt's blocks, ceil(InputLength/BlockSize) of them
}

// line is a request as the file has it.
type line struct {
	Timestamp    int64   `json:"timestamp"` // milliseconds
	InputLength  int64   `json:"input_length"`
	OutputLength int64   `json:"output_length"`
	HashIDs      []int64 `json:"hash_ids"`
}

// Decode reads a gzipped trace of JSON lines. Every number is checked against
// limits.go; an error names the line.
func Decode(r io.Reader) ([]Request, error) { return decode(r, MaxUnpackedBytes) }

func decode(r io.Reader, maxUnpacked int64) ([]Request, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("open as gzip: %w", err)
	}
	scanner := bufio.NewScanner(io.LimitReader(unzipped, maxUnpacked+1))
	scanner.Buffer(make([]byte, 0, 4<<10), MaxLineBytes)
	var requests []Request
	var read int64
	for n := 1; scanner.Scan(); n++ {
		read += int64(len(scanner.Bytes())) + 1
		if err := errors.Join(limit("unpacked bytes", read, maxUnpacked), limit("requests", int64(n), MaxRequests)); err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		request, err := decodeLine(scanner.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if k := len(requests); k > 0 && request.At < requests[k-1].At {
			return nil, fmt.Errorf("line %d: timestamp %v is before its predecessor's %v", n, request.At, requests[k-1].At)
		}
		requests = append(requests, request)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("after %d requests: %w", len(requests), err)
	}
	return requests, nil
}

func decodeLine(data []byte) (Request, error) {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return Request{}, fmt.Errorf("not a trace request: %w", err)
	}
	if err := l.check(); err != nil {
		return Request{}, err
	}
	blocks := make([]uint32, len(l.HashIDs))
	for i, id := range l.HashIDs {
		blocks[i] = uint32(id)
	}
	return Request{
		At:           time.Duration(l.Timestamp) * time.Millisecond,
		InputLength:  int(l.InputLength),
		OutputLength: int(l.OutputLength),
		Blocks:       blocks,
	}, nil
}

func (l line) check() error {
	const week = 7 * 24 * 3600 * 1000
	if l.Timestamp < 0 || l.InputLength < 1 || l.OutputLength < 0 {
		return fmt.Errorf("timestamp %d, input_length %d, output_length %d: want >= 0, >= 1, >= 0", l.Timestamp, l.InputLength, l.OutputLength)
	}
	err := errors.Join(
		limit("timestamp in milliseconds", l.Timestamp, week),
		limit("input_length", l.InputLength, MaxTokens),
		limit("output_length", l.OutputLength, MaxTokens),
	)
	if err != nil {
		return err
	}
	if want := (l.InputLength + BlockSize - 1) / BlockSize; int64(len(l.HashIDs)) != want {
		return fmt.Errorf("%d hash_ids for %d tokens, want %d blocks of %d", len(l.HashIDs), l.InputLength, want, BlockSize)
	}
	for _, id := range l.HashIDs {
		if id < 0 {
			return fmt.Errorf("hash id %d is negative", id)
		}
		if err := limit("hash id", id, MaxBlockID); err != nil {
			return err
		}
	}
	return nil
}
