package podplan_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected transcripts in testdata")

// row: RST-04
// row: RST-05
// row: ISE-01
// row: ISE-09
// row: ISE-21
// row: ISE-22
// row: ISE-25
// row: PWK-22
// row: ISE-08
// row: ISE-11
// row: ISE-30
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d scripts, %v, want some", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, want, _ := strings.Cut(string(raw), "----\n")
			got := play(t, text)
			if *rewrite {
				if err := os.WriteFile(file, []byte(text+"----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("go test -rewrite and look at the difference; got:\n%s", got)
			}
		})
	}
}

// play runs a script: one command a line, # begins a comment. See the functions of verbs.
func play(t *testing.T, text string) string {
	w := newSimulation()
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := w.command(words); err != nil {
			t.Fatalf("%q: got error %v, want none", line, err)
		}
	}
	return strings.Join(w.lines, "\n") + "\n"
}

func (w *simulation) command(words []string) error {
	args := map[string]string{}
	var names []string
	for _, x := range words[1:] {
		if k, v, ok := strings.Cut(x, "="); ok {
			args[k] = v
			continue
		}
		names = append(names, x)
	}
	switch words[0] {
	case "pod": // restart= grace= deadline=
		return w.podCommand(args)
	case "init", "sidecar", "app":
		// NAME exit=CODE after=DURATION term=DURATION|ignore policy= rule=CODE all-on=CODE
		// resize=restart
		return w.containerCommand(words[0], names[0], args)
	case "sick": // NAME liveness|startup: 3 s after each start
		s := w.scripts[names[0]]
		s.failedProbe = names[1]
		w.scripts[names[0]] = s
	case "fail": // NAME code= for=DURATION: its starts fail
		d, err := time.ParseDuration(args["for"])
		w.fails[names[0]] = fault{reason.Code(args["code"]), w.now.Add(d)}
		return err
	case "run": // DURATION
		d, err := time.ParseDuration(names[0])
		w.run(w.now.Add(d))
		return err
	case "delete": // grace=DURATION
		d, err := time.ParseDuration(args["grace"])
		w.log("! delete, grace %s", d)
		w.end, w.remove = &podplan.Termination{Cause: "deleted", RequestedAt: w.now, Grace: d}, true
		return err
	case "evict": // grace=DURATION
		d, err := time.ParseDuration(args["grace"])
		w.log("! evict, grace %s", d)
		w.end = &podplan.Termination{Cause: "evicted", Reason: "Evicted", RequestedAt: w.now, Grace: d}
		return err
	case "kill-pause": // the sandbox dies, its containers live on
		w.log("! sandbox dies alone")
		for i := range w.seen.Sandboxes {
			w.seen.Sandboxes[i].Ready = false
		}
	case "kill-sandbox":
		w.log("! sandbox dies")
		w.stopSandbox(w.seen.Sandbox().ID)
	case "restart-kubelet":
		w.log("! kubelet restarts")
		w.facts = podplan.Facts{Accepted: w.facts.Accepted}
		w.tries = map[string]podplan.Try{}
	case "resize": // NAME cpu=QUANTITY: granted by the node
		return w.resize(names[0], args["cpu"])
	case "debug": // NAME: an ephemeral container is added
		w.pod.Spec.EphemeralContainers = append(w.pod.Spec.EphemeralContainers,
			v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: names[0], Image: "img"}})
		w.scripts[names[0]] = script{after: 2 * time.Second}
	case "lost": // NAME: it ended while the runtime was down
		w.log("! %s exits while the runtime is down", names[0])
		w.finish(w.seen.Latest(names[0]).ID, w.now, 255)
	case "unknown": // NAME: the runtime does not know its state
		w.log("! the state of %s is not known", names[0])
		w.seen.Latest(names[0]).State = podplan.Unknown
	case "half-made": // NAME: a kubelet died between making and starting it
		w.seen.Containers = append(w.seen.Containers, podplan.Container{ID: "half", Name: names[0],
			Sandbox: w.seen.Sandbox().ID, State: podplan.Created, Created: w.now})
	case "forget-init": // NAME: somebody removes its record
		w.drop(w.seen.Latest(names[0]).ID)
	case "image": // NAME IMAGE: the definition changes
		for i := range w.pod.Spec.Containers {
			if c := &w.pod.Spec.Containers[i]; c.Name == names[0] {
				c.Image = names[1]
			}
		}
	default:
		return fmt.Errorf("unknown command %s", words[0])
	}
	return nil
}

func (w *simulation) podCommand(args map[string]string) error {
	if p := args["restart"]; p != "" {
		w.pod.Spec.RestartPolicy = v1.RestartPolicy(p)
	}
	for key, field := range map[string]**int64{"grace": &w.pod.Spec.TerminationGracePeriodSeconds,
		"deadline": &w.pod.Spec.ActiveDeadlineSeconds} {
		if v := args[key]; v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return err
			}
			*field = &n
		}
	}
	return nil
}

func (w *simulation) containerCommand(kind, name string, args map[string]string) error {
	c := v1.Container{Name: name, Image: "img"}
	var s script
	var err error
	if v := args["after"]; v != "" {
		if s.after, err = time.ParseDuration(v); err != nil {
			return err
		}
	}
	code, _ := strconv.Atoi(args["exit"])
	s.code = int32(code)
	switch v := args["term"]; v {
	case "":
	case "ignore":
		s.term = -1
	default:
		if s.term, err = time.ParseDuration(v); err != nil {
			return err
		}
	}
	w.scripts[name] = s
	always := v1.ContainerRestartPolicyAlways
	if p := args["policy"]; p != "" {
		own := v1.ContainerRestartPolicy(p)
		c.RestartPolicy = &own
	}
	if r := args["all-on"]; r != "" {
		n, _ := strconv.Atoi(r)
		c.RestartPolicyRules = []v1.ContainerRestartRule{restartAllOn(int32(n))}
	}
	if args["resize"] == "restart" {
		c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer}}
	}
	if r := args["rule"]; r != "" {
		n, _ := strconv.Atoi(r)
		c.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action: v1.ContainerRestartRuleActionRestart,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
				Values: []int32{int32(n)}},
		}}
	}
	switch kind {
	case "app":
		w.pod.Spec.Containers = append(w.pod.Spec.Containers, c)
	case "sidecar":
		c.RestartPolicy = &always
		fallthrough
	case "init":
		w.pod.Spec.InitContainers = append(w.pod.Spec.InitContainers, c)
	}
	return nil
}
