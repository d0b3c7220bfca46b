package app

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/gantry-project/gantry/test/reviews"
)

// The controllers' port answers as kube-controller-manager's: health to everybody, the rest to
// those who may.
func TestControllersServeHealthAndMetrics(t *testing.T) {
	cfg, at := reviews.Serve(t, nil), ""
	ctx, cancel := context.WithCancel(t.Context())
	p := ControllersPort{bound: func(a string) { at = a }, Lease: leaderelection.NewLeaderHealthzAdaptor(time.Second)}
	set := pflag.NewFlagSet("controllers", pflag.ContinueOnError)
	p.Flags(set)
	if p.port != 10257 {
		t.Errorf("port %d, want 10257", p.port)
	}
	p.address, p.port = "127.0.0.1", -1 // the system chooses
	stopped, err := p.Serve(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	// it signs itself
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer func() { browser.CloseIdleConnections(); cancel(); <-stopped }()
	for _, c := range []struct {
		path, token string
		code        int
		body        string
	}{
		{"/healthz", "", 200, "ok"},
		{"/healthz", "wrong", 401, "Unauthorized"},
		{"/healthz?verbose", "", 200, "[+]leaderElection ok\n"},
		{"/metrics", "", 403, "system:anonymous"},
		{"/metrics", "known", 403, "bob"},
		{"/metrics", "good", 200, "go_goroutines"},
		{"/metrics/slis", "good", 200, `kubernetes_healthcheck{name="leaderElection",type="healthz"} 1`},
		{"/flagz", "good", 200, "secure-port"},
		{"/statusz", "good", 200, "/metrics"},
		{"/nosuch", "good", 404, "404"},
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+at+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.code || !strings.Contains(string(body), c.body) {
			t.Errorf("GET %s with token %q: %d %.300s, want %d %s", c.path, c.token, resp.StatusCode, body, c.code,
				c.body)
		}
	}
	_, port, _ := net.SplitHostPort(at)
	taken := ControllersPort{}
	set = pflag.NewFlagSet("controllers", pflag.ContinueOnError)
	taken.Flags(set)
	taken.address = "127.0.0.1"
	taken.port, _ = strconv.Atoi(port)
	if _, err := taken.Serve(ctx, cfg); err != nil {
		t.Errorf("a default port that is taken: %v, want that the controllers go on", err)
	}
	if err := set.Set("secure-port", port); err != nil {
		t.Fatal(err)
	}
	if _, err := taken.Serve(ctx, cfg); err == nil {
		t.Error("a port that was asked for is taken: no error, want one that names --secure-port")
	}
}
