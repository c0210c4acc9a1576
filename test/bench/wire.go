package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// maxMessage bounds the messages of this program's own two ends.
const maxMessage = 16 << 20

// readMessage reads one HTTP message, framed by length or in chunks, and returns its first line and body. It knows
// the headers the ends of this benchmark send, and no more.
func readMessage(in *bufio.Reader) (first string, body []byte, err error) {
	length, chunked := 0, false
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", nil, err
		}
		line = strings.TrimRight(line, "\r\n")
		if first == "" {
			first = line
			continue
		}
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); {
		case strings.EqualFold(name, "Content-Length"):
			if length, err = strconv.Atoi(value); err != nil || length < 0 || length > maxMessage {
				return "", nil, fmt.Errorf("content length %q", value)
			}
		case strings.EqualFold(name, "Transfer-Encoding"):
			chunked = strings.EqualFold(value, "chunked")
		}
	}
	if chunked {
		body, err = readChunks(in)
		return first, body, err
	}
	body = make([]byte, length)
	_, err = io.ReadFull(in, body)
	return first, body, err
}

func readChunks(in *bufio.Reader) (body []byte, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseUint(strings.TrimSpace(line), 16, 31)
		if err != nil || len(body)+int(size) > maxMessage {
			return nil, fmt.Errorf("chunk size %q", line)
		}
		start := len(body)
		body = append(body, make([]byte, size+2)...)
		if _, err := io.ReadFull(in, body[start:]); err != nil {
			return nil, err
		}
		body = body[:start+int(size)]
		if size == 0 {
			return body, nil
		}
	}
}

// caller is one kept connection of the client.
type caller struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	// least is the size a whole answer has at least.
	least int
}

func dial(address string, body string, least int) (*caller, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	request := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nUser-Agent: bench\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return &caller{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), request: []byte(request), least: least}, nil
}

var errWrongAnswer = errors.New("wrong answer")

// call makes one request and reads its whole answer.
func (c *caller) call() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	first, body, err := readMessage(c.in)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(first, "HTTP/1.1 200") || len(body) < c.least {
		return fmt.Errorf("%w: %s with %d bytes: %.200s", errWrongAnswer, first, len(body), body)
	}
	return nil
}
