package debugpage_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy/debugpage"
	"github.com/warmroute/warmroute/router"
)

func ExamplePage() {
	page := new(debugpage.Page)
	pool, err := router.New(router.Config{
		Endpoints: []router.Endpoint{{ID: "e1", Weight: 1}, {ID: "e2", Weight: 0}},
		Hooks:     router.Hooks{Decided: page.Decided, Released: page.Released},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	page.Pool = pool
	mux := http.NewServeMux()
	mux.Handle("/debug/router", page)

	d, err := pool.Pick(router.Request{At: time.Unix(0, 0)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Release(router.Outcome{})
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/router?format=json", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	for _, e := range page.Snapshot().Endpoints {
		fmt.Println(e.ID, e.State, e.InFlight)
	}
	// Output:
	// 200 application/json
	// e1 serving 1
	// e2 draining 0
}
