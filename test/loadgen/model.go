package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// firstModel asks the target for its models until it names one. The target may
// still be starting, so everything but a name means: ask again.
func firstModel(ctx context.Context, o Options) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, o.WaitForModel)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		name, err := askModel(ctx, client, o.Target)
		if err == nil {
			return name, nil
		}
		select {
		case <-time.After(modelPollInterval):
		case <-ctx.Done():
			return "", fmt.Errorf("ask %s/v1/models for a model within %v: %w; name one with --model, or wait longer", o.Target, o.WaitForModel, err)
		}
	}
}

func askModel(ctx context.Context, client *http.Client, base string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/models", nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }() // read already
	if res.StatusCode != http.StatusOK {
		return "", statusFailure(res)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxLineBytes)).Decode(&list); err != nil {
		return "", fmt.Errorf("decode the model list: %w", err)
	}
	if len(list.Data) == 0 {
		return "", fmt.Errorf("the model list is empty")
	}
	return list.Data[0].ID, nil
}
