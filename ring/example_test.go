package ring_test

import (
	"fmt"
	"log"

	"github.com/warmroute/warmroute/ring"
)

func Example() {
	r, err := ring.New([]ring.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}, {ID: "c", Weight: 1}})
	if err != nil {
		log.Fatal(err)
	}
	const key = 42
	for i := range r.Walk(key) {
		fmt.Println(r.Member(i).ID)
	}
	home := r.Member(r.Lookup(key)).ID
	without, err := r.Without(home)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("without", home, "it goes to", without.Member(without.Lookup(key)).ID)
	// Output:
	// b
	// a
	// c
	// without b it goes to a
}

func ExampleBounded() {
	r, err := ring.New([]ring.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}, {ID: "c", Weight: 1}})
	if err != nil {
		log.Fatal(err)
	}
	b, err := r.Bound(ring.LoadBound{Factor: 1})
	if err != nil {
		log.Fatal(err)
	}
	for range 6 { // one hot key
		i := b.Acquire(42)
		fmt.Print(r.Member(i).ID, " ")
	}
	// Output: b a c b a c
}

// A StatefulSet grows from three pods to four: keys stay or move to the new one.
func ExampleOrdinals() {
	for key := range uint64(5) {
		fmt.Println(ring.Ordinals(3).Lookup(key), ring.Ordinals(4).AppendWalk(nil, key, 2))
	}
	// Output:
	// 0 [0 3]
	// 0 [0 1]
	// 0 [3 1]
	// 2 [3 1]
	// 1 [1 0]
}
