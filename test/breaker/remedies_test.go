package breaker

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/test/expect"
)

// reading matches commands that change nothing, or nodes that other breaks use too.
var reading = regexp.MustCompile(
	`^(kubectl( -n \S+)? (logs|get|describe|events|exec) |gantry |kubectl (uncordon|taint|label node) )[^|]*$`)

// kubeconfig serves a cluster's API without credentials on the loopback, for kubectl, and returns
// the file that says where.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	to, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host})
	}})
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\nusers: "+
		"[{name: a, "+
		"user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n", server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// commandsOf are the remedies with commands that change something, of the findings that tell a
// truth.
func commandsOf(a explain.Answer, all []truth) []finding.Remedy {
	var out []finding.Remedy
	for _, t := range all {
		i := find(a.Findings, t)
		if i < 0 {
			continue
		}
		for _, r := range a.Findings[i].Remedies {
			if len(r.Run) > 0 && !slices.ContainsFunc(r.Run, reading.MatchString) {
				out = append(out, r)
			}
		}
	}
	return out
}

// played is the seed and namespace of a break.
type played struct {
	seed      int64
	namespace string
}

// tryRemedies plays the break anew for each remedy, runs its commands and returns those after which
// no truth was mended, or something else was broken, with the reason.
func (b *breaker) tryRemedies(ctx context.Context, k kind, p played, remedies []finding.Remedy) (failed []string) {
	seed, namespace := p.seed, p.namespace
	for i, r := range remedies {
		fresh := fmt.Sprintf("%s-r%d", namespace, i)
		w, all := b.wordsOf(k, seed, fresh)
		defer b.remove(fresh)
		if err := b.setUp(ctx, k, w, fresh); err != nil {
			failed = append(failed, fmt.Sprintf("%q: set-up: %v", r.Say, err))
			continue
		}
		before, ok := b.until(ctx, fresh, w.in(k.ask),
			func(a explain.Answer) bool { return namedTruths(a, all) == len(all) })
		if !ok {
			failed = append(failed, fmt.Sprintf("%q: the break did not show again", r.Say))
			continue
		}
		if text, err := b.run(ctx, r.Run, namespace, fresh); err != nil {
			failed = append(failed, fmt.Sprintf("%q: %v: %s", r.Say, err, text))
			continue
		}
		after, ok := b.until(ctx, fresh, w.in(k.ask), func(a explain.Answer) bool {
			return namedTruths(a, all) < len(all) && len(newlyBroken(before, a)) == 0
		})
		if !ok {
			failed = append(failed, fmt.Sprintf("%q does not mend it: %d of %d breaks are told after it, and newly %v",
				r.Say, namedTruths(after, all), len(all), newlyBroken(before, after)))
		}
	}
	return failed
}

// namedTruths is how many truths an answer tells.
func namedTruths(a explain.Answer, all []truth) int {
	n := 0
	for _, t := range all {
		if find(a.Findings, t) >= 0 {
			n++
		}
	}
	return n
}

// newlyBroken are the codes of what is broken in the second answer and was not in the first. That
// nothing is ready follows from what of several breaks is still there.
func newlyBroken(before, after explain.Answer) []string {
	var out []string
	for _, f := range after.Findings {
		if f.Severity == finding.Broken && f.Code != "NoReadyPods" && !slices.ContainsFunc(before.Findings,
			func(x finding.Finding) bool { return x.Code == f.Code }) {
			out = append(out, f.Code)
		}
	}
	return out
}

// until asks until an answer is as wanted, patience at most, and returns the last one.
func (b *breaker) until(ctx context.Context, namespace, ask string, good func(explain.Answer) bool) (a explain.Answer,
	ok bool) {
	ctx, cancel := expect.WithPatience(ctx, patience)
	defer cancel()
	changes := b.changes(ctx, namespace)
	for {
		x, err := b.ask(ctx, gather.Question{Namespace: namespace, About: ask, Now: time.Now().Add(ahead)})
		if err == nil {
			if a = x; good(a) {
				return a, true
			}
		}
		select {
		case <-changes:
		case <-time.After(time.Second): // what is not an object of the namespace has changed, perhaps
		case <-ctx.Done():
			return a, false
		}
	}
}

// run runs commands in a shell, on the objects of another namespace.
func (b *breaker) run(ctx context.Context, commands []string, namespace, fresh string) (string, error) {
	ctx, cancel := expect.WithPatience(ctx, 2*patience)
	defer cancel()
	script := strings.ReplaceAll(strings.Join(commands, "\n"), namespace, fresh)
	c := exec.CommandContext(ctx, "/bin/sh", "-ec", script)
	c.Env = append(os.Environ(), "KUBECONFIG="+b.kubeconfig)
	if b.programs != "" {
		c.Env = append(c.Env, "PATH="+b.programs+":"+os.Getenv("PATH"))
	}
	c.WaitDelay = time.Second
	raw, err := c.CombinedOutput()
	return strings.TrimSpace(string(raw)), err
}
