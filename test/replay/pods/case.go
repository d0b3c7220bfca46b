package pods

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"
)

// Case is one recorded case.
type Case struct {
	Name      string `json:"name"`
	Area      string `json:"area"`
	Namespace string `json:"namespace"`
	Steps     []Step `json:"steps"`
	Cleanup   string `json:"cleanup"` // "at t=1.5, after describe: …"

	Stability Stability
	Recorded  Recording

	// ByTurn ends the last sleep where the Pods are where the recorded ones were at its end, not by
	// the clock: a loop that turns faster or slower, within what is asked of times, would be found
	// at another turn.
	ByTurn bool `json:"-"`
}

// Stability says how far upstream repeated itself: "same", "same states", "same end", "same set",
// "differs".
type Stability struct{ History, Events string }

// Step is one step; exactly one field is set.
type Step struct {
	Create       json.RawMessage `json:"create"`
	Wait         *Wait           `json:"wait"`
	Sleep        float64         `json:"sleep"`
	Delete       *Delete         `json:"delete"`
	Patch        *Patch          `json:"patch"`
	Evict        *Target         `json:"evict"`
	Get          *Target         `json:"get"`
	Exec         *Exec           `json:"exec"`
	Logs         *Logs           `json:"logs"`
	Describe     *Target         `json:"describe"`
	Kubectl      []string        `json:"kubectl"`
	ManifestFile *ManifestFile   `json:"manifest-file"`
	Kubelet      string          `json:"kubelet"`
	TaskKill     *Exec           `json:"task-kill"`
}

// Target names a Pod, or another object by kind and name.
type Target struct{ Pod, Kind, Name string }

// Wait waits until a Pod or an object is so; its end by timeout (s) is no failure.
type Wait struct {
	Pod, Object, Until string
	Timeout            float64
}

// Delete deletes an object, a Pod unless Kind says otherwise.
type Delete struct {
	Kind, Name    string
	Grace         *int64
	Preconditions json.RawMessage
}

// Patch patches an object, a Pod unless Kind says otherwise; Type is strategic unless said.
type Patch struct {
	Kind, Name, Type, Subresource string
	Body                          json.RawMessage
}

// Exec runs a command in a container, or names a container.
type Exec struct {
	Pod, Container string
	Command        []string
}

// Logs reads a container's log.
type Logs struct {
	Pod, Container string
	Previous       bool
}

// ManifestFile writes or removes a file in the kubelet's static Pod folder.
type ManifestFile struct {
	Name    string
	Content json.RawMessage
	Remove  bool
}

// NeedsOwnInstance reports whether the case touches the node and so runs without others.
func (c *Case) NeedsOwnInstance() bool {
	return c.Area == "drain" || c.Area == "preemption" || c.Area == "node" || c.Name == "resize-deferred"
}

// StopsKubelet reports whether the case needs a kubelet that can be stopped while the rest of the
// cluster runs.
func (c *Case) StopsKubelet() bool {
	for _, s := range c.Steps {
		if s.Kubelet != "" {
			return true
		}
	}
	return false
}

// Recording is what was seen of one case, in the recordings' form.
type Recording struct {
	History  []map[string]any
	Events   []map[string]any
	Objects  []map[string]any
	Replies  []map[string]any
	Rows     []Row
	Describe []Text
	Output   []Command
	End      float64 // when cleaning up began, in seconds since the first step
}

// Row is a row of `kubectl get pods -o wide` without AGE.
type Row struct {
	T     float64
	Cells []string
}

// Text is what `kubectl describe pod` printed.
type Text struct {
	Pod  string
	Body []string
}

// Command is what a step printed.
type Command struct {
	Step int
	Line string
	Exit string
	Body []string
}

