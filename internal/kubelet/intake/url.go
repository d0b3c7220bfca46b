package intake

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/intake/static"
)

// URL is where static Pods are asked for over HTTP.
type URL struct {
	Address string
	Header  http.Header  // of each request
	Client  *http.Client // nil: one that waits ten seconds
}

// Ask puts the static Pods that a URL answers with, one or a list, into a Receiver until ctx ends. It is asked at each period; while it does not answer well,
// what it last said holds.
func Ask(ctx context.Context, u URL, s Static) {
	a := &asked{follower: follower{Static: s, source: HTTP}, URL: u}
	if a.Every <= 0 {
		a.Every = defaultEvery
	}
	if a.Client == nil {
		a.Client = &http.Client{Timeout: 10 * time.Second}
	}
	tick := time.NewTicker(a.Every)
	defer tick.Stop()
	last := ""
	for ctx.Err() == nil {
		err := a.look(ctx)
		text := ""
		if err != nil && ctx.Err() == nil {
			text = err.Error()
			if text != last {
				klog.FromContext(ctx).Error(err, "Failed to read pods from URL")
				a.refused(u.Address, err)
			}
		}
		last = text
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// asked is a URL of manifests.
type asked struct {
	follower
	URL
	last string // the answer that was last understood
}

func (a *asked) look(ctx context.Context) error {
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
		a.follower.tell(nil) // as upstream: no Pods, and the source has spoken
		return fmt.Errorf("zero-length data received from %s", a.Address)
	case string(raw) == a.last:
		return nil
	}
	found, err := static.Any(raw, static.Origin{Source: HTTP, Place: a.Address, Node: a.Node}, a.Rules, time.Now())
	if err != nil {
		return fmt.Errorf("%s: %w", a.Address, err)
	}
	for _, m := range found {
		a.unknown(a.Address, m)
	}
	a.last = string(raw)
	a.follower.tell(found)
	return nil
}
