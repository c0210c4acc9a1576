package jinja

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// decode reads JSON as Python's json does. The product has a reader of its own; this one shares nothing with it.
func decode(t testing.TB, data []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func decodeValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		if !strings.ContainsAny(token.String(), ".eE") {
			if n, err := strconv.ParseInt(token.String(), 10, 64); err == nil {
				return n, nil
			}
			return Big(token.String()), nil
		}
		return token.Float64()
	case json.Delim:
		if token == '[' {
			l := &List{}
			for d.More() {
				v, err := decodeValue(d)
				if err != nil {
					return nil, err
				}
				l.Items = append(l.Items, v)
			}
			_, err = d.Token()
			return l, err
		}
		dict := &Dict{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			dict.Set(key.(string), v)
		}
		_, err = d.Token()
		return dict, err
	}
	return token, nil
}