// Load reads every case below dir, sorted by name.
func Load(dir string) ([]Case, error) {
	stability := map[string]Stability{}
	raw, err := os.ReadFile(filepath.Join(dir, "stability.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &stability); err != nil {
		return nil, fmt.Errorf("stability.json: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "case.yaml"))
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	var out []Case
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text := shortBool.ReplaceAll(raw, []byte("$1\"$2\""))
		c, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		c.Stability = stability[c.Name]
		if c.Recorded, err = readRecording(filepath.Dir(path)); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscanf(c.Cleanup, "at t=%f,", &c.Recorded.End); err != nil {
			return nil, fmt.Errorf("%s: cleanup %q: %w", path, c.Cleanup, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no recordings", dir)
	}
	return out, nil
}

// Parse reads what is to be done in a case, as YAML, and refuses steps that cannot be done.
func Parse(text []byte) (Case, error) {
	var c Case
	if err := yaml.Unmarshal(text, &c); err != nil {
		return c, err
	}
	var steps struct{ Steps []json.RawMessage }
	if err := yaml.Unmarshal(text, &steps); err != nil {
		return c, err
	}
	for i, s := range steps.Steps {
		if err := checkStep(s); err != nil {
			return c, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return c, nil
}

// shortBool is a plain y or n, which is a text to the recorder and a boolean to this reader.
var shortBool = regexp.MustCompile(`(?m)((?:: |- ))([yYnN])$`)

// seconds are times since the first step; before it where the epoch stands for none.
var seconds = regexp.MustCompile(`\+\d+s\b|-\d{8,}s\b`)

// readRecording reads the files of a folder; a missing file had nothing to record.
func readRecording(dir string) (Recording, error) {
	var r Recording
	for name, into := range map[string]*[]map[string]any{"history": &r.History, "events": &r.Events,
		"objects": &r.Objects, "replies": &r.Replies} {
		raw, err := readIfThere(filepath.Join(dir, name+".jsonl"))
		if err != nil {
			return r, err
		}
		lines := bufio.NewScanner(bytes.NewReader(seconds.ReplaceAll(raw, []byte("<t>"))))
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var v map[string]any
			if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
				return r, fmt.Errorf("%s/%s.jsonl: %w", dir, name, err)
			}
			*into = append(*into, v)
		}
	}
	for name, parse := range map[string]func(string){"get": r.parseRows, "describe": r.parseDescribe,
		"output": r.parseOutput} {
		raw, err := readIfThere(filepath.Join(dir, name+".txt"))
		if err != nil {
			return r, err
		}
		parse(string(raw))
	}
	return r, nil
}

// SayWhyNoSandbox lets the recorded conditions say why there is no sandbox, which v1.36.3 left out:
// a kubelet alone emulates no version.
func (r *Recording) SayWhyNoSandbox() {
	for _, line := range r.History {
		conditions, _ := dig(line, "status", "conditions").([]any)
		for _, c := range conditions {
			m, ok := c.(map[string]any)
			if ok && m["type"] == "PodReadyToStartContainers" && m["status"] == "False" && m["reason"] == nil {
				m["reason"], m["message"] = "PodSandboxNotReady", "<newer>"
			}
		}
	}
}

func readIfThere(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

var gap = regexp.MustCompile(`\s{2,}`)

func (r *Recording) parseRows(text string) {
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		cells := gap.Split(strings.TrimSpace(line), -1)
		row := Row{Cells: cells[1:]}
		if _, err := fmt.Sscan(cells[0], &row.T); i == 0 || err != nil {
			continue
		}
		r.Rows = append(r.Rows, row)
	}
}

func (r *Recording) parseDescribe(text string) {
	for _, block := range strings.Split("\n"+text, "\n## ")[1:] {
		_, body, _ := strings.Cut(block, "\n")
		r.Describe = append(r.Describe, newText(body))
	}
}

var (
	rule       = regexp.MustCompile(`^  ----[- ]*$`)
	repeats    = regexp.MustCompile(`(\S+) \(x\d+ over \S+\)`)       // counts are compared with the Events
	thresholds = regexp.MustCompile(`#success=(\d+) #failure=(\d+)`) // as kubectl 1.36 put it
)

// newText splits what describe printed. The table of events is printed with single gaps: its
// columns depend on ages.
func newText(body string) Text {
	var t Text
	events := false
	for _, line := range strings.Split(strings.TrimSpace(body), "\n") {
		line = strings.TrimRight(line, " \t")
		if name, ok := strings.CutPrefix(line, "Name:"); ok && t.Pod == "" {
			t.Pod = strings.TrimSpace(name)
		}
		if strings.HasPrefix(line, "Events:") {
			events = true
		}
		line = seconds.ReplaceAllString(line, "<t>")
		if events {
			line = repeats.ReplaceAllString(rule.ReplaceAllString(gap.ReplaceAllString(line, "  "), "  ----"), "$1")
		}
		line = thresholds.ReplaceAllString(line, "successThreshold=$1 failureThreshold=$2")
		t.Body = append(t.Body, line)
	}
	return t
}

var (
	stepLine = regexp.MustCompile(`^step (\d+)\s+t=\S+\s+(.*)$`)
	exitLine = regexp.MustCompile(`^## exit (.*)$`)
)

// maskAges replaces the ages that describe prints of other objects than Pods.
func maskAges(line string) string {
	return strings.TrimSpace(gap.ReplaceAllString(age.ReplaceAllString(line, "<age>"), "  "))
}

var age = regexp.MustCompile(`\b(\d+m)?\d+s\b( \(x\d+ over (\d+m)?\d+s\))?`)

func (r *Recording) parseOutput(text string) {
	for _, block := range strings.Split("\n"+text, "\n## step ")[1:] {
		lines := strings.Split(strings.TrimRight("step "+block, "\n"), "\n")
		c := Command{Line: lines[0]}
		if m := stepLine.FindStringSubmatch(lines[0]); m != nil {
			_, _ = fmt.Sscan(m[1], &c.Step) // digits
			c.Line = m[2]
		}
		rest := lines[1:]
		// A command with line ends of its own fills several lines.
		for len(rest) > 0 && !exitLine.MatchString(rest[0]) {
			c.Line += "\n" + rest[0]
			rest = rest[1:]
		}
		if len(rest) > 0 {
			c.Exit = exitLine.FindStringSubmatch(rest[0])[1]
			c.Body = rest[1:]
		}
		r.Output = append(r.Output, c)
	}
}
