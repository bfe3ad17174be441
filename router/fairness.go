package router

// tenants knows how much prefill each tenant has caused since the queue was
// empty. The order of the queue counts what one is ahead of the least served
// that waits: a fair queue by virtual time (Demers, Keshav, Shenker, "Analysis
// and simulation of a fair queueing algorithm", SIGCOMM 1989), in which the
// tokens of prefill are the work.
type tenants struct {
	byName map[string]*tenant
}

type tenant struct {
	name    string
	waiting int // requests
	served  int // tokens
}

// arrive counts a waiting request. A tenant that had none waiting begins where
// the least served is: having been away is no credit.
func (t *tenants) arrive(name string) *tenant {
	if t.byName == nil {
		t.byName = make(map[string]*tenant)
	}
	one := t.byName[name]
	if one == nil {
		one = &tenant{name: name}
		t.byName[name] = one
	}
	if one.waiting == 0 {
		one.served = max(one.served, t.least())
	}
	one.waiting++
	return one
}

// leave counts a request that waits no more, and the tokens that were sent.
func (t *tenants) leave(one *tenant, sent int) {
	one.waiting--
	one.served += sent
	if one.waiting > 0 {
		return
	}
	least, any := t.leastWaiting()
	for name, other := range t.byName {
		if !any || other.waiting == 0 && other.served <= least {
			delete(t.byName, name)
		}
	}
}

func (t *tenants) least() int {
	least, _ := t.leastWaiting()
	return least
}

// leastWaiting is what the least served tenant that waits was served.
func (t *tenants) leastWaiting() (least int, any bool) {
	for _, one := range t.byName {
		if one.waiting > 0 && (!any || one.served < least) {
			least, any = one.served, true
		}
	}
	return least, any
}
