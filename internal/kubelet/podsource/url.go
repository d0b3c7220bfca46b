package podsource

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
)

// URL is where static Pods are asked for over HTTP.
type URL struct {
	Address string
	Header  http.Header  // of each request
	Client  *http.Client // nil: one that waits ten seconds
}

// PollURL puts the static Pods that a URL answers with, one or a list, into a Receiver until ctx
// ends. It is asked at each period; while it does not answer well, what it last said holds.
func PollURL(ctx context.Context, u URL, s StaticOptions) {
	a := &urlSource{staticSource: staticSource{StaticOptions: s, source: HTTP}, URL: u}
	if a.Interval <= 0 {
		a.Interval = defaultInterval
	}
	if a.Client == nil {
		a.Client = &http.Client{Timeout: 10 * time.Second}
	}
	tick := time.NewTicker(a.Interval)
	defer tick.Stop()
	last := ""
	for ctx.Err() == nil {
		err := a.poll(ctx)
		text := ""
		if err != nil && ctx.Err() == nil {
			text = err.Error()
			if text != last {
				klog.FromContext(ctx).Error(err, "Failed to read pods from URL")
				a.reportRefused(u.Address, err)
			}
		}
		last = text
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// urlSource is a URL of manifests.
type urlSource struct {
	staticSource
	URL
	last string // the answer that was last understood
}

func (a *urlSource) poll(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Address, nil)
	if err != nil {
		return err
	}
	req.Header = a.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	answer, err := a.Client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxManifest+1))
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", a.Address, answer.Status)
	case len(raw) > maxManifest:
		return fmt.Errorf("%s: the answer is larger than %d bytes", a.Address, maxManifest)
	case len(raw) == 0:
		a.last = ""
		a.staticSource.publish(nil) // as upstream: no Pods, and the source has spoken
		return fmt.Errorf("zero-length data received from %s", a.Address)
	case string(raw) == a.last:
		return nil
	}
	found, err := static.Parse(raw, static.Origin{Source: HTTP, Location: a.Address, Node: a.Node}, a.Rules, time.Now())
	if err != nil {
		return fmt.Errorf("%s: %w", a.Address, err)
	}
	for _, m := range found {
		a.reportUnknown(a.Address, m)
	}
	a.last = string(raw)
	a.staticSource.publish(found)
	return nil
}
