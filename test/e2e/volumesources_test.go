package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// aPod is a Pod of one busybox container, and what is expected of it. Lines of spec and container
// are YAML.
type aPod struct {
	name           string
	image          string            // busybox:1.28 when empty
	spec           string            // lines of spec
	container      string            // lines of the container
	runs           map[string]string // what commands in the container print
	expectedOutput string            // a Pod that does not get to run: text of one of its events
	why            []string          // and what `gantry why` names
}

func (p aPod) yaml() string {
	indent := func(text string, by int) string {
		out := ""
		for line := range strings.Lines(strings.TrimSpace(text)) {
			if line = strings.TrimRight(line, "\n"); line != "" {
				out += strings.Repeat(" ", by) + line + "\n"
			}
		}
		return out
	}
	image := p.image
	if image == "" {
		image = "busybox:1.28"
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}}
spec:
  terminationGracePeriodSeconds: 1
%s  containers:
  - name: c
    image: %s
    command: [sh, -c, "trap 'exit 0' TERM; sleep 3600 & wait"]
%s---`, p.name, p.name, indent(p.spec, 2), image, indent(p.container, 4))
}

// applyAll applies Pods at once and checks each.
func (c *cluster) applyAll(pods []aPod) {
	manifest := ""
	for _, p := range pods {
		manifest += p.yaml()
	}
	c.apply(manifest)
	t := c.t
	for _, p := range pods {
		t.Run(p.name, func(t *testing.T) { c.forSubtest(t).check(p) })
	}
	for _, p := range pods {
		c.kubectl("delete", "pod", p.name, "--wait=false", "--now")
	}
}

func (c *cluster) check(p aPod) {
	if p.expectedOutput != "" {
		c.eventually(time.Minute, "an event of pod "+p.name+" that says "+p.expectedOutput, func() (string, bool) {
			out := c.kubectl("get", "events", "--field-selector", "involvedObject.name="+p.name, "-o",
				`jsonpath={range .items[*]}{.reason}: {.message}{"\n"}{end}`)
			return out, strings.Contains(out, p.expectedOutput)
		})
		if p.why != nil {
			why := c.gantry("why", "pod/"+p.name)
			for _, want := range p.why {
				if !strings.Contains(why, want) {
					c.t.Errorf("why does not say %q:\n%s", want, why)
				}
			}
		}
		return
	}
	c.waitFor("pod/"+p.name, "condition=Ready", time.Minute)
	for command, want := range p.runs {
		out, err := c.inside(p.name, command)
		if out = strings.TrimSpace(out); out != want {
			c.t.Errorf("%s: %q (%v), want %q", command, out, err, want)
		}
	}
}

// inside runs a command in container c of a Pod and returns what it printed; kubectl's own remarks
// are left out.
func (c *cluster) inside(pod, command string) (string, error) {
	cmd := exec.Command("kubectl", "--kubeconfig", c.Kubeconfig, "exec", pod, "-c", "c", "--", "sh", "-c",
		"{ "+command+"; } 2>&1; true")
	out, err := cmd.Output()
	return string(out), err
}
