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

// Labels by which a container's Pod is known.
const (
	labelPodName   = "io.kubernetes.pod.name"
	labelNamespace = "io.kubernetes.pod.namespace"
)

const shortID = 13 // characters of an id that tables show

// ListOptions says what is wanted of a listing and how it is printed.
type ListOptions struct {
	ID         string            // full id or its beginning
	Name       string            // regular expression
	Namespace  string            // regular expression
	State      string            // ready, notready; created, running, exited, unknown; empty is all
	Pod        string            // id of the sandbox, for containers
	Image      string            // of the containers, or of images
	Labels     map[string]string // all of them must be there
	Latest     bool              // the newest only
	Last       int               // the newest so many; 0 is all
	Quiet      bool              // ids only
	NoTruncate bool              // ids are not shortened
	Digests    bool              // of images
	Output     string            // table, json, yaml; empty is table
	Now        time.Time
	Sample     time.Duration // over which use of the processor is measured
}

// Check names the first option that cannot be obeyed.
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

// named tells whether name and namespace are wanted ones.
func (l ListOptions) named(name, namespace string) bool {
	for expr, text := range map[string]string{l.Name: name, l.Namespace: namespace} {
		if r, err := regexp.Compile(expr); expr != "" && (err != nil || !r.MatchString(text)) {
			return false
		}
	}
	return true
}

// first is how many of n, the newest first, are wanted.
func (l ListOptions) first(n int) int {
	switch {
	case l.Latest:
		return min(n, 1)
	case l.Last > 0:
		return min(n, l.Last)
	}
	return n
}

// short is an id as tables show it.
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

// FindContainer returns the one container whose id begins so.
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
