package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/tsdb"
)

// scrape stores what the targets expose, every interval until ctx ends.
func scrape(ctx context.Context, db *tsdb.DB, targets []string) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		for _, target := range targets {
			if err := once(ctx, db, target); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", target, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func once(ctx context.Context, db *tsdb.DB, target string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+target+"/metrics", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	p, err := textparse.New(body, res.Header.Get("Content-Type"), labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	app, now := db.Appender(ctx), time.Now().UnixMilli()
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return app.Commit()
		}
		if err != nil {
			return errors.Join(err, app.Rollback())
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		p.Labels(&l)
		_, _, value := p.Series()
		b := labels.NewBuilder(l)
		b.Set("instance", target)
		if _, err := app.Append(0, b.Labels(), now, value); err != nil {
			return errors.Join(err, app.Rollback())
		}
	}
}
