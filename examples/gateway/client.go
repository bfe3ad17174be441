package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/warmroute/warmroute/internal/workload"
)

// client sends chat requests to a gateway and times the answers.
type client struct {
	http    *http.Client
	url     string
	clock   clock
	readers sync.Pool // *bufio.Reader
}

func newClient(base string, c clock) *client {
	return &client{
		http: &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: maxStreams,
			DisableCompression:  true,
			WriteBufferSize:     64 << 10, // bodies are large
		}},
		url:   base + "/v1/chat/completions",
		clock: c,
	}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// body writes the body of a request into dst.
func body(dst []byte, r *workload.Request) []byte {
	dst = r.Prompt.ChatBody(dst[:0], model, r.Answer.Tokens, true)
	return append(dst[:len(dst)-1], `,"stream_options":{"include_usage":true}}`...)
}

// do sends a body and reads the answer. A request without a full answer is a
// lost one.
func (c *client) do(ctx context.Context, body []byte) sample {
	s := sample{sent: c.clock.elapsed()}
	s.err = c.stream(ctx, body, &s)
	s.e2e = c.clock.elapsed() - s.sent
	return s
}

var errIncomplete = errors.New("the stream ended early")

func (c *client) stream(ctx context.Context, body []byte, s *sample) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 512))
		return fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	in, ok := c.readers.Get().(*bufio.Reader)
	if !ok {
		in = bufio.NewReaderSize(nil, 4<<10)
	}
	in.Reset(res.Body)
	defer c.readers.Put(in)
	return c.read(in, s)
}

// read reads the events of an answer.
func (c *client) read(in *bufio.Reader, s *sample) error {
	complete := false
	for {
		line, err := in.ReadSlice('\n')
		if event, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			if s.ttft == 0 {
				s.ttft = c.clock.elapsed() - s.sent
			}
			switch {
			case bytes.HasPrefix(event, []byte("[DONE]")):
				complete = true
			case bytes.Contains(event, []byte(`"usage":{`)):
				if err := s.readUsage(event); err != nil {
					return err
				}
			}
		}
		switch {
		case err == io.EOF && complete && s.promptTokens > 0:
			return nil
		case err == io.EOF:
			return errIncomplete
		case err != nil:
			return err
		}
	}
}

func (s *sample) readUsage(event []byte) error {
	var e struct {
		Usage struct {
			PromptTokens        int `json:"prompt_tokens"`
			PromptTokensDetails struct {
				CachedTokens int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(event, &e); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	s.promptTokens, s.cachedTokens = e.Usage.PromptTokens, e.Usage.PromptTokensDetails.CachedTokens
	return nil
}
