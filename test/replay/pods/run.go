package pods

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Cluster is what cases run on.
type Cluster struct {
	URL    string
	Client *http.Client // an administrator's
	// Kubectl runs kubectl as an administrator.
	Kubectl func(ctx context.Context, args ...string) Printed
	// Manifests is the kubelet's static Pod folder.
	Manifests string
	// Folders maps folders of this instance to the names that recordings use.
	Folders []Folder
	// Names are names of this cluster and the common ones that stand for them: in what is recorded,
	// and in the names that steps use.
	Names []Folder
	// Kubelet stops or starts the kubelet alone; nil when it cannot be done.
	Kubelet func(ctx context.Context, what string) error
	// Kill sends KILL to a container's process, or to the sandbox's when container is empty.
	Kill func(ctx context.Context, podUID, container string) error
}

// Send sends one request as the administrator. That what is created is there already is no error.
func (c *Cluster) Send(ctx context.Context, method, path, kind, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	res, err := c.Client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode >= 300 && res.StatusCode != http.StatusConflict {
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	return nil
}

// Printed is what a command printed.
type Printed struct {
	Out, Err string
	Exit     int
}

// Folder is a folder under its real and its usual name.
type Folder struct{ Real, Normalized string }

// podRun is one case while it runs.
type podRun struct {
	cluster   *Cluster
	c         *Case
	watch     *caseWatch
	kinds     kinds
	out       Recording
	deletions map[string]int // how often Pods of a name had gone when the last step that does something was done
}

// Run lives one case and returns what was seen. An error means that the case could not be lived at
// all.
func Run(ctx context.Context, cluster *Cluster, c *Case) (Recording, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	l := &podRun{cluster: cluster, c: c}
	if err := l.open(ctx); err != nil {
		return l.out, err
	}
	defer l.close(context.WithoutCancel(ctx))
	for i, s := range c.Steps {
		if s.Wait == nil && s.Sleep == 0 {
			l.deletions = l.watch.deletedCount()
		}
		if err := l.step(ctx, i, s); err != nil {
			return l.out, fmt.Errorf("step %d: %w", i, err)
		}
	}
	for _, name := range l.watch.names() {
		if err := l.describe(name); err != nil {
			return l.out, err
		}
	}
	l.out.End = l.watch.now()
	if err := l.cleanUp(ctx); err != nil {
		return l.out, err
	}
	l.watch.stop()
	l.out.History, l.out.Rows, l.out.Events, l.out.Objects = l.watch.history, l.watch.rows, l.watch.events,
		l.watch.objects
	return l.out, nil
}

// open makes the namespace, waits for what controllers put into it, and starts the watches.
func (l *podRun) open(ctx context.Context) error {
	var err error
	if l.kinds, err = discoverKinds(l.cluster.URL, l.cluster.Client); err != nil {
		return fmt.Errorf("what the server serves: %w", err)
	}
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, l.c.Namespace)
	for tries := 0; ; tries++ {
		a, err := l.send(ctx, request{Method: http.MethodPost, Path: "/api/v1/namespaces", Body: []byte(body)})
		if err != nil {
			return err
		}
		if a.code == http.StatusCreated {
			break
		}
		if a.code != http.StatusConflict || tries == 60 { // the case's last life is still being removed
			return fmt.Errorf("namespace %s: %d %s", l.c.Namespace, a.code, a.body)
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	for _, path := range []string{"/serviceaccounts/default", "/configmaps/kube-root-ca.crt"} {
		if err := l.poll(ctx, 30*time.Second, "/api/v1/namespaces/"+l.c.Namespace+path, http.StatusOK); err != nil {
			return err
		}
	}
	l.watch = newWatch(l)
	return l.watch.start(ctx)
}

func (l *podRun) poll(ctx context.Context, within time.Duration, path string, code int) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		a, err := l.send(ctx, request{Method: http.MethodGet, Path: path})
		if err == nil && a.code == code {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: no answer %d within %s (%v)", path, code, within, err)
		}
	}
}

// controllers are deleted before Pods when a case ends.
var controllers = []string{"CronJob", "Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet"}

// cleanUp deletes the controllers in the background, then every Pod left with its own grace period,
// and records until all are gone.
func (l *podRun) cleanUp(ctx context.Context) error {
	for _, kind := range controllers {
		for _, name := range l.list(ctx, kind) {
			at, err := l.object(kind, name, "")
			if err != nil {
				return err
			}
			if _, err := l.send(ctx, request{Method: http.MethodDelete, Path: at,
				Body: []byte(`{"propagationPolicy":"Background"}`)}); err != nil {
				return err
			}
		}
	}
	for _, name := range l.watch.names() {
		if _, err := l.send(ctx, request{Method: http.MethodDelete, Path: l.pod(name, "")}); err != nil {
			return err
		}
	}
	l.watch.until(ctx, 60*time.Second, func(s *state) bool { return len(s.pods) == 0 })
	// The last events are written after the last Pod is gone.
	return pause(ctx, time.Second)
}

// close removes what is left, whatever happened.
func (l *podRun) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	l.watch.stop()
	for _, name := range l.watch.names() { // Pods that did not end
		_, _ = l.send(ctx, request{Method: http.MethodDelete, Path: l.pod(name, "") + "?gracePeriodSeconds=0"})
	}
	_, _ = l.send(ctx, request{Method: http.MethodDelete, Path: "/api/v1/namespaces/" + l.c.Namespace})
}

func pause(ctx context.Context, d time.Duration) error {
	select { // a recorded pause
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pod is the path of a Pod, or of its subresource.
func (l *podRun) pod(name, subresource string) string {
	p := "/api/v1/namespaces/" + l.c.Namespace + "/pods/" + name
	if subresource != "" {
		p += "/" + subresource
	}
	return p
}

type request struct {
	Method, Path, Type string
	Body               []byte
}

type answer struct {
	code    int
	headers http.Header
	body    []byte
}

func (l *podRun) send(ctx context.Context, r request) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, l.cluster.URL+l.realName(r.Path), bytes.NewReader(r.Body))
	if err != nil {
		return answer{}, err
	}
	if r.Type == "" {
		r.Type = "application/json"
	}
	req.Header.Set("Accept", "application/json")
	if len(r.Body) > 0 {
		req.Header.Set("Content-Type", r.Type)
	}
	res, err := l.cluster.Client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, body}, err
}

// nameserver is the part of a resolver's error that the recordings leave out.
var nameserver = regexp.MustCompile(`(lookup \S+) on \S+:53:`)

// normalizePaths replaces this instance's folders and nameservers by what the recordings use.
func (l *podRun) normalizePaths(text string) string {
	text = nameserver.ReplaceAllString(text, "$1:")
	for _, f := range slices.Concat(l.cluster.Folders, l.cluster.Names) {
		text = strings.ReplaceAll(text, f.Real, f.Normalized)
	}
	return text
}

// realName replaces common names by this cluster's.
func (l *podRun) realName(text string) string {
	for _, f := range l.cluster.Names {
		text = strings.ReplaceAll(text, f.Normalized, f.Real)
	}
	return text
}
