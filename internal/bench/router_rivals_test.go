package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/interface/datalayer"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/interface/plugin"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/interface/requestcontrol"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/interface/scheduling"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/plugins/requestcontrol/dataproducer/approximateprefix"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/plugins/requesthandling/parsers/openai"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/plugins/scheduling/picker"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/plugins/scheduling/profile"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/plugins/scheduling/scorer/kvcacheutilization"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/plugins/scheduling/scorer/prefix"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/plugins/scheduling/scorer/queuedepth"
	epp "sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling"

	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// BenchmarkBodyToDecision takes the body of a chat of 120 KB, as bytes, to the
// endpoint that serves it and back to idle. One endpoint is warm, as for any
// later turn of a conversation.
//
// The rival is the scheduler of the Gateway API inference extension with its
// default scorers (prefix 3, queue 2, KV cache 2): parse, prepare, schedule, and
// the index update after it. Its metrics are not scraped in this, and it does not
// account for what is in flight.
func BenchmarkBodyToDecision(b *testing.B) {
	body := chatBody()
	for _, n := range []int{8, 64, 256} {
		b.Run(fmt.Sprintf("warmroute/endpoints=%d", n), func(b *testing.B) {
			c := router.Config{KVCacheTokens: 400_000}
			for i := range n {
				c.Endpoints = append(c.Endpoints, router.Endpoint{ID: fmt.Sprintf("e%03d", i), Weight: 1})
			}
			pool, err := router.New(c)
			if err != nil {
				b.Fatal(err)
			}
			var h tokenprefix.Hasher
			var sig tokenprefix.Signature
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.Body(&sig, tokenprefix.Scope{Tenant: "tenant-a"}, body); err != nil {
					b.Fatal(err)
				}
				d, err := pool.Pick(router.Request{Prefix: &sig})
				if err != nil {
					b.Fatal(err)
				}
				d.FirstToken()
				d.Release(router.Outcome{})
			}
		})
		b.Run(fmt.Sprintf("gie/endpoints=%d", n), func(b *testing.B) {
			s := newGIE(b, n)
			b.ReportAllocs()
			for b.Loop() {
				if err := s.decide(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// gieScheduler is the extension put together as its runner does by default.
type gieScheduler struct {
	ctx       context.Context
	parser    *openai.OpenAIParser
	prepare   requestcontrol.PrepareDataPlugin
	after     requestcontrol.PreRequest
	scheduler *epp.Scheduler
	endpoints []scheduling.Endpoint
	requests  int
}

func newGIE(b *testing.B, n int) *gieScheduler {
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	var names []types.NamespacedName
	s := &gieScheduler{ctx: ctx, parser: openai.NewOpenAIParser()}
	for i := range n {
		name := types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("e%03d", i)}
		names = append(names, name)
		s.endpoints = append(s.endpoints, scheduling.NewEndpoint(
			&datalayer.EndpointMetadata{NamespacedName: name, Address: "10.0.0.1", Port: "8000"}, datalayer.NewMetrics(), nil))
	}
	p, err := approximateprefix.ApproxPrefixCacheFactory("prefix", json.RawMessage(`{}`),
		plugin.NewEppHandle(ctx, func() []types.NamespacedName { return names }))
	if err != nil {
		b.Fatal(err)
	}
	s.prepare, s.after = p.(requestcontrol.PrepareDataPlugin), p.(requestcontrol.PreRequest)
	scorer, err := prefix.New(ctx)
	if err != nil {
		b.Fatal(err)
	}
	prof := epp.NewSchedulerProfile().WithScorers(
		epp.NewWeightedScorer(scorer, 3),
		epp.NewWeightedScorer(queuedepth.NewQueueScorer(), 2),
		epp.NewWeightedScorer(kvcacheutilization.NewKVCacheUtilizationScorer(), 2),
	).WithPicker(picker.NewMaxScorePicker(1))
	s.scheduler = epp.NewSchedulerWithConfig(epp.NewSchedulerConfig(
		profile.NewSingleProfileHandler(), map[string]scheduling.SchedulerProfile{"default": prof}))
	return s
}

func (s *gieScheduler) decide(body []byte) error {
	parsed, err := s.parser.ParseRequest(s.ctx, body, map[string]string{":path": "/v1/chat/completions"})
	if err != nil {
		return err
	}
	s.requests++
	r := &scheduling.LLMRequest{RequestId: fmt.Sprint(s.requests), TargetModel: "acme/chat-8b", Body: parsed}
	candidates := make([]scheduling.Endpoint, len(s.endpoints))
	for i, e := range s.endpoints {
		candidates[i] = scheduling.NewEndpoint(e.GetMetadata(), e.GetMetrics(), nil)
	}
	if err := s.prepare.PrepareRequestData(s.ctx, r, candidates); err != nil {
		return err
	}
	result, err := s.scheduler.Schedule(s.ctx, r, candidates)
	if err != nil {
		return err
	}
	s.after.PreRequest(s.ctx, r, result)
	return nil
}
