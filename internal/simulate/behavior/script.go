package behavior

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// MarshalJSON writes a span as {"p50": "2s", "p99": "5s"}.
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"p50": s.P50.String(), "p99": s.P99.String()})
}

// UnmarshalJSON reads that, or one duration without spread: "2s".
func (s *Span) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		d, err := duration(text)
		*s = Fixed(d)
		return err
	}
	var both struct{ P50, P99 string }
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&both); err != nil {
		return fmt.Errorf("%s: write a duration such as 2s, or {p50: 2s, p99: 5s}", raw)
	}
	var err error
	if s.P50, err = duration(both.P50); err != nil {
		return err
	}
	if both.P99 == "" {
		both.P99 = both.P50
	}
	if s.P99, err = duration(both.P99); err == nil && s.P99 < s.P50 {
		err = fmt.Errorf("p99 %s: must not be less than p50 %s", both.P99, both.P50)
	}
	return err
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q: must be a duration such as 2s", text)
	}
	return d, nil
}

// Script is how containers of one workload, or of all others, behave: as a journal tells, or as a
// person writes it. What is nil is not told.
type Script struct {
	Start    *Span  `json:"start,omitempty"`
	Ready    *Span  `json:"ready,omitempty"`
	Stop     *Span  `json:"stop,omitempty"`
	Run      *Span  `json:"run,omitempty"`
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Memory is the most that a whole Pod takes.
	Memory *resource.Quantity `json:"memory,omitempty"`
	// Ends says that containers end by themselves after Run, whatever the restart policy.
	Ends bool `json:"ends,omitempty"`
}

// others is the key of workloads that a script does not name.
const others = "*"

// kinds are the controllers of Pods, as a person may write them.
var kinds = map[string]string{"deployment": "Deployment", "statefulset": "StatefulSet", "daemonset": "DaemonSet",
	"replicaset": "ReplicaSet", "replicationcontroller": "ReplicationController", "job": "Job"}

// ReadScripts reads YAML or JSON: scripts by deployment/NAME or NAMESPACE/deployment/NAME, or * for
// all others. Keys of the result are those of OwnerKey; * stays.
func ReadScripts(raw []byte, namespace string) (map[string]Script, error) {
	var named map[string]Script
	if err := yaml.UnmarshalStrict(raw, &named); err != nil {
		return nil, err
	}
	out := map[string]Script{}
	for name, s := range named {
		if name == others {
			out[name] = s
			continue
		}
		parts := strings.Split(name, "/")
		if len(parts) == 2 {
			parts = append([]string{namespace}, parts...)
		}
		kind := ""
		if len(parts) == 3 {
			kind = kinds[strings.ToLower(parts[1])]
		}
		if kind == "" {
			return nil, fmt.Errorf("%q: write deployment/NAME, NAMESPACE/deployment/NAME or %q", name, others)
		}
		out[parts[0]+"/"+kind+"/"+parts[2]] = s
	}
	return out, nil
}

// over puts what the script says in the place of times.
func (s Script) over(t Times) Times {
	for _, x := range []struct {
		from *Span
		to   *Span
	}{{s.Start, &t.Start}, {s.Ready, &t.Ready}, {s.Stop, &t.Stop}, {s.Run, &t.Run}} {
		if x.from != nil {
			*x.to = *x.from
		}
	}
	if s.ExitCode != nil {
		t.ExitCode = *s.ExitCode
	}
	if s.Memory != nil {
		t.Memory = s.Memory.Value()
	}
	t.Ends = t.Ends || s.Ends
	return t
}

// Play has workloads behave as scripts say.
func (m Model) Play(scripts map[string]Script) Model {
	if s, ok := scripts[others]; ok {
		m.Default = s.over(m.Default)
		for owner, t := range m.ByOwner {
			m.ByOwner[owner] = s.over(t)
		}
	}
	for owner, s := range scripts {
		if owner == others {
			continue
		}
		t, ok := m.ByOwner[owner]
		if !ok {
			t = m.Default
		}
		if m.ByOwner == nil {
			m.ByOwner = map[string]Times{}
		}
		m.ByOwner[owner] = s.over(t)
	}
	return m
}
