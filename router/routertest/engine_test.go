package routertest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/loadstats/scrape"
	"github.com/warmroute/warmroute/router/routertest"
)

// start returns an engine that runs so fast that tests don't wait.
func start(t testing.TB, c routertest.EngineConfig) *routertest.Engine {
	t.Helper()
	if c.Speed == 0 {
		c.Speed = 10_000
	}
	e := routertest.NewEngine(c)
	t.Cleanup(e.Close)
	return e
}

func post(t testing.TB, url, body string) (*http.Response, string) {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(b)
}

type completion struct {
	ID      string
	Object  string
	Model   string
	Created int64
	Choices []struct {
		Message      struct{ Role, Content string }
		Delta        struct{ Role, Content string }
		Text         string
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens        int `json:"prompt_tokens"`
		CompletionTokens    int `json:"completion_tokens"`
		TotalTokens         int `json:"total_tokens"`
		PromptTokensDetails struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

func parse(t testing.TB, text string) completion {
	t.Helper()
	var c completion
	require.NoError(t, json.Unmarshal([]byte(text), &c), text)
	return c
}

// chat is the body of a chat with the given system text and user turns.
func chat(model, system string, extra string, turns ...string) string {
	messages := []map[string]string{{"role": "system", "content": system}}
	for i, turn := range turns {
		messages = append(messages, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": turn})
	}
	b, err := json.Marshal(messages)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"model":%q,"messages":%s%s}`, model, b, extra)
}

func TestEngine_Chat(t *testing.T) {
	e := start(t, routertest.EngineConfig{Model: "m"})
	system := strings.Repeat("All parcels are weighed. ", 400)
	res, text := post(t, e.URL+"/v1/chat/completions", chat("m", system, `,"max_tokens":7`, "Why?"))
	first := parse(t, text)
	if res.StatusCode != 200 || first.Object != "chat.completion" || first.Choices[0].Message.Content != strings.Repeat(" tok", 7) || first.Choices[0].FinishReason != "length" {
		t.Errorf("status %d: %s", res.StatusCode, text)
	}
	u := first.Usage
	if want := (len(system) + len("<|system|><|user|>Why?<|assistant|>") + 3) / 4; u.PromptTokens != want || u.CompletionTokens != 7 || u.TotalTokens != want+7 || u.PromptTokensDetails.CachedTokens != 0 {
		t.Errorf("usage %+v, want %d prompt tokens, none cached", *u, want)
	}
	_, text = post(t, e.URL+"/v1/chat/completions", chat("m", system, ``, "Why?", "Because.", "Since when?"))
	second := parse(t, text)
	if got := second.Usage.PromptTokensDetails.CachedTokens; got != u.PromptTokens/16*16 {
		t.Errorf("the next turn has %d tokens cached, want the %d full blocks' of the first", got, u.PromptTokens/16)
	}
	if second.Usage.CompletionTokens != 100 {
		t.Errorf("%d tokens without max_tokens, want 100", second.Usage.CompletionTokens)
	}
	if s := e.Stats(); s.Requests != 2 || s.Running != 0 || s.Waiting != 0 || s.CachedTokens != second.Usage.PromptTokensDetails.CachedTokens || s.GenerationTokens != 107 || s.Busy == 0 || s.KVCacheUsage != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestEngine_WhatTellsCachesApart(t *testing.T) {
	system := strings.Repeat("All parcels are weighed. ", 400)
	base := chat("m", system, ``, "Why?")
	for _, c := range []struct {
		name, body string
		hit        bool
	}{
		{"the same", base, true},
		{"parts", strings.Replace(base, `"content":"Why?"`, `"content":[{"type":"text","text":"Why?"}]`, 1), true},
		{"sampling", chat("m", system, `,"temperature":0.5,"user":"x"`, "Why?"), true},
		{"another model", chat("n", system, ``, "Why?"), false},
		{"a salt", chat("m", system, `,"cache_salt":"s"`, "Why?"), false},
		{"tools", chat("m", system, `,"tools":[{"type":"function"}]`, "Why?"), false},
		{"another system text", chat("m", "No. "+system, ``, "Why?"), false},
	} {
		e := start(t, routertest.EngineConfig{})
		post(t, e.URL+"/v1/chat/completions", base)
		_, text := post(t, e.URL+"/v1/chat/completions", c.body)
		if got := parse(t, text).Usage.PromptTokensDetails.CachedTokens > 0; got != c.hit {
			t.Errorf("%s: cached = %v, want %v", c.name, got, c.hit)
		}
	}
}

func TestEngine_Stream(t *testing.T) {
	e := start(t, routertest.EngineConfig{})
	for _, c := range []struct{ path, object, body string }{
		{"/v1/chat/completions", "chat.completion.chunk", chat("m", "Hello", `,"stream":true,"max_tokens":40,"stream_options":{"include_usage":true}`, "you")},
		{"/v1/completions", "text_completion", `{"model":"m","prompt":"Hello you","stream":true,"max_tokens":40,"stream_options":{"include_usage":true}}`},
	} {
		res, text := post(t, e.URL+c.path, c.body)
		if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
			t.Errorf("%s: Content-Type %s", c.path, got)
		}
		var content strings.Builder
		usages, done, finish := 0, false, ""
		for line := range strings.Lines(text) {
			event, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
			switch {
			case !ok:
			case done:
				t.Errorf("%s: %q after the end", c.path, event)
			case event == "[DONE]":
				done = true
			default:
				got := parse(t, event)
				if got.Model != "m" || got.ID == "" || got.Created == 0 || got.Object != c.object {
					t.Errorf("%s: event %s", c.path, event)
				}
				for _, choice := range got.Choices {
					content.WriteString(choice.Delta.Content + choice.Text)
					finish += choice.FinishReason
				}
				if got.Usage != nil {
					usages++
					if got.Usage.CompletionTokens != 40 {
						t.Errorf("%s: usage %+v", c.path, *got.Usage)
					}
				}
			}
		}
		if content.String() != strings.Repeat(" tok", 40) || usages != 1 || !done || finish != "length" {
			t.Errorf("%s: %d bytes of content, %d usages, done %v, finish %q", c.path, content.Len(), usages, done, finish)
		}
	}
}

// A later turn that quotes the answer finds it cached, but for the last token,
// which was never computed.
func TestEngine_CachesAnswers(t *testing.T) {
	e := start(t, routertest.EngineConfig{})
	_, text := post(t, e.URL+"/v1/chat/completions", chat("m", "Be brief.", `,"max_tokens":500`, "Why?"))
	first := parse(t, text)
	_, text = post(t, e.URL+"/v1/chat/completions", chat("m", "Be brief.", ``, "Why?", first.Choices[0].Message.Content, "Since when?"))
	bytes := len("<|system|>Be brief.<|user|>Why?<|assistant|>") + 4*499
	if got, want := parse(t, text).Usage.PromptTokensDetails.CachedTokens, bytes/64*16; got != want {
		t.Errorf("%d tokens cached, want %d", got, want)
	}
	// However long an answer may become, it is not hashed beyond reason.
	res, text := post(t, e.URL+"/v1/completions", `{"prompt":"x","max_tokens":2147483647}`)
	if res.StatusCode != 400 || !strings.Contains(text, "KV cache") {
		t.Errorf("status %d: %s", res.StatusCode, text)
	}
}

// The header says that a request was accepted; at this speed the first token is
// 15 s away.
func TestEngine_StreamsSendTheHeaderFirst(t *testing.T) {
	e := start(t, routertest.EngineConfig{Speed: 0.001})
	req, err := http.NewRequest("POST", e.URL+"/v1/completions", strings.NewReader(`{"prompt":"Hello","stream":true}`))
	require.NoError(t, err)
	req.Header.Set("endpoint-load-metrics-format", "TEXT")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	if s := e.Stats(); res.StatusCode != 200 || s.Requests != 1 || s.Running != 1 || s.GenerationTokens != 0 {
		t.Errorf("status %d, %+v, want an accepted request without tokens", res.StatusCode, s)
	}
	if got := res.Header.Get("endpoint-load-metrics"); got != "" {
		t.Errorf("a stream has a load report: %s", got)
	}
}

func TestEngine_BodyOfUnknownLength(t *testing.T) {
	e := start(t, routertest.EngineConfig{})
	body := io.MultiReader(strings.NewReader(`{"prompt":"Hello",`), strings.NewReader(`"max_tokens":1}`)) // sent in chunks
	res, err := http.Post(e.URL+"/v1/completions", "application/json", body)
	require.NoError(t, err)
	defer res.Body.Close()
	if res.StatusCode != 200 || e.Stats().Requests != 1 {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestEngine_BodyTooLarge(t *testing.T) {
	e := start(t, routertest.EngineConfig{})
	c, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: e\r\nContent-Length: %d\r\n\r\n", 64<<20+1)
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("status %d, want 413", res.StatusCode)
	}
}

// Time is the model's, and passes no faster than Speed allows.
func TestEngine_Time(t *testing.T) {
	const speed = 20
	e := start(t, routertest.EngineConfig{Speed: speed})
	body := `{"prompt":"` + strings.Repeat("x", 4*8192) + `","max_tokens":1}`
	began := time.Now()
	post(t, e.URL+"/v1/completions", body)
	elapsed := time.Since(began)
	// Four iterations of 2,048 tokens: 15 ms each, 75 µs a token, 1.1 ms for each
	// million of the 8192²/2 pairs.
	want := 4*15*time.Millisecond + 8192*75*time.Microsecond + 8192*8192/2*1100*time.Nanosecond/1000
	if got := e.Stats().Busy; got < want-time.Microsecond || got > want+time.Microsecond {
		t.Errorf("busy for %v, want %v", got, want)
	}
	if elapsed < want/speed {
		t.Errorf("answered after %v, %v of model time, want at least %v", elapsed, elapsed*speed, want)
	}
	post(t, e.URL+"/v1/completions", body)
	if got := e.Stats().Busy - want; got > 20*time.Millisecond {
		t.Errorf("busy for %v with a warm cache, want one short iteration", got)
	}
}

// Tokens of the same 10 ms share an event, but for the first and the last.
func TestEngine_StreamsCollectTokens(t *testing.T) {
	e := start(t, routertest.EngineConfig{})
	began := time.Now()
	_, text := post(t, e.URL+"/v1/completions", `{"prompt":"Hello","max_tokens":5000,"stream":true}`)
	most := int(time.Since(began)/(10*time.Millisecond)) + 3
	if got := strings.Count(text, `"index":0`); got < 1 || got > most || strings.Count(text, " tok") != 5000 {
		t.Errorf("%d tokens in %d events, want 5000 in at most %d", strings.Count(text, " tok"), got, most)
	}
}

func TestEngine_Completions(t *testing.T) {
	e := start(t, routertest.EngineConfig{})
	for _, prompt := range []string{`"Hello you"`, `[1,2,3]`, `["a","b"]`} {
		res, text := post(t, e.URL+"/v1/completions", `{"model":"m","prompt":`+prompt+`,"max_tokens":2}`)
		if got := parse(t, text); res.StatusCode != 200 || got.Object != "text_completion" || got.Choices[0].Text != " tok tok" {
			t.Errorf("prompt %s: status %d: %s", prompt, res.StatusCode, text)
		}
	}
}

func TestEngine_BadRequests(t *testing.T) {
	e := start(t, routertest.EngineConfig{KVCacheTokens: 1000})
	for _, c := range []struct{ path, body, says string }{
		{"/v1/chat/completions", ``, "unexpected end"},
		{"/v1/chat/completions", `not json`, "invalid character"},
		{"/v1/chat/completions", `{"messages":[]}`, "neither messages nor a prompt"},
		{"/v1/chat/completions", `{"messages":{}}`, "cannot unmarshal"},
		{"/v1/chat/completions", `{"prompt":"x"}`, "neither messages nor a prompt"},
		{"/v1/completions", `{"prompt":null}`, "neither messages nor a prompt"},
		{"/v1/completions", `{"prompt":""}`, "neither messages nor a prompt"},
		{"/v1/completions", `{"prompt":"x","max_tokens":0}`, "max_tokens 0"},
		{"/v1/completions", `{"prompt":"x","max_tokens":5000}`, "KV cache"},
	} {
		res, text := post(t, e.URL+c.path, c.body)
		var got struct{ Error struct{ Message string } }
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		if res.StatusCode != 400 || !strings.Contains(got.Error.Message, c.says) {
			t.Errorf("%s %s: status %d, %q, want 400 that says %q", c.path, c.body, res.StatusCode, got.Error.Message, c.says)
		}
	}
	for path, want := range map[string]int{"/v2/other": 404, "/health": 200, "/v1/chat/completions": 405} {
		res, err := http.Get(e.URL + path)
		require.NoError(t, err)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, res.StatusCode, want)
		}
	}
	if s := e.Stats(); s.Requests != 0 || s.Running+s.Waiting != 0 {
		t.Errorf("after refusals: %+v", s)
	}
}

// The pages are read by what reads real engines'.
func TestEngine_MetricsAndModels(t *testing.T) {
	e := start(t, routertest.EngineConfig{Model: "m", KVCacheTokens: 160_000})
	post(t, e.URL+"/v1/completions", `{"prompt":"Hello","max_tokens":3}`)
	s := scrape.Scraper{URL: func(string) string { return e.URL + "/metrics" }}
	r, err := s.Report(t.Context(), "e")
	require.NoError(t, err)
	running, ok1 := r.Running.Get()
	waiting, ok2 := r.Waiting.Get()
	usage, ok3 := r.KVCacheUsage.Get()
	capacity, ok4 := r.KVCacheTokens.Get()
	if !ok1 || !ok2 || !ok3 || !ok4 || running != 0 || waiting != 0 || usage != 0 || capacity != 160_000 {
		t.Errorf("report %v", r)
	}
	res, err := http.Get(e.URL + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	for _, want := range []string{
		`vllm:generation_tokens_total{engine="0",model_name="m"} 3.0`,
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 1.0`,
		`vllm:time_to_first_token_seconds_bucket{le="+Inf",engine="0",model_name="m"} 1.0`,
		`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="10000"} 1.0`,
	} {
		if !strings.Contains(string(page), want+"\n") {
			t.Errorf("the page lacks %s", want)
		}
	}
	models, err := http.Get(e.URL + "/v1/models")
	require.NoError(t, err)
	defer models.Body.Close()
	var list struct{ Data []struct{ ID string } }
	require.NoError(t, json.NewDecoder(models.Body).Decode(&list))
	if len(list.Data) != 1 || list.Data[0].ID != "m" {
		t.Errorf("models %+v", list)
	}
}

func TestEngine_LoadReport(t *testing.T) {
	e := start(t, routertest.EngineConfig{})
	for _, format := range []string{"TEXT", "JSON", "json"} {
		req, err := http.NewRequest("POST", e.URL+"/v1/completions", strings.NewReader(`{"prompt":"Hello","max_tokens":3}`))
		require.NoError(t, err)
		req.Header.Set("endpoint-load-metrics-format", format)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		res.Body.Close()
		r, err := loadstats.ParseORCA(time.Unix(1, 0), res.Header.Get("endpoint-load-metrics"))
		if waiting, ok := r.Waiting.Get(); err != nil || !ok || waiting != 0 {
			t.Errorf("%s: %v, %v", format, r, err)
		}
	}
}

func TestEngine_ManyAtOnce(t *testing.T) {
	e := start(t, routertest.EngineConfig{})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			body := chat("m", strings.Repeat("x", 1000*(i%5)), fmt.Sprintf(`,"max_tokens":%d,"stream":%v`, 1+i%9, i%2 == 0), fmt.Sprint(i))
			res, err := http.Post(e.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if err != nil || bytes.Count(b, []byte(" tok")) != 1+i%9 {
				t.Errorf("request %d: %v: %s", i, err, b)
			}
		})
	}
	wg.Wait()
	if s := e.Stats(); s.Requests != 50 || s.Running+s.Waiting != 0 {
		t.Errorf("stats %+v", s)
	}
}
