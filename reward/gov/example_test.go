package gov_test

import (
	"context"
	"fmt"

	"github.com/verigraph/verigraph/reward/gov"
)

// Two atomic claims, of which the second is not grounded: what rests on it is false without a call, and the judge is
// asked for the other derivation only.
func ExampleGraph_Verify() {
	nodes := []gov.Node{
		{Base: true, Holds: true},        // 0: grounded
		{Base: true, Holds: false},       // 1: a constant in disguise
		{Premises: []int{0}, Cell: 1},    // 2: rests on 0
		{Premises: []int{1, 2}, Cell: 1}, // 3: rests on 1 and 2
	}
	g, err := gov.New(nodes, []int{3}, gov.Defaults())
	if err != nil {
		panic(err)
	}
	got, err := g.Verify(context.Background(), func(_ context.Context, r gov.Request) (gov.Answer, error) {
		fmt.Println("asked about", r.Unit, "beside", r.Context)
		return gov.Answer{Wrong: -1}, nil
	}, 1)
	fmt.Println(got.States[2] == gov.True, got.States[3] == gov.Implied, got.Valid, got.First, got.Calls, err)
	// Output:
	// asked about [2] beside [0]
	// true true false 1 1 <nil>
}
