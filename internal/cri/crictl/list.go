package crictl

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	units "github.com/docker/go-units"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Labels that identify a container's Pod.
const (
	labelPodName   = "io.kubernetes.pod.name"
	labelNamespace = "io.kubernetes.pod.namespace"
)

const shortID = 13 // length of ids in tables

// ListOptions select what to list and how to print it.
type ListOptions struct {
	ID         string            // full id or a prefix
	Name       string            // regular expression
	Namespace  string            // regular expression
	State      string            // ready, notready; created, running, exited, unknown; empty: all
	Pod        string            // sandbox id, for containers
	Image      string            // of the containers, or of images
	Labels     map[string]string // all must match
	Latest     bool              // only the newest
	Last       int               // only this many of the newest; 0: all
	Quiet      bool              // ids only
	NoTruncate bool              // ids are not shortened
	Digests    bool              // show digests of images
	Output     string            // table, json, yaml; empty: table
	Now        time.Time
	Sample     time.Duration // interval over which CPU use is measured
}

// Check returns an error for the first invalid option.
func (l ListOptions) Check(states ...string) error {
	if !slices.Contains([]string{"", "table", "json", "yaml"}, l.Output) {
		return fmt.Errorf("-o %s: must be table, json or yaml", l.Output)
	}
	if l.State != "" && !slices.Contains(states, strings.ToLower(l.State)) {
		return fmt.Errorf("--state %s: must be one of %s", l.State, strings.Join(states, ", "))
	}
	for flag, expr := range map[string]string{"--name": l.Name, "--namespace": l.Namespace} {
		if _, err := regexp.Compile(expr); err != nil {
			return fmt.Errorf("%s %q is no regular expression: %w", flag, expr, err)
		}
	}
	return nil
}

// named reports whether name and namespace match.
func (l ListOptions) named(name, namespace string) bool {
	for expr, text := range map[string]string{l.Name: name, l.Namespace: namespace} {
		if r, err := regexp.Compile(expr); expr != "" && (err != nil || !r.MatchString(text)) {
			return false
		}
	}
	return true
}

// first returns how many of n, newest first, to list.
func (l ListOptions) first(n int) int {
	switch {
	case l.Latest:
		return min(n, 1)
	case l.Last > 0:
		return min(n, l.Last)
	}
	return n
}

// short shortens an id for tables.
func (l ListOptions) short(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	if l.NoTruncate || len(id) <= shortID {
		return id
	}
	return id[:shortID]
}

func (l ListOptions) age(nanoseconds int64) string {
	return units.HumanDuration(l.Now.Sub(time.Unix(0, nanoseconds))) + " ago"
}

// table aligns rows as crictl does.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 20, 1, 3, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(t, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// lines prints ids only.
func lines(w io.Writer, ids []string) error {
	for _, id := range ids {
		if _, err := fmt.Fprintln(w, id); err != nil {
			return err
		}
	}
	return nil
}

func orUnknown(labels map[string]string, key string) string {
	if v, ok := labels[key]; ok {
		return v
	}
	return "unknown"
}

// FindContainer returns the only container whose id has the prefix; otherwise an error.
func FindContainer(list []*runtimeapi.Container, id string) (*runtimeapi.Container, error) {
	var found []*runtimeapi.Container
	for _, c := range list {
		if strings.HasPrefix(c.Id, id) {
			found = append(found, c)
		}
	}
	switch {
	case id == "" || len(found) == 0:
		return nil, fmt.Errorf("no container has an id that begins with %q: `gantry cri ps -a` lists them", id)
	case len(found) > 1:
		return nil, fmt.Errorf("%d containers have ids that begin with %q: give more of it", len(found), id)
	}
	return found[0], nil
}
