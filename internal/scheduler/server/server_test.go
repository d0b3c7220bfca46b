package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clientelection "k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/leaderelection"
	"github.com/gantry-project/gantry/internal/scheduler"
	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/test/reviews"
)

// startServer is a server whose API server knows the token "good" as alice, who may get /metrics
// and /configz, and "known" as bob, who may nothing.
func startServer(t *testing.T) func(path, token string) (int, string) {
	t.Helper()
	api := reviews.Serve(t, func(s authorization.SubjectAccessReviewSpec) bool {
		at := s.NonResourceAttributes
		return at != nil && at.Verb == "get" && !strings.HasPrefix(at.Path, "/debug")
	})
	client, err := kubernetes.NewForConfig(api)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.LeaderElection.LeaderElect, cfg.PercentageOfNodesToScore = new(false), new(int32(37))
	own, adaptive := *cfg.Profiles[0].DeepCopy(), *cfg.Profiles[0].DeepCopy()
	own.SchedulerName, own.PercentageOfNodesToScore = new("own"), new(int32(80))
	adaptive.SchedulerName, adaptive.PercentageOfNodesToScore = new("adaptive"), new(int32(0))
	cfg.Profiles = append(cfg.Profiles, own, adaptive)
	registry := metrics.NewKubeRegistry()
	s, err := scheduler.New(scheduler.Options{Client: fake.NewClientset(), Config: cfg, Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	at := ""
	flags := pflag.NewFlagSet("scheduler", pflag.ContinueOnError)
	flags.Int("secure-port", 10259, "")
	srv := &server{ServingOptions: ServingOptions{Address: "127.0.0.1:0", Flags: flags,
		Bound: func(a string) { at = a }}, client: client, config: cfg, metrics: registry,
		leaseHealth: clientelection.NewLeaderHealthzAdaptor(leaderelection.HealthTimeout), ready: s.Ready}
	stopped, err := srv.start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// it signs itself
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(func() {
		browser.CloseIdleConnections()
		cancel()
		<-stopped
	})
	return func(path, token string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
}

// row: SCH-17, SCH-34, OPS-11, OPS-12
func TestEndpointPermissions(t *testing.T) {
	get := startServer(t)
	for _, c := range []struct {
		path, token string
		code        int
		body        string
	}{
		{"/healthz", "", 200, "ok"},
		{"/healthz", "wrong", 401, `"message":"Unauthorized"`},
		{"/livez", "", 200, "ok"},
		{"/healthz?verbose", "", 200, "[+]leaderElection ok\nhealthz check passed\n"},
		{"/livez?verbose", "known", 200, "[+]ping ok\nlivez check passed\n"},
		// it does not run
		{"/readyz?verbose", "", 500,
			"[+]leaderElection ok\n[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check " +
				"failed\n"},
		{"/readyz/leaderElection", "", 403, "forbidden"},
		{"/readyz/leaderElection", "good", 200, "ok"},
		{"/metrics", "", 403,
			`"message":"forbidden: User \"system:anonymous\" cannot get path \"/metrics\"","reason":"Forbidden",` +
				`"details":{},"code":403}`},
		{"/metrics", "known", 403,
			`"message":"forbidden: User \"bob\" cannot get path \"/metrics\"","reason":"Forbidden","details":{},` +
				`"code":403}`},
		{"/metrics", "wrong", 401, `"reason":"Unauthorized"`},
		{"/metrics", "good", 200, `scheduler_pending_pods{queue="active"} 0`},
		{"/metrics", "good", 200, `gantry_scheduler_percentage_of_nodes_to_score{profile="default-scheduler"} 37`},
		{"/metrics", "good", 200, `gantry_scheduler_percentage_of_nodes_to_score{profile="own"} 80`},
		{"/metrics", "good", 200, `gantry_scheduler_percentage_of_nodes_to_score{profile="adaptive"} 0`},
		{"/metrics", "good", 200, `scheduler_cache_size{type="nodes"} 0`},
		{"/metrics", "good", 200, `gantry_scheduler_informer_last_event_timestamp_seconds`},
		{"/metrics", "good", 200, `scheduler_queued_entities{queue="gated",type="podgroup"} 0`},
		{"/metrics/slis", "known", 403, `"message":"forbidden: User \"bob\" cannot get path \"/metrics/slis\"",`},
		{"/metrics/slis", "good", 200, `kubernetes_healthcheck{name="ping",type="livez"} 1`},
		{"/metrics/slis", "good", 200,
			`kubernetes_healthchecks_total{name="leaderElection",status="success",type="healthz"}`},
		{"/flagz", "known", 403, "forbidden"},
		{"/flagz", "good", 200, "10259\n"},
		{"/statusz", "good", 200, "1.37.2\n"},
		{"/statusz", "good", 200, "/configz /flagz /healthz /livez /metrics /readyz\n"},
		{"/nosuch", "known", 403, "forbidden"},
		{"/nosuch", "good", 404, "404 page not found"},
		{"/configz", "good", 200, `"percentageOfNodesToScore"`},
		{"/debug/pprof/", "good", 403, "forbidden"},
	} {
		code, body := get(c.path, c.token)
		if c.path == "/configz" {
			var all map[string]map[string]any
			if err := json.Unmarshal([]byte(body), &all); err != nil ||
				all["componentconfig"]["kind"] != "KubeSchedulerConfiguration" ||
				all["componentconfig"]["percentageOfNodesToScore"] != 37.0 {
				t.Errorf("/configz: %v %s, want the configuration with percentageOfNodesToScore 37", err, body)
			}
			continue
		}
		if code != c.code || !strings.Contains(body, c.body) {
			t.Errorf("GET %s with token %q: %d %.300s, want %d %s", c.path, c.token, code, body, c.code, c.body)
		}
	}
}

// The file that --config names is what the scheduler runs with.
//
// row: SCH-17, SCH-34
func TestTheConfigurationFileIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	const text = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: default-scheduler
- schedulerName: batch-scheduler
  percentageOfNodesToScore: 70
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]string{
		"":                                     "[default-scheduler] elects true",
		"--config=" + file:                     "[default-scheduler batch-scheduler at 70] elects false",
		"--leader-elect=true --config=" + file: "[default-scheduler batch-scheduler at 70] elects true",
	} {
		var f Flags
		set := pflag.NewFlagSet("scheduler", pflag.ContinueOnError)
		f.Add(set)
		if err := set.Parse(strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		o, err := f.Options()
		if err != nil {
			t.Fatal(err)
		}
		if o.Serving == nil || !strings.HasSuffix(o.Serving.Address, ":10259") {
			t.Errorf("%q: serves health and metrics at %+v, want port 10259", flags, o.Serving)
		}
		var names []string
		for _, p := range o.Config.Profiles {
			name := *p.SchedulerName
			if p.PercentageOfNodesToScore != nil {
				name += fmt.Sprint(" at ", *p.PercentageOfNodesToScore)
			}
			names = append(names, name)
		}
		if got := fmt.Sprint(names, " elects ", *o.Config.LeaderElection.LeaderElect); got != want {
			t.Errorf("%q: got %s, want %s", flags, got, want)
		}
	}
	if _, err := ReadConfig(file + ".no"); err == nil || !strings.Contains(err.Error(), file+".no") {
		t.Errorf("a file that is not there: got error %v, want one that names it", err)
	}
}
