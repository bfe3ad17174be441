package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/warmroute/warmroute/examples/reverseproxy/record"
)

// recordTo has what goes through the gateway written to a new file, as an anonymous
// trace, until the function that it returns is called.
func (g *gateway) recordTo(path string) (handler http.Handler, stop func() error, err error) {
	recorder, err := record.New(record.Config{})
	if err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("-record: %w", err)
	}
	g.handler.Refine = recorder.Refine
	ctx, cancel := context.WithCancel(context.Background())
	written := make(chan error, 1)
	go func() { written <- recorder.Run(ctx, file) }()
	stop = func() error {
		cancel()
		return errors.Join(<-written, file.Close())
	}
	return recorder.Handler(g.handler), stop, nil
}
