package reverseproxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// A gateway in front of two engines. The second turn of a conversation goes where
// the first one was.
func ExampleHandler() {
	engine := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"choices":[{"message":{"content":"Hello!"}}]}`)
	})
	e1, e2 := httptest.NewServer(engine), httptest.NewServer(engine)
	defer e1.Close()
	defer e2.Close()
	endpoints, err := router.ParseEndpoints(e1.URL, e2.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	pool, err := router.New(router.Config{Endpoints: endpoints})
	if err != nil {
		fmt.Println(err)
		return
	}
	gateway := httptest.NewServer(&reverseproxy.Handler{
		Router:       pool,
		Hasher:       new(tokenprefix.Hasher),
		ShowDecision: true,
	})
	defer gateway.Close()

	turn := `{"model":"m","messages":[{"role":"system","content":"` + strings.Repeat("Be brief. ", 500) + `"},{"role":"user","content":"Hi"}`
	first := ""
	for _, body := range []string{turn + `]}`, turn + `,{"role":"assistant","content":"Hello!"},{"role":"user","content":"Bye"}]}`} {
		res, err := http.Post(gateway.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		res.Body.Close()
		endpoint := res.Header.Get("X-Router-Endpoint")
		if first == "" {
			first = endpoint
		}
		fmt.Println(res.StatusCode, res.Header.Get("X-Router-Reason"), endpoint == first)
	}
	// Output:
	// 200 cold true
	// 200 warm true
}

// Adapters are loaded on some endpoints only, which their labels tell.
func ExampleHandler_refine() {
	pool, err := router.New(router.Config{Endpoints: []router.Endpoint{
		{ID: "e1", Weight: 1, Labels: map[string]string{"adapter": "law"}},
		{ID: "e2", Weight: 1, Labels: map[string]string{"adapter": "med"}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := &reverseproxy.Handler{
		Router: pool,
		Hasher: new(tokenprefix.Hasher),
		Scope:  reverseproxy.HeaderTenant("X-Tenant"),
		Refine: func(r *http.Request, m *tokenprefix.Meta, req *router.Request) {
			adapter := string(m.Model)
			req.Eligible = func(e *router.Endpoint) bool { return e.Labels["adapter"] == adapter }
		},
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(`{"model":"tax","prompt":"Hi"}`)))
	fmt.Println(w.Code, w.Body)
	// Output:
	// 503 {"error":{"message":"No endpoint can serve this request.","type":"server_error","param":null,"code":"no_endpoints"}}
}
