package why

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"sigs.k8s.io/yaml"
)

// Fixture is one situation.
type Fixture struct {
	Name       string           `json:"name"`
	Area       string           `json:"area"`
	Difficulty int              `json:"difficulty"`
	Needs      string           `json:"needs"`
	Config     Config           `json:"config"`
	Images     []Image          `json:"images"`
	Manifests  []map[string]any `json:"manifests"`
	Setup      []Step           `json:"setup"`
	Question   string           `json:"question"`
	Expected   Expected         `json:"expected"`
}

// Config is what is in force during the fixture.
type Config struct {
	Scheduler map[string]any `json:"scheduler"`
	Kubelet   map[string]any `json:"kubelet"`
}

// Image is an image to serve.
type Image struct {
	Ref    string `json:"ref"`
	From   string `json:"from"`
	Pad    any    `json:"pad"` // a number of bytes or a quantity
	User   string `json:"user"`
	Passwd string `json:"passwd"`
}

// Step is one action. Its fields depend on Do.
type Step struct {
	Do          string         `json:"do"`
	Name        string         `json:"name"` // of the action's target
	Kind        string         `json:"kind"`
	Namespace   string         `json:"namespace"`
	Objects     any            `json:"objects"`
	Object      string         `json:"object"`
	For         string         `json:"for"`
	Until       string         `json:"until"`
	Within      string         `json:"within"`
	Type        string         `json:"type"`
	Subresource string         `json:"subresource"`
	Patch       any            `json:"patch"`
	Manifest    map[string]any `json:"manifest"`
	Wait        *bool          `json:"wait"`
	Grace       *int64         `json:"gracePeriodSeconds"`
	Force       bool           `json:"force"`
	Node        string         `json:"node"`
	Pod         string         `json:"pod"`
	Ready       *bool          `json:"ready"`
	Heartbeat   string         `json:"heartbeat"`
	EndsPods    string         `json:"ends_pods"`
	Add         string         `json:"add"`
	Remove      string         `json:"remove"`
	Expect      any            `json:"expect"`
	Port        int            `json:"port"`
	Component   string         `json:"component"`
	State       string         `json:"state"`
	Config      map[string]any `json:"config"`
	Resolved    *Resolved      `json:"resolved_when"`
	registryStep
	unknown []string // fields that are none of these
}

// registryStep is what a step "registry" says.
type registryStep struct {
	Host string `json:"host"`
	Auth *Auth  `json:"auth"`
	Rate any    `json:"rate"` // bytes a second of each connection
	Push *Image `json:"push"`
}

// Auth is who may pull.
type Auth struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

// Expected is the right answer.
type Expected struct {
	Cause        string    `json:"cause"`
	MustMention  []Mention `json:"must_mention"`
	MustNotClaim []Claim   `json:"must_not_claim"`
	Remedies     []Remedy  `json:"remedies"`
	ResolvedWhen *Resolved `json:"resolved_when"`
	MinimalFix   string    `json:"minimal_fix"`
}

// Mention is a fact that needs one of its patterns.
type Mention struct {
	Fact string   `json:"fact"`
	Any  []string `json:"any"`
}

// Claim is a wrong cause.
type Claim struct {
	Claim string   `json:"claim"`
	Any   []string `json:"any"`
}

// Remedy is a change that is enough by itself.
type Remedy struct {
	Say      string    `json:"say"`
	Steps    []Step    `json:"steps"`
	Resolved *Resolved `json:"resolved_when"`
}

// Resolved says how a remedy's success shows.
type Resolved struct {
	Object string `json:"object"`
	Until  string `json:"until"`
	Within string `json:"within"`
}

// timedOut is busybox's wget with a time limit. Debian's static busybox is built without that
// option and ends with SIGSEGV when given it, and its shell runs its own wget whatever PATH says,
// so a container that is meant to get its page never would.
var timedOut = regexp.MustCompile(`(\bwget\b[^|;&\n]*?) -T ?\d+`)

func parse(raw []byte) (x Fixture, err error) {
	err = yaml.Unmarshal(timedOut.ReplaceAll(raw, []byte("$1")), &x)
	return x, err
}

// Load reads the fixtures below a directory whose names match.
func Load(dir string, only *regexp.Regexp) ([]Fixture, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "fixture.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no fixture below %s: want NAME/fixture.yaml", dir)
	}
	var out []Fixture
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		x, err := parse(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if only == nil || only.MatchString(x.Name) {
			out = append(out, x)
		}
	}
	return out, nil
}
